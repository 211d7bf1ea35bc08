// Report: figures over all members, for the live line, the accounts and the final summary.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "chief/core/events.h"
#include "chief/core/membership.h"
#include "chief/core/turn.h"

namespace downpour::chief {

/// Sums what the members report in their heartbeats. Members that are gone still count. All figures
/// are hints: no decision depends on them.
class Report {
 public:
  Report(const ChiefConfig& config, const Membership& members)
      : config_(config), members_(members) {}

  /// Adds metrics of a heartbeat. In training they also belong to the current epoch.
  void take_metrics(const std::vector<OutputMetrics>& metrics, bool training);
  /// Keeps the figures of a member that is removed.
  void keep_figures(const Member& member);
  /// Records that a training lease was granted, or that an epoch has ended with an account.
  void note_training(const Turn& turn) {
    if (train_begin_ns_ < 0) train_begin_ns_ = turn.now_ns();
  }
  void note_trained(const Turn& turn) { train_end_ns_ = turn.now_ns(); }
  /// Count lost processes. The cores of a ps process are lost together, and count once.
  void note_worker_lost() { ++workers_lost_; }
  void note_ps_lost(const Member& core) {
    if (last_lost_ != core.incarnation()) ++ps_lost_;
    last_lost_ = core.incarnation();
  }

  /// Begins the figures of an epoch.
  void begin_epoch(const Turn& turn);
  /// Stores the duplicate parts, the gaps and the time since begin_epoch().
  void measure_epoch(const Turn& turn, EpochAccount& account) const;
  /// Returns the metrics since begin_epoch() or the last call.
  std::vector<OutputMetrics> take_observed() { return std::exchange(observed_, {}); }

  bool progress_due(const Turn& turn) const { return turn.now_ns() >= progress_at_ns_; }
  /// Returns the figures of the live line. The caller adds the phase, the epoch and the pass.
  ProgressSnapshot progress(const Turn& turn);
  /// Returns the figures of the summary. The caller adds the results of the job.
  JobSummary summary(const Turn& turn) const;

 private:
  struct Totals {
    uint64_t records = 0, pulled = 0, pushed = 0, read = 0, duplicate_parts = 0, gaps = 0;
    uint64_t rows = 0, table_bytes = 0;  // of the present members only
    wire::WorkTime work;
    std::vector<uint64_t> staleness;
    /// Adds the figures of a member, except rows and table_bytes.
    void add(const Member& member);
  };
  Totals totals() const;

  const ChiefConfig& config_;
  const Membership& members_;
  std::vector<OutputMetrics> recent_;    // since the last snapshot
  std::vector<OutputMetrics> observed_;  // in this epoch
  int64_t progress_at_ns_ = 0;           // when the next snapshot is due
  Totals departed_;                      // of members that are gone
  std::vector<ProcessPeak> departed_peaks_;
  int64_t train_begin_ns_ = -1, train_end_ns_ = -1;
  int64_t epoch_begin_ns_ = 0;
  uint32_t workers_lost_ = 0, ps_lost_ = 0;
  Incarnation last_lost_{};                              // the ps process that was lost last
  uint64_t epoch_duplicate_parts_ = 0, epoch_gaps_ = 0;  // values when the epoch began
};

}  // namespace downpour::chief
