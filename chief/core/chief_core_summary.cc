// ChiefCore: sums over all members, for the live line and the final summary.
#include <algorithm>
#include <utility>

#include "chief/core/chief_core.h"

namespace downpour::chief {

namespace {

void add_histogram(std::vector<uint64_t>& into, const std::vector<uint64_t>& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) into[i] += from[i];
}

ProcessPeak peak_of(const Member& m) {
  return {.role = m.hello.role,
          .index = m.hello.index,
          .rss_bytes_max = m.last.rss_bytes_max,
          .cpu_ns = m.last.cpu_ns,
          .rows = m.last.rows,
          .table_bytes = m.last.table_bytes,
          .records = m.last.records,
          .read_bytes = m.last.read_bytes,
          .pushed_bytes = m.is_input() ? m.last.pushed_bytes : 0,
          .work = m.last.work};
}

/// Adds the figures of a core to those of its process. Memory and CPU time are the process's and
/// count once; rows add up.
void add_peak(std::vector<ProcessPeak>& peaks, const ProcessPeak& peak) {
  for (ProcessPeak& known : peaks) {
    if (known.role != peak.role || known.index != peak.index) continue;
    known.rss_bytes_max = std::max(known.rss_bytes_max, peak.rss_bytes_max);
    known.cpu_ns = std::max(known.cpu_ns, peak.cpu_ns);
    known.rows += peak.rows;
    known.table_bytes += peak.table_bytes;
    known.records += peak.records;
    known.read_bytes += peak.read_bytes;
    known.pushed_bytes += peak.pushed_bytes;
    known.work += peak.work;
    return;
  }
  peaks.push_back(peak);
}

}  // namespace

ChiefCore::Totals ChiefCore::totals() const {
  Totals t;
  const auto add = [&t](const wire::Heartbeat& h, bool worker) {
    t.records += h.records;
    t.read += h.read_bytes;
    t.work += h.work;
    t.duplicate_parts += h.duplicate_parts;
    t.gaps += h.gaps;
    t.rows += h.rows;
    t.table_bytes += h.table_bytes;
    if (worker) {  // a ps counts the same bytes
      t.pulled += h.pulled_bytes;
      t.pushed += h.pushed_bytes;
    }
    add_histogram(t.staleness, h.staleness);
  };
  add(departed_, true);
  for (const Member& member : members_) add(member.last, member.is_worker());
  return t;
}

void ChiefCore::show_progress(Turn& turn) {
  progress_at_ns_ = turn.now_ns() + config_.progress_ns;
  Totals t = totals();
  uint64_t bytes_done = bytes_ended_;
  for (const uint32_t shard : table_.leased()) {
    bytes_done += std::min(table_.entry(shard).bytes_done, bytes_of(shard));
  }
  uint64_t bytes_total = bytes_total_;
  if (length_unknown_ && !epochs_.empty())  // estimate: as many as in the epoch before
    bytes_total = std::max(epochs_.back().input_bytes, bytes_done);
  turn.emit(ProgressSnapshot{.phase = phase_,
                             .elapsed_ns = turn.now_ns() - turn.start_ns(),
                             .epoch = epoch_,
                             .epochs = config_.job.train.epochs,
                             .steps = steps_done(),
                             .steps_wanted = config_.job.train.steps,
                             .bytes_done = bytes_done,
                             .bytes_total = bytes_total,
                             .shards_done = table_.ended_count(),
                             .shards_total = table_.shard_count(),
                             .shards_in_flight = table_.leased_count(),
                             .records = t.records,
                             .recent = std::exchange(recent_, {}),
                             .staleness = std::move(t.staleness),
                             .pulled_bytes = t.pulled,
                             .pushed_bytes = t.pushed,
                             .read_bytes = t.read,
                             .work = t.work,
                             .duplicate_parts = t.duplicate_parts,
                             .gaps = t.gaps,
                             .rows = t.rows,
                             .table_bytes = t.table_bytes,
                             .workers_live = members_.workers_live(),
                             .ps_live = members_.ps_live(),
                             .inputs_live = members_.inputs_live()});
}

/// Keeps the figures of a member that is removed.
void ChiefCore::keep_figures(const Member& member) {
  if (member.last.incarnation == Incarnation{}) return;  // it never sent a heartbeat
  add_peak(departed_peaks_, peak_of(member));
  departed_.records += member.last.records;
  departed_.read_bytes += member.last.read_bytes;
  departed_.work += member.last.work;
  departed_.duplicate_parts += member.last.duplicate_parts;
  departed_.gaps += member.last.gaps;
  add_histogram(departed_.staleness, member.last.staleness);
  if (!member.is_worker()) return;
  departed_.pulled_bytes += member.last.pulled_bytes;
  departed_.pushed_bytes += member.last.pushed_bytes;
}

void ChiefCore::log_silent(Turn& turn, const Member& member) {
  turn.log_of(
      member.peer,
      turn.event("silent").add("who", member.name()).add("incarnation", raw(member.incarnation())));
}

JobSummary ChiefCore::summary(const Turn& turn) const {
  Totals t = totals();
  JobSummary s;
  s.mode = config_.mode;
  s.epochs_sealed = epochs_sealed_;
  s.epochs_wanted = config_.job.train.epochs;
  s.steps = steps_accounted();
  s.steps_wanted = config_.job.train.steps;
  s.epochs = epochs_;
  s.epochs_resumed = epochs_resumed_;
  s.evaluations = evaluations_;
  s.stopped_early = stops_early(config_.job, evaluations_);
  s.best_epochs = best_epochs(config_.job, evaluations_);
  s.best_checkpoint = best_checkpoint_;
  s.records = t.records;
  s.predictions = prediction_.records();
  s.duplicate_parts = t.duplicate_parts;
  s.gaps = t.gaps;
  s.attempts_repeated = attempts_repeated_ + table_.attempts_repeated();
  s.backups = backups_ + table_.backups();
  s.quarantined = quarantined_;
  s.workers_lost = workers_lost_;
  s.ps_lost = ps_lost_;
  s.partitions_moved = moves_.counts().partitions;
  s.partitions_offloaded = moves_.counts().offloaded;
  s.move_pause_ns_max = moves_.counts().pause_ns_max;
  s.pulled_bytes = t.pulled;
  s.pushed_bytes = t.pushed;
  s.read_bytes = t.read;
  s.staleness = std::move(t.staleness);
  s.processes = departed_peaks_;
  for (const Member& member : members_) add_peak(s.processes, peak_of(member));
  std::sort(s.processes.begin(), s.processes.end(), [](const ProcessPeak& a, const ProcessPeak& b) {
    return std::pair(a.role, a.index) < std::pair(b.role, b.index);
  });
  s.wall_ns = turn.now_ns() - turn.start_ns();
  if (train_begin_ns_ >= 0)
    s.train_ns = (train_end_ns_ >= 0 ? train_end_ns_ : turn.now_ns()) - train_begin_ns_;
  s.checkpoint = published_checkpoint_;
  s.checkpoint_folder = published_folder_;
  return s;
}

}  // namespace downpour::chief
