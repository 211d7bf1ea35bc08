#include "chief/core/run/history.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "chief/core/run/selection.h"

namespace downpour::chief {

bool evaluates(const ChiefConfig& config) {
  return !config.eval_files.empty() || config.job.eval.holdout > 0;
}

History::History(const ChiefConfig& config) : config_(config) {
  // Evaluation ids are unique over all terms, so a late report never counts for another evaluation.
  last_evaluation_ = (config_.term - 1) << 16;
  if (!config_.resume) return;
  sealed_ = complete_ = epoch_ = config_.resume->sealed_epochs;
  accounts_ = config_.resume->epochs;
  resumed_ = uint32_t(accounts_.size());
  partial_ = !accounts_.empty() && accounts_.back().is_partial();
  evaluations_ = config_.resume->evaluations;
  for (const Evaluation& evaluation : evaluations_)
    last_evaluation_ = std::max(last_evaluation_, evaluation.id);
}

uint64_t History::steps_accounted() const {
  uint64_t steps = 0;
  for (const EpochAccount& account : accounts_) steps += account.counts.batches;
  return steps;
}

uint64_t History::steps_counted() const {
  if (!config_.job.train.replicas) return steps_accounted();
  return accounts_.empty() ? 0 : accounts_.back().version;
}

bool History::trained() const {
  const uint64_t wanted = config_.job.train.steps;
  if (complete_ >= config_.job.train.epochs || (wanted > 0 && steps_counted() >= wanted))
    return true;
  // Evaluations of other records than this start's say nothing of further epochs.
  return !evaluations_.empty() && !other_data(evaluations_.back(), {.data = config_.eval_data}) &&
         stops_early(config_.job, evaluations_);
}

bool History::evaluated() const {
  return !evaluates(config_) ||
         (!evaluations_.empty() && evaluations_.back().epochs_trained == epochs_trained());
}

bool History::at_evaluation() const {
  return evaluates(config_) && evaluated() && begun_ <= epochs_trained();
}

bool History::ends_with(const RoundOutcome& outcome) const {
  const uint64_t wanted = config_.job.train.steps;
  if (wanted == 0 || outcome.partitions.empty()) return false;
  const wire::PartitionStatus& status = outcome.partitions.front();
  const uint64_t steps =
      config_.job.train.replicas ? status.version : steps_accounted() + status.counts.batches;
  return steps >= wanted && std::none_of(outcome.lacking.begin(), outcome.lacking.end(),
                                         [](const LackingShard& shard) { return shard.begun; });
}

void History::begin_epoch() { begun_ = std::max(begun_, epoch_ + 1); }

void History::add(EpochAccount account, bool partial) {
  partial_ = partial;
  partial_saved_ = false;
  accounts_.push_back(std::move(account));
  if (!partial_) ++complete_;
}

void History::add(Evaluation evaluation) {
  if (!evaluations_.empty()) {  // only the newest one keeps its histograms
    for (OutputMetrics& output : evaluations_.back().outputs) output.auc.clear();
  }
  evaluations_.push_back(std::move(evaluation));
  size_t rows = 0;
  for (Evaluation& earlier : std::views::reverse(evaluations_)) {
    rows += earlier.slices.size();
    if (rows <= kSliceRowsKept) continue;
    earlier.slices.clear();
    earlier.slice_rankings.clear();
  }
}

bool History::drop_partial() {
  if (!std::exchange(partial_, false)) return false;
  partial_saved_ = false;
  accounts_.pop_back();
  std::erase_if(evaluations_, [&](const Evaluation& e) { return e.epochs_trained > complete_; });
  limit_resumed(accounts_.size());
  return true;
}

void History::roll_back_to(uint32_t epoch) {
  std::erase_if(accounts_, [&](const EpochAccount& e) { return e.epoch >= epoch; });
  std::erase_if(evaluations_, [&](const Evaluation& e) { return e.epochs_trained > epoch; });
  epoch_ = complete_ = epoch;
}

void History::seal(uint32_t epochs, bool partial) {
  sealed_ = epochs;
  partial_saved_ = partial && partial_;
}

void History::replace_results(ResumeState&& older) {
  accounts_ = std::move(older.epochs);
  evaluations_ = std::move(older.evaluations);
  partial_ = !accounts_.empty() && accounts_.back().is_partial();
  drop_partial();
  resumed_ = uint32_t(accounts_.size());
}

void History::limit_resumed(size_t accounts) { resumed_ = std::min(resumed_, uint32_t(accounts)); }

}  // namespace downpour::chief
