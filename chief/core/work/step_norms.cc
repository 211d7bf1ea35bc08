#include "chief/core/work/step_norms.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace downpour::chief {
namespace {

/// Returns the factor that limits a norm to `most`. A norm that is not finite stays as it is, as in
/// model::clip_gradients().
double factor_of(double squares, double most) {
  const double norm = std::sqrt(squares);
  return most > 0 && norm > most && std::isfinite(norm) ? most / norm : 1;
}

}  // namespace

StepNorms::StepNorms(const ChiefConfig& config) : partitions_(config.job.partitions) {
  const TrainSpec& train = config.job.train;
  if (!train.replicas || train.sync_every) return;  // workers limit the gradients of each batch
  norm_ = double(config.job.clip.norm);
  global_norm_ = double(config.job.clip.global_norm);
}

void StepNorms::begin(const wire::Commit& commit) {
  step_ = {.step = commit.step, .parts = commit.parts};
  squares_.assign(partitions_, {});
}

bool StepNorms::take(const wire::Committed& measured, const Bytes& squares) {
  const size_t count = measured.partitions.size();
  if (count == 0) return squares.empty();
  const size_t groups = squares.size() / sizeof(double) / count;
  if (groups == 0 || groups * count * sizeof(double) != squares.size()) return false;
  size_t next = 0;
  for (const PartitionId p : measured.partitions) {
    if (raw(p) >= partitions_) return false;
    std::vector<double>& of = squares_[raw(p)];
    of.clear();
    for (size_t g = 0; g < groups; ++g) of.push_back(squares.load<double>(next++));
  }
  return true;
}

std::optional<wire::Commit> StepNorms::finish() {
  std::optional<wire::Commit> commit = std::exchange(step_, std::nullopt);
  const size_t groups = squares_.front().size();
  const bool complete = groups > 0 && std::ranges::all_of(squares_, [&](const auto& of) {
                          return of.size() == groups;
                        });
  if (!complete) return std::nullopt;
  commit->factors = factors();
  return commit;
}

/// Limits the norm of each group first, and then the norm of all that remains.
std::vector<float> StepNorms::factors() const {
  std::vector<double> sums(squares_.front().size());
  for (const std::vector<double>& of : squares_)
    for (size_t g = 0; g < sums.size(); ++g) sums[g] += of[g];
  std::vector<double> factors;
  double all = 0;
  for (const double squares : sums) {
    factors.push_back(factor_of(squares, norm_));
    all += squares * factors.back() * factors.back();
  }
  const double of_all = factor_of(all, global_norm_);
  std::vector<float> out;
  for (const double factor : factors) out.push_back(float(factor * of_all));
  return std::ranges::all_of(out, [](float f) { return f == 1.0F; }) ? std::vector<float>() : out;
}

}  // namespace downpour::chief
