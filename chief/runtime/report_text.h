// Formats quantities for the console: counts, durations, metrics, accounts.
#pragma once

#include <cstdint>
#include <string>

#include "chief/core/events.h"
#include "shared/base/units.h"
#include "shared/job/job.h"

namespace downpour::chief {

/// Returns what printf would print, cut after 1,023 bytes.
std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

inline double seconds_of(int64_t ns) { return double(ns) / double(kSecond); }
/// Returns "1.25 M", "340 k", "999".
std::string human_count(double n);
/// Returns "320 ms", "12.5 s", "3:07", "1:02:03"; "-" if `seconds` is not finite.
std::string human_time(double seconds);
/// Returns four decimals, two from 1,000 on, none from 100,000 on; "-" if `value` is not finite.
std::string number(double value);

/// Returns "12 shards"; "shards" if the number is not known (0).
std::string shards_text(uint32_t shards);
const char* phase_name(Phase phase);
/// Returns what the workers spent most of their time on.
std::string bound_text(const wire::WorkTime& work);
/// Returns "read 10 = applied 9 + filtered 1 + skipped 0 + dropped 0".
std::string counts_text(const wire::ShardCounts& c);
/// Describes an account that ends inside its epoch, or before the end of all sources; otherwise
/// empty.
std::string partial_text(const EpochAccount& account);
/// Returns the metric that shows an output's loss in the unit of its target: "rmse" or "logloss".
const char* loss_name(const OutputSpec& output);
/// The mean training loss over all outputs, as people see it. If the squared loss is the only one
/// of the model, they see its root, the rmse.
struct ShownLoss {
  const char* name = "loss";  // or "rmse"
  std::string value;
};
ShownLoss shown_loss(const Job& job, double loss);
/// Returns the value of the metric loss_name() if each record's prediction is the constant for
/// which the loss is lowest; NaN if the sums do not determine it.
double shown_constant(const Job& job, size_t output, const Evaluation& evaluation);
/// Returns "auc 0.9023  logloss 0.3241  (best constant: logloss 0.5512)" for every output; with a
/// squared loss the rmse.
std::string evaluation_text(const Job& job, const Evaluation& evaluation);

}  // namespace downpour::chief
