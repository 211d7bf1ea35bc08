// Pull plan: which keys of a batch travel in which message to which ps core. A push answers its
// pull message by message.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/hash.h"
#include "shared/tensor/batch.h"
#include "shared/tensor/variables.h"
#include "shared/wire/messages.h"

namespace downpour::worker {

/// A view, ready for look-ups: who owns each partition, and what each owner covers. Immutable and
/// shared.
struct Placements {
  wire::View view;
  uint32_t partition_bits = 0;
  std::vector<wire::PartitionSet> covered;  // by owner

  /// The view must have 2^bits partitions, each with an owner; otherwise null.
  static std::shared_ptr<const Placements> of(wire::View view);
};

/// Where messages to an owner go. The cores of a ps process share its incarnation, so the core's
/// number is part of it.
inline Incarnation address_of(const wire::Owner& owner) {
  return owner.thread == 0 ? owner.incarnation
                           : Incarnation{hash_combine(raw(owner.incarnation), owner.thread)};
}

/// Keys [begin, begin + count) of one table, as the plan ordered them.
struct SectionRange {
  TableId table{};
  uint32_t begin = 0;
  uint32_t count = 0;
};

/// One message to one ps core: sections of keys, and the partitions it covers (with or without keys
/// in them). Several fragments share one covered set and are applied together.
struct PartMessage {
  uint32_t owner = 0;  // into View::owners
  wire::PartitionSet covered;
  std::vector<SectionRange> sections;
  Bytes keys;                // uint64, section by section
  uint64_t value_bytes = 0;  // of the pulled values and of the gradients
  uint32_t fragment = 0;
  uint32_t fragments = 1;

  std::vector<wire::Section> wire_sections() const;
};

/// Every partition is covered by exactly one group of fragments. Tables' keys are ordered so that
/// each message's keys of a table are one range.
struct PullPlan {
  std::shared_ptr<const Placements> placements;
  std::vector<PartMessage> messages;
  std::vector<std::vector<uint32_t>> dense_blocks;  // by table id; empty for embedding tables
};

/// Makes the plan. Reorders the unique keys of `batch` (and renumbers its bags) where more than one
/// message is needed; with one owner and one frame's worth of values nothing moves and no key is
/// hashed. `message_bytes_max` bounds the values of a message (a partition that alone is larger is
/// cut in fragments).
PullPlan make_pull_plan(const std::vector<TableSpec>& tables,
                        std::shared_ptr<const Placements> placements, uint64_t message_bytes_max,
                        Batch& batch);

/// Calls visit(table, member, floats_begin, key_begin, key_count, floats) for each run of rows in
/// the values frame of a message: the one place that knows the layout. floats_begin counts floats
/// from the frame's start.
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
