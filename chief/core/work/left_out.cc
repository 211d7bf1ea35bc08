#include "chief/core/work/left_out.h"

#include <algorithm>

namespace downpour::chief {

std::vector<LeftOut::Move> LeftOut::count(int64_t now_ns, const LeaseTable& table,
                                          const wire::Commit& commit) {
  std::vector<Move> moves;
  for (uint32_t number = 0; number < replicas_.size(); ++number) {
    Replica& replica = replicas_[number];
    const std::optional<uint32_t> shard = table.first_open_of(number);
    std::optional<Incarnation> worker;
    if (shard && !table.entry(*shard).holders.empty())
      worker = table.entry(*shard).holders.front().worker;
    if (shard != replica.shard || worker != replica.worker) {
      replica = {
          .shard = shard, .worker = worker, .since_ns = now_ns, .vain_moves = replica.vain_moves};
    }
    if (!worker) continue;
    const ShardId id{table.epoch(), *shard};
    if (std::ranges::any_of(commit.parts, [&](const wire::StepPart& part) {
          return part.batch.shard_id() == id;
        })) {
      replica.contributes = true;
      vain_moves_.erase(*worker);
      replica.in_a_row = replica.vain_moves = 0;
      continue;
    }
    const uint32_t doublings = std::min(replica.vain_moves, kDoublingsMax);
    const uint32_t steps = replica.contributes ? 2 : kFirstBatchSteps << doublings;
    const int64_t wait_ns = replica.contributes ? 0 : kFirstBatchNs << doublings;
    if (++replica.in_a_row < steps || now_ns - replica.since_ns < wait_ns) continue;
    replica.in_a_row = 0;
    replica.vain_moves += replica.contributes ? 0 : 1;
    const bool pauses = !replica.contributes && ++vain_moves_[*worker] >= 2;
    moves.push_back({number, *worker, pauses});
  }
  return moves;
}

}  // namespace downpour::chief
