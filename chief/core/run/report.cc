#include "chief/core/run/report.h"

#include <algorithm>
#include <utility>

#include "shared/metrics/merge_outputs.h"

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

void Report::Totals::add(const Member& member) {
  const wire::Heartbeat& h = member.last;
  records += h.records;
  read += h.read_bytes;
  work += h.work;
  duplicate_parts += h.duplicate_parts;
  gaps += h.gaps;
  if (member.is_worker()) {  // a ps counts the same bytes
    pulled += h.pulled_bytes;
    pushed += h.pushed_bytes;
  }
  add_histogram(staleness, h.staleness);
}

Report::Totals Report::totals() const {
  Totals t = departed_;
  for (const Member& member : members_) {
    t.add(member);
    t.rows += member.last.rows;
    t.table_bytes += member.last.table_bytes;
  }
  return t;
}

void Report::take_metrics(const std::vector<OutputMetrics>& metrics, bool training) {
  merge_outputs(recent_, metrics);
  if (training) merge_outputs(observed_, metrics);
}

void Report::keep_figures(const Member& member) {
  if (member.last.incarnation == Incarnation{}) return;  // it never sent a heartbeat
  add_peak(departed_peaks_, peak_of(member));
  departed_.add(member);
}

void Report::begin_epoch(const Turn& turn) {
  const Totals t = totals();
  epoch_duplicate_parts_ = t.duplicate_parts;
  epoch_gaps_ = t.gaps;
  epoch_begin_ns_ = turn.now_ns();
  observed_.clear();
}

void Report::measure_epoch(const Turn& turn, EpochAccount& account) const {
  const Totals t = totals();
  account.duplicate_parts = t.duplicate_parts - epoch_duplicate_parts_;
  account.gaps = t.gaps - epoch_gaps_;
  account.wall_ns = turn.now_ns() - epoch_begin_ns_;
}

ProgressSnapshot Report::progress(const Turn& turn) {
  progress_at_ns_ = turn.now_ns() + config_.progress_ns;
  Totals t = totals();
  return {.elapsed_ns = turn.now_ns() - turn.start_ns(),
          .epochs = config_.job.train.epochs,
          .steps_wanted = config_.job.train.steps,
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
          .inputs_live = members_.inputs_live()};
}

JobSummary Report::summary(const Turn& turn) const {
  Totals t = totals();
  JobSummary s;
  s.mode = config_.mode;
  s.epochs_wanted = config_.job.train.epochs;
  s.steps_wanted = config_.job.train.steps;
  s.records = t.records;
  s.duplicate_parts = t.duplicate_parts;
  s.gaps = t.gaps;
  s.workers_lost = workers_lost_;
  s.ps_lost = ps_lost_;
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
  return s;
}

}  // namespace downpour::chief
