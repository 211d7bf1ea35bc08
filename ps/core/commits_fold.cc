// Commits: adds up the gradients of the next step as they arrive, and asks for those that had no
// room.
#include <algorithm>
#include <utility>

#include "ps/core/commits.h"

namespace downpour::ps {
void Commits::on_expect(const wire::Expect& expect, Turn& turn) {
  if (!enabled() || config_.steps->backups > 0 || expect.version <= expect_.version) return;
  expect_ = expect;
  if (!finished_ && !agrees_with_expected(added_)) ask_for_all(turn);
  add_up(turn);
}

/// Returns whether these parts are the first ones of a step with the expected replicas.
bool Commits::agrees_with_expected(const std::vector<wire::StepPart>& added) const {
  if (added.size() > expect_.parts.size()) return false;
  for (size_t i = 0; i < added.size(); ++i) {
    const wire::StepPart& expected = expect_.parts[i];
    if (added[i].replica != expected.replica ||
        added[i].batch.shard_id() != expected.batch.shard_id())
      return false;
  }
  return true;
}

/// Returns the replica, with its shard, whose gradients can be added now; null if not known.
const wire::StepPart* Commits::next_to_add() const {
  if (finished_) return nullptr;
  const size_t next = added_.size() - (adding_ ? 1 : 0);
  return next < expect_.parts.size() ? &expect_.parts[next] : nullptr;
}

bool Commits::is_next_to_add(uint32_t number, BatchId batch) const {
  const wire::StepPart* const next = next_to_add();
  return next != nullptr && next->replica == number && next->batch.shard_id() == batch.shard_id();
}

/// Returns how much memory the parts may have that arrive before their turn.
uint64_t Commits::early_bytes_max() const {
  uint64_t dense_bytes = 0;
  uint32_t of = partitions_.count();  // partitions that have dense variables
  for (uint32_t t = 0; t < partitions_.table_count(); ++t) {
    const TableSpec& spec = partitions_.spec(TableId(t));
    if (spec.kind != TableKind::kDense) continue;
    dense_bytes += spec.table_variables[0].elements() * sizeof(float);
    if (spec.group != RowGroup::kAll) of = partitions_.count() / 2;
  }
  dense_bytes = dense_bytes * count(partitions_.stepped()) / of;
  return std::max(dense_bytes, config_.limits.step_early_bytes_max);
}

/// Adds the staged parts whose turn has come.
void Commits::add_up(Turn& turn) {
  for (const wire::StepPart* next = next_to_add(); next != nullptr; next = next_to_add()) {
    const uint32_t number = next->replica;
    const StagedReplica* const staged = stage_.find(number);
    if (staged == nullptr || !is_next_to_add(number, staged->batch)) break;
    if (!std::exchange(adding_, true)) added_.push_back({number, staged->batch});
    add_to_sum(number);
    if (!stage_.has(number, staged->batch, partitions_.stepped())) break;
    adding_ = false;
  }
  ask_for_refused(turn);
}

/// Asks for pushes that were refused: all of the replica whose turn it is, and as many others as
/// there is room for.
void Commits::ask_for_refused(Turn& turn) {
  if (stage_.refused().empty()) return;
  uint64_t bytes = stage_.bytes();
  for (const RefusedPush& push : stage_.refused()) {
    if (push.asked && !is_next_to_add(push.number, push.batch)) bytes += push.bytes;
  }
  const uint64_t most = early_bytes_max();
  for (RefusedPush& push : stage_.refused()) {
    if (push.asked) continue;
    const bool next = is_next_to_add(push.number, push.batch);
    if (!next && bytes + push.bytes > most) continue;
    if (!next) bytes += push.bytes;
    push.asked = true;
    ask_again(push, turn);
  }
}

/// Drops the sum and all parts of the step, because the sum has a part that the step will not have.
/// The workers send all parts again.
void Commits::ask_for_all(Turn& turn) {
  for (const auto& [number, staged] : stage_.replicas()) {
    for (const StagedReplica::Waiting& waiting : staged.waiting)
      answer(waiting.from, waiting.request, staged.batch, waiting.covered,
             wire::PartStatus::kSendAgain, turn);
  }
  for (const RefusedPush& push : stage_.refused()) {
    if (!push.asked) ask_again(push, turn);
  }
  stage_.clear();
  begin_sum();
}

}  // namespace downpour::ps
