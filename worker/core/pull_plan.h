// PullPlan: assigns the keys of a batch to messages and ps cores. If the view stays the same, the
// push has one message for each message of the plan.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/hash.h"
#include "shared/tensor/batch.h"
#include "shared/tensor/variables.h"
#include "shared/wire/member_messages.h"
#include "shared/wire/partition_set.h"
#include "shared/wire/push_messages.h"

namespace downpour::worker {

/// A view prepared for look-ups: the owner of each partition, and the partitions of each owner.
/// Immutable and shared.
struct Placements {
  wire::View view;
  uint32_t partition_bits = 0;
  std::vector<wire::PartitionSet> covered;  // by owner

  /// Returns the placements of a view, or null if the number of partitions is not a power of two in
  /// [2, 65536], or a partition has no owner.
  static std::shared_ptr<const Placements> of(wire::View view);
};

/// Returns the address for messages to an owner. It includes the number of the core, because the
/// cores of a ps process share its incarnation.
inline Incarnation address_of(const wire::Owner& owner) {
  return owner.thread == 0 ? owner.incarnation
                           : Incarnation{hash_combine(raw(owner.incarnation), owner.thread)};
}

/// Keys [begin, begin + count) of one table, in the order of the plan.
struct SectionRange {
  TableId table{};
  uint32_t begin = 0;
  uint32_t count = 0;
};

/// One message to one ps core: sections of keys, and the partitions that it covers, with or without
/// keys in them. Several fragments share one covered set and are applied together.
struct PartMessage {
  uint32_t owner = 0;  // index into View::owners
  wire::PartitionSet covered;
  std::vector<SectionRange> sections;
  Bytes keys;                // uint64, section by section
  uint64_t value_bytes = 0;  // bytes of the pulled values; also of the gradients
  uint32_t fragment = 0;
  uint32_t fragments = 1;
  bool of_step = true;  // false: of partitions of RowGroup::kAsync, in a job with groups

  std::vector<wire::Section> wire_sections() const;
};

/// Exactly one message, or one group of fragments, covers each partition. The keys of a table are
/// ordered so that the keys of each message are one range.
struct PullPlan {
  std::shared_ptr<const Placements> placements;
  std::vector<PartMessage> messages;
  std::vector<std::vector<uint32_t>> dense_blocks;  // by table id; empty for embedding tables
};

/// Returns the groups of partitions that the tables of a job have. A message covers partitions of
/// one group only, because a ps answers the parts of the groups at different times.
std::span<const RowGroup> groups_of(const std::vector<TableSpec>& tables);
/// Returns the partitions of `set` that belong to `group`.
wire::PartitionSet covered_of(const wire::PartitionSet& set, const Placements& placements,
                              RowGroup group);

/// Makes the plan. With one owner, and keys and values that fit into one message, nothing moves and
/// no key is hashed. Otherwise it reorders the unique keys of `batch` and renumbers its bags.
/// `message_bytes_max` limits the keys of a message and its values; a single partition with more is
/// cut into fragments.
PullPlan make_pull_plan(const std::vector<TableSpec>& tables,
                        std::shared_ptr<const Placements> placements, uint64_t message_bytes_max,
                        Batch& batch);

/// Calls visit(table, variable, floats_begin, key_begin, key_count, floats) for each run of rows in
/// the values frame of a message. Only this function knows the layout. floats_begin counts floats
/// from the start of the frame.
template <typename Visit>
void for_each_run(const std::vector<TableSpec>& tables, const PullPlan& plan,
                  const PartMessage& message, Visit&& visit) {
  uint64_t at = 0;
  for (const SectionRange& section : message.sections) {
    const TableSpec& table = tables[raw(section.table)];
    for (uint32_t m = 0; m < table.table_variables.size(); ++m) {
      uint64_t floats = 0;
      if (table.kind == TableKind::kEmbedding) {
        floats = uint64_t(section.count) * table.table_variables[m].dim;
      } else {
        for (uint32_t k = 0; k < section.count; ++k) {
          floats += table.row_floats(m, plan.dense_blocks[raw(section.table)][section.begin + k]);
        }
      }
      visit(section.table, m, at, section.begin, section.count, floats);
      at += floats;
    }
  }
}

}  // namespace downpour::worker
