#include "worker/core/reader_tuner.h"

#include <algorithm>
#include <utility>

namespace downpour::worker {
namespace {

constexpr int64_t kIntervalNs = 200 * kMillisecond;
constexpr int64_t kIntervalMaxNs = 2 * kSecond;  // if hardly any batches come
constexpr uint64_t kIntervalBatches = 16;
constexpr double kStarved = 0.05;  // share of the time that is worth a trial
constexpr double kPays = 1.04;     // required factor over the previous rate
constexpr double kRoom = 1.5;      // a trial needs processors for this multiple of the readers
constexpr int64_t kPauseNsMax = 60 * kSecond;

}  // namespace

std::optional<ReaderLimits> ReaderTuner::on_totals(int64_t now_ns, const ReaderTotals& totals) {
  const int64_t interval_ns = now_ns - last_ns_;
  const uint64_t batches = totals.batches - last_.batches;
  const bool enough = interval_ns >= kIntervalNs && batches >= kIntervalBatches;
  if (last_ns_ == 0 || batches == 0) {  // nothing to learn: no interval yet, or no batches in it
    if (last_ns_ == 0 || interval_ns >= kIntervalMaxNs) last_ = totals, last_ns_ = now_ns;
    return {};
  }
  if (!enough && interval_ns < kIntervalMaxNs) return {};
  const ReaderLimits was = limits_;
  if (!std::exchange(settling_, false)) {
    const double rate = double(batches) / double(interval_ns);
    const double starved = double(totals.starved_ns - last_.starved_ns) / double(interval_ns);
    if (trial_) {
      end_trial(now_ns, rate, starved, totals);
    } else if (wants_more_batches(totals, interval_ns)) {
      limits_.batches = std::min(limits_.batches * 2, bounds_.batches);
    } else if (starved > kStarved && limits_.shards < bounds_.shards && now_ns >= try_at_ns_ &&
               may_pay(totals)) {
      trial_ = Trial{.shards = limits_.shards, .rate = rate};
      limits_.shards = std::min(limits_.shards * 2, bounds_.shards);
    }
    settling_ = limits_ != was;
  }
  last_ = totals, last_ns_ = now_ns;
  return limits_ != was ? std::optional(limits_) : std::nullopt;
}

/// Whether there are processors for more readers, given the share of time in which readers need
/// one.
bool ReaderTuner::may_pay(const ReaderTotals& totals) const {
  const auto reading = double(totals.reading_ns - last_.reading_ns);
  const auto runnable = double(totals.runnable_ns - last_.runnable_ns);
  if (bounds_.processors == 0 || reading <= 0) return true;
  return runnable / reading * limits_.shards * kRoom <= bounds_.processors;
}

void ReaderTuner::end_trial(int64_t now_ns, double rate, double starved,
                            const ReaderTotals& totals) {
  const Trial trial = *std::exchange(trial_, std::nullopt);
  if (rate >= trial.rate * kPays) {
    if (starved > kStarved && limits_.shards < bounds_.shards && may_pay(totals)) {
      trial_ = Trial{.shards = limits_.shards, .rate = rate};
      limits_.shards = std::min(limits_.shards * 2, bounds_.shards);
    }
    return;
  }
  limits_.shards = trial.shards;
  try_at_ns_ = now_ns + pause_ns_;
  pause_ns_ = std::min(pause_ns_ * 2, kPauseNsMax);
}

bool ReaderTuner::wants_more_batches(const ReaderTotals& totals, int64_t interval_ns) const {
  const double starved = double(totals.starved_ns - last_.starved_ns) / double(interval_ns);
  const double full = double(totals.full_ns - last_.full_ns) / double(interval_ns);
  const uint64_t bytes_a_batch = totals.batch_bytes / totals.batches;
  return starved > kStarved / 2 && full > kStarved && limits_.batches < bounds_.batches &&
         2 * limits_.batches * bytes_a_batch <= bounds_.bytes;
}

}  // namespace downpour::worker
