// ChiefCore: the live line and the final summary.
#include <algorithm>

#include "chief/core/chief_core.h"
#include "chief/core/selection.h"

namespace downpour::chief {

void ChiefCore::show_progress(Turn& turn) {
  ProgressSnapshot snapshot = report_.progress(turn);
  snapshot.phase = phase_;
  snapshot.epoch = history_.epoch();
  snapshot.steps = steps_done();
  snapshot.bytes_done = bytes_ended_;
  for (const uint32_t shard : table_.leased()) {
    snapshot.bytes_done += std::min(table_.entry(shard).bytes_done, bytes_of(shard));
  }
  snapshot.bytes_total = bytes_total_;
  if (length_unknown_ && !history_.accounts().empty())  // estimate: as many as in the epoch before
    snapshot.bytes_total = std::max(history_.accounts().back().input_bytes, snapshot.bytes_done);
  snapshot.shards_done = table_.ended_count();
  snapshot.shards_total = table_.shard_count();
  snapshot.shards_in_flight = table_.leased_count();
  turn.emit(std::move(snapshot));
}

JobSummary ChiefCore::summary(const Turn& turn) const {
  JobSummary s = report_.summary(turn);
  s.epochs_sealed = history_.sealed();
  s.steps = history_.steps_accounted();
  s.epochs = history_.accounts();
  s.epochs_resumed = history_.resumed();
  s.evaluations = history_.evaluations();
  s.stopped_early = stops_early(config_.job, history_.evaluations());
  s.best_epochs = best_epochs(config_.job, history_.evaluations());
  s.best_checkpoint = checkpoints_.best();
  s.predictions = prediction_.records();
  s.attempts_repeated = attempts_repeated_ + table_.attempts_repeated();
  s.backups = backups_ + table_.backups();
  s.quarantined = quarantined_;
  s.partitions_moved = moves_.counts().partitions;
  s.partitions_offloaded = moves_.counts().offloaded;
  s.move_pause_ns_max = moves_.counts().pause_ns_max;
  s.checkpoint = checkpoints_.newest().checkpoint;
  s.checkpoint_folder = checkpoints_.newest().folder;
  return s;
}

}  // namespace downpour::chief
