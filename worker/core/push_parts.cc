#include "worker/core/push_parts.h"

#include <algorithm>
#include <utility>

#include "shared/base/hash.h"

namespace downpour::worker {

bool is_empty(const wire::PartitionSet& set) {
  return std::all_of(set.words.begin(), set.words.end(), [](uint64_t w) { return w == 0; });
}
void subtract(wire::PartitionSet& set, const wire::PartitionSet& minus) {
  for (size_t w = 0; w < std::min(set.words.size(), minus.words.size()); ++w)
    set.words[w] &= ~minus.words[w];
}
void remove(wire::PartitionSet& set, PartitionId p) {
  if (raw(p) / 64 < set.words.size()) set.words[raw(p) / 64] &= ~(uint64_t{1} << (raw(p) % 64));
}

wire::PartitionSet all_partitions(const wire::View& view) {
  wire::PartitionSet all;
  all.words.resize((view.partitions.size() + 63) / 64);
  for (uint32_t p = 0; p < view.partitions.size(); ++p) all.insert(PartitionId{p});
  return all;
}

namespace {

// Keys and gradients of selected partitions, collected again from the frames of the first push.
struct Regrouped {
  std::vector<wire::Section> sections;
  std::vector<uint64_t> keys;
  std::vector<float> values;
};

Regrouped regroup(const std::vector<TableSpec>& tables, const PullPlan& plan,
                  const std::vector<Bytes>& gradients, const wire::PartitionSet& wanted) {
  Regrouped out;
  const uint32_t bits = plan.placements->partition_bits;
  for (uint32_t t = 0; t < tables.size(); ++t) {
    const TableSpec& table = tables[t];
    // One selected key: its message, and the float offset of its gradient for each variable of the
    // table.
    struct Chosen {
      size_t message;
      uint64_t key;
      std::vector<uint64_t> floats_at;
    };
    std::vector<Chosen> chosen;
    for (size_t m = 0; m < plan.messages.size(); ++m) {
      const PartMessage& message = plan.messages[m];
      uint64_t keys_at = 0;
      uint64_t floats_at = 0;
      for (const SectionRange& section : message.sections) {
        std::vector<uint64_t> table_variable_at(tables[raw(section.table)].table_variables.size());
        uint64_t size = 0;
        for (uint32_t i = 0; i < section.count; ++i) {
          const uint64_t key = message.keys.load<uint64_t>(keys_at + i);
          for (size_t k = 0; k < table_variable_at.size(); ++k)
            size += tables[raw(section.table)].row_floats(k, key);
        }
        if (raw(section.table) == t) {
          uint64_t at = floats_at;
          for (size_t k = 0; k < table_variable_at.size(); ++k) {
            table_variable_at[k] = at;
            for (uint32_t i = 0; i < section.count; ++i)
              at += table.row_floats(k, message.keys.load<uint64_t>(keys_at + i));
          }
          for (uint32_t i = 0; i < section.count; ++i) {
            const uint64_t key = message.keys.load<uint64_t>(keys_at + i);
            if (wanted.contains(partition_of(row_hash(section.table, key, table.group), bits)))
              chosen.push_back({m, key, table_variable_at});
            for (size_t k = 0; k < table_variable_at.size(); ++k)
              table_variable_at[k] += table.row_floats(k, key);
          }
        }
        keys_at += section.count;
        floats_at += size;
      }
    }
    if (chosen.empty()) continue;
    out.sections.push_back({TableId{t}, uint32_t(chosen.size())});
    for (const Chosen& c : chosen) out.keys.push_back(c.key);
    for (size_t k = 0; k < table.table_variables.size(); ++k) {
      for (const Chosen& c : chosen) {
        for (uint32_t f = 0; f < table.row_floats(k, c.key); ++f) {
          out.values.push_back(gradients[c.message].load<float>(c.floats_at[k] + f));
        }
      }
    }
  }
  return out;
}

/// Adds the parts that `message` covers, in one message if they fit.
void add_parts(const std::vector<TableSpec>& tables, uint64_t message_bytes_max, const Slot& slot,
               PushPart message, std::vector<PushPart>& parts) {
  if (slot.is_end() || slot.quarantined()) return parts.push_back(std::move(message));  // no keys
  const wire::PartitionSet covered = message.push.covered;
  Regrouped all = regroup(tables, slot.batch->plan, slot.gradients, covered);
  if (std::max(all.values.size() * 4, all.keys.size() * 8) <= message_bytes_max) {
    message.push.sections = std::move(all.sections);
    message.keys = Bytes::of(std::move(all.keys));
    message.values = Bytes::of(std::move(all.values));
    return parts.push_back(std::move(message));
  }
  // Too much for one message. Partitions with keys are sent one by one, a larger one in its
  // fragments. Partitions without keys are sent together.
  wire::PartitionSet bare;
  bare.words.resize(covered.words.size());
  covered.for_each([&](PartitionId p) {
    wire::PartitionSet one;
    one.words.resize(covered.words.size());
    one.insert(p);
    Regrouped rows = regroup(tables, slot.batch->plan, slot.gradients, one);
    if (rows.keys.empty()) return bare.insert(p);
    PushPart part = message;
    part.push.covered = one;
    const uint64_t bytes = std::max(rows.values.size() * 4, rows.keys.size() * 8);
    if (bytes > message_bytes_max) {  // every fragment again, as the plan cut it
      for (size_t m = 0; m < slot.batch->plan.messages.size(); ++m) {
        const PartMessage& planned = slot.batch->plan.messages[m];
        if (planned.fragments < 2 || !planned.covered.contains(p)) continue;
        PushPart fragment = message;
        fragment.push.covered = one;
        fragment.push.sections = planned.wire_sections();
        fragment.push.fragment = planned.fragment;
        fragment.push.fragments = planned.fragments;
        fragment.keys = planned.keys;
        fragment.values = slot.gradients[m];
        parts.push_back(std::move(fragment));
      }
      return;
    }
    part.push.sections = std::move(rows.sections);
    part.keys = Bytes::of(std::move(rows.keys));
    part.values = Bytes::of(std::move(rows.values));
    parts.push_back(std::move(part));
  });
  if (is_empty(bare)) return;
  message.push.covered = bare;
  parts.push_back(std::move(message));
}

}  // namespace

std::vector<PushPart> regrouped_parts(const std::vector<TableSpec>& tables,
                                      const Placements& placements, uint64_t message_bytes_max,
                                      const Slot& slot, const wire::Push& base) {
  std::vector<PushPart> parts;
  for (uint32_t o = 0; o < placements.view.owners.size(); ++o) {
    wire::PartitionSet unresolved = placements.covered[o];
    for (size_t w = 0; w < unresolved.words.size(); ++w)
      unresolved.words[w] &= w < slot.unresolved.words.size() ? slot.unresolved.words[w] : 0;
    for (const RowGroup group : groups_of(tables)) {
      PushPart message;
      message.to = address_of(placements.view.owners[o]);
      message.push = base;
      message.push.covered = covered_of(unresolved, placements, group);
      if (is_empty(message.push.covered)) continue;
      add_parts(tables, message_bytes_max, slot, std::move(message), parts);
    }
  }
  return parts;
}

}  // namespace downpour::worker
