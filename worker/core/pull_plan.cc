#include "worker/core/pull_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/hash.h"

namespace downpour::worker {
namespace {

uint64_t bytes_of_row(const TableSpec& table, uint64_t key) {
  uint64_t floats = 0;
  for (size_t m = 0; m < table.table_variables.size(); ++m) floats += table.row_floats(m, key);
  return floats * sizeof(float);
}

// The keys of one table while a plan is made.
struct Column {
  TableId table{};
  const TableSpec* spec = nullptr;
  std::vector<uint64_t>* keys = nullptr;
  size_t batch_table = SIZE_MAX;  // index into Batch::tables; SIZE_MAX: dense
  uint64_t embedding_bytes = 0;   // per row; 0: dense
  uint64_t bytes = 0;             // of all values
  std::vector<uint16_t> partition;
  std::vector<uint16_t> message;

  uint64_t row_bytes(uint64_t key) const {
    return embedding_bytes > 0 ? embedding_bytes : bytes_of_row(*spec, key);
  }
};

void add_section(PartMessage& message, TableId table, uint32_t begin, uint32_t count) {
  if (count > 0) message.sections.push_back({table, begin, count});
}

// Puts everything of one group into one message; nothing moves.
PartMessage whole_message(const std::vector<Column>& columns, const Placements& placements,
                          RowGroup group) {
  PartMessage message{.of_step = group != RowGroup::kAsync};
  message.covered = covered_of(placements.covered[0], placements, group);
  for (const Column& column : columns) {
    if (column.spec->group != group) continue;
    message.value_bytes += column.bytes;
    add_section(message, column.table, 0, uint32_t(column.keys->size()));
  }
  return message;
}

void fill_keys(PartMessage& message, const std::vector<Column>& columns) {
  size_t total = 0;
  for (const SectionRange& section : message.sections) total += section.count;
  if (total == 0) return;
  std::vector<uint64_t> keys(total);
  size_t at = 0;
  for (const SectionRange& section : message.sections) {
    const auto column = std::find_if(columns.begin(), columns.end(),
                                     [&](const Column& c) { return c.table == section.table; });
    std::copy_n(column->keys->begin() + section.begin, section.count,
                keys.begin() + std::ptrdiff_t(at));
    at += section.count;
  }
  message.keys = Bytes::of(std::move(keys));
}

// Assigns partitions to messages: whole partitions, up to the limit, owner by owner.
struct Grouping {
  std::vector<PartMessage> messages;
  std::vector<uint16_t> first_message;  // by partition
  bool fragmented = false;              // some partition has several messages
};

Grouping group_partitions(const Placements& placements, const std::vector<uint64_t>& bytes_of,
                          uint64_t bytes_max, bool grouped) {
  Grouping grouping;
  grouping.first_message.resize(bytes_of.size());
  for (uint32_t owner = 0; owner < placements.covered.size(); ++owner) {
    bool open = false;
    placements.covered[owner].for_each([&](PartitionId p) {
      const uint64_t bytes = bytes_of[raw(p)];
      const bool of_step = !grouped || group_of(p, uint32_t(bytes_of.size())) == RowGroup::kSync;
      open = open && grouping.messages.back().of_step == of_step;
      if (bytes > bytes_max) {  // a message of its own, in fragments
        const auto fragments = uint32_t((bytes + bytes_max - 1) / bytes_max) + 1;
        grouping.fragmented = true;
        grouping.first_message[raw(p)] = uint16_t(grouping.messages.size());
        for (uint32_t f = 0; f < fragments; ++f) {
          PartMessage message{
              .owner = owner, .fragment = f, .fragments = fragments, .of_step = of_step};
          message.covered.words.resize(placements.covered[owner].words.size());
          message.covered.insert(p);
          grouping.messages.push_back(std::move(message));
        }
        open = false;
        return;
      }
      if (!open || grouping.messages.back().value_bytes + bytes > bytes_max) {
        grouping.messages.push_back({.owner = owner, .of_step = of_step});
        grouping.messages.back().covered.words.resize(placements.covered[owner].words.size());
        open = true;
      }
      grouping.messages.back().covered.insert(p);
      grouping.messages.back().value_bytes += bytes;
      grouping.first_message[raw(p)] = uint16_t(grouping.messages.size() - 1);
    });
  }
  for (PartMessage& message : grouping.messages)
    message.value_bytes = 0;  // counted again below: values only
  return grouping;
}

// Fills the fragments of a partition one after the other.
void choose_messages(Column& column, const Grouping& grouping, uint64_t bytes_max,
                     std::vector<uint64_t>& filled) {
  for (size_t i = 0; i < column.message.size(); ++i) {
    const uint64_t size = std::max<uint64_t>(column.row_bytes((*column.keys)[i]), sizeof(uint64_t));
    uint16_t m = grouping.first_message[column.partition[i]];
    while (filled[m] + size > bytes_max &&
           grouping.messages[m].fragment + 1 < grouping.messages[m].fragments) {
      ++m;
    }
    filled[m] += size;
    column.message[i] = m;
  }
}

// Sorts a column's keys by message (stable counting sort) and renumbers the bags of the batch.
void reorder(Column& column, std::vector<PartMessage>& messages, Batch& batch) {
  std::vector<uint32_t> begin(messages.size() + 1, 0);
  for (const uint16_t m : column.message) ++begin[m + 1U];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  for (size_t m = 0; m < messages.size(); ++m) {
    add_section(messages[m], column.table, begin[m], begin[m + 1] - begin[m]);
    messages[m].value_bytes += (begin[m + 1] - begin[m]) * column.embedding_bytes;
  }
  for (size_t i = 0; column.embedding_bytes == 0 && i < column.message.size(); ++i)
    messages[column.message[i]].value_bytes += column.row_bytes((*column.keys)[i]);
  std::vector<uint64_t> sorted(column.keys->size());
  std::vector<uint32_t> place(column.keys->size());
  for (size_t i = 0; i < place.size(); ++i) {
    place[i] = begin[column.message[i]]++;
    sorted[place[i]] = (*column.keys)[i];
  }
  *column.keys = std::move(sorted);
  if (column.batch_table == SIZE_MAX) return;
  for (BagColumn& bag : batch.bags) {
    if (bag.table_index != column.batch_table) continue;
    for (uint32_t& key : bag.keys) key = place[key];
  }
}

}  // namespace

std::shared_ptr<const Placements> Placements::of(wire::View view) {
  auto placements = std::make_shared<Placements>();
  const size_t count = view.partitions.size();
  if (!std::has_single_bit(count) || count < 2 || count > (1U << 16) || view.owners.empty())
    return nullptr;
  placements->partition_bits = uint32_t(std::countr_zero(count));
  placements->covered.resize(view.owners.size());
  for (wire::PartitionSet& set : placements->covered) set.words.resize((count + 63) / 64);
  for (uint32_t p = 0; p < count; ++p) {
    const uint32_t owner = view.partitions[p].owner;
    if (owner >= view.owners.size()) return nullptr;
    placements->covered[owner].insert(PartitionId{p});
  }
  placements->view = std::move(view);
  return placements;
}

std::span<const RowGroup> groups_of(const std::vector<TableSpec>& tables) {
  static constexpr std::array kNone{RowGroup::kAll};
  static constexpr std::array kBoth{RowGroup::kSync, RowGroup::kAsync};
  if (tables.empty() || tables[0].group == RowGroup::kAll) return kNone;
  return kBoth;
}

wire::PartitionSet covered_of(const wire::PartitionSet& set, const Placements& placements,
                              RowGroup group) {
  if (group == RowGroup::kAll) return set;
  wire::PartitionSet of_group;
  of_group.words.resize(set.words.size());
  set.for_each([&](PartitionId p) {
    if (group_of(p, uint32_t(placements.view.partitions.size())) == group) of_group.insert(p);
  });
  return of_group;
}

std::vector<wire::Section> PartMessage::wire_sections() const {
  std::vector<wire::Section> out;
  out.reserve(sections.size());
  for (const SectionRange& section : sections) out.push_back({section.table, section.count});
  return out;
}

PullPlan make_pull_plan(const std::vector<TableSpec>& tables,
                        std::shared_ptr<const Placements> placements, uint64_t message_bytes_max,
                        Batch& batch) {
  PullPlan plan;
  plan.dense_blocks.resize(tables.size());
  std::vector<Column> columns;
  std::vector<std::vector<uint64_t>> dense_keys(tables.size());
  uint64_t bytes = 0;
  uint64_t key_count = 0;
  for (size_t t = 0; t < batch.tables.size(); ++t) {
    const TableSpec& spec = tables[raw(batch.tables[t].table)];
    const uint64_t row_bytes = bytes_of_row(spec, 0);
    columns.push_back({.table = batch.tables[t].table,
                       .spec = &spec,
                       .keys = &batch.tables[t].keys,
                       .batch_table = t,
                       .embedding_bytes = row_bytes,
                       .bytes = batch.tables[t].keys.size() * row_bytes,
                       .partition = {},
                       .message = {}});
    bytes += columns.back().bytes;
    key_count += batch.tables[t].keys.size();
  }
  for (uint32_t t = 0; t < tables.size(); ++t) {
    if (tables[t].kind != TableKind::kDense) continue;
    dense_keys[t].resize(tables[t].block_count());
    std::iota(dense_keys[t].begin(), dense_keys[t].end(), uint64_t{0});
    columns.push_back({.table = TableId{t},
                       .spec = &tables[t],
                       .keys = &dense_keys[t],
                       .bytes = tables[t].table_variables[0].elements() * sizeof(float),
                       .partition = {},
                       .message = {}});
    bytes += columns.back().bytes;
    key_count += dense_keys[t].size();
  }

  if (placements->covered.size() == 1 && bytes <= message_bytes_max &&
      key_count * 8 <= message_bytes_max) {
    for (const RowGroup group : groups_of(tables))
      plan.messages.push_back(whole_message(columns, *placements, group));
  } else {
    // The size of the keys limits a message too: a row of one float is smaller than its key.
    std::vector<uint64_t> bytes_of(placements->view.partitions.size());
    for (Column& column : columns) {
      column.partition.resize(column.keys->size());
      for (size_t i = 0; i < column.keys->size(); ++i) {
        const uint64_t key = (*column.keys)[i];
        const PartitionId p = partition_of(row_hash(column.table, key, column.spec->group),
                                           placements->partition_bits);
        column.partition[i] = uint16_t(raw(p));
        bytes_of[raw(p)] += std::max<uint64_t>(column.row_bytes(key), sizeof(uint64_t));
      }
    }
    Grouping grouping =
        group_partitions(*placements, bytes_of, message_bytes_max, groups_of(tables).size() > 1);
    std::vector<uint64_t> filled(grouping.messages.size());
    for (Column& column : columns) {
      column.message.resize(column.keys->size());
      // The usual case: one look-up per key.
      if (column.embedding_bytes > 0 && !grouping.fragmented) {
        for (size_t i = 0; i < column.message.size(); ++i) {
          column.message[i] = grouping.first_message[column.partition[i]];
        }
      } else {
        choose_messages(column, grouping, message_bytes_max, filled);
      }
      reorder(column, grouping.messages, batch);
    }
    plan.messages = std::move(grouping.messages);
  }
  for (PartMessage& message : plan.messages) fill_keys(message, columns);
  for (uint32_t t = 0; t < tables.size(); ++t) {
    plan.dense_blocks[t].assign(dense_keys[t].begin(), dense_keys[t].end());
  }
  plan.placements = std::move(placements);
  return plan;
}

}  // namespace downpour::worker
