#include "chief/runtime/report_text.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "chief/core/run/selection.h"
#include "chief/runtime/report_figures.h"
#include "shared/base/enum_text.h"
#include "shared/base/human.h"
#include "shared/job/losses.h"
#include "shared/metrics/metrics.h"

namespace downpour::chief {

std::string format(const char* pattern, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

std::string human_count(double n) {
  if (n >= 1e9) return format("%.2f G", n / 1e9);
  if (n >= 1e6) return format("%.2f M", n / 1e6);
  if (n >= 1e4) return format("%.0f k", n / 1e3);
  return format("%.0f", n);
}

std::string human_time(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds < 1) return format("%.0f ms", seconds * 1e3);
  if (seconds < 60) return format("%.1f s", seconds);
  const auto whole = uint64_t(seconds);
  if (whole < 3600)
    return format("%llu:%02llu", static_cast<unsigned long long>(whole / 60),
                  static_cast<unsigned long long>(whole % 60));
  return format("%llu:%02llu:%02llu", static_cast<unsigned long long>(whole / 3600),
                static_cast<unsigned long long>(whole / 60 % 60),
                static_cast<unsigned long long>(whole % 60));
}

std::string number(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::fabs(value);
  if (size > 0 && size < 0.001) return format("%.3g", value);
  return format("%.*f", size < 1000 ? 4 : size < 100'000 ? 2 : 0, value);
}

std::string shards_text(uint32_t shards) {
  return shards == 0 ? "shards" : format("%u shard%s", shards, shards == 1 ? "" : "s");
}

const char* phase_name(Phase phase) {
  return enum_text<Phase::kFinished>(
      phase, {"waiting for ps", "placing partitions", "reconciling", "training", "completing",
              "evaluating", "predicting", "saving", "stopping", "done"});
}

std::string bound_text(const wire::WorkTime& work) {
  if (work.sum() == 0) return "-";
  const std::pair<uint64_t, const char*> shares[] = {
      {work.compute_ns, "compute"}, {work.network_ns, "network"}, {work.input_ns, "input"}};
  const auto& most =
      *std::max_element(std::begin(shares), std::end(shares),
                        [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto fill = queue_fill(work);
  return format("%s %.0f %%", most.second, 100.0 * double(most.first) / double(work.sum())) +
         (fill ? format(", queue %.0f %%", *fill * 100) : "");
}

std::string counts_text(const wire::ShardCounts& c) {
  std::string text = format(
      "read %llu = applied %llu + filtered %llu + skipped %llu + dropped %llu",
      static_cast<unsigned long long>(c.read), static_cast<unsigned long long>(c.applied),
      static_cast<unsigned long long>(c.filtered), static_cast<unsigned long long>(c.skipped),
      static_cast<unsigned long long>(c.dropped));
  if (c.quarantined > 0)
    text += format(" + quarantined %llu", static_cast<unsigned long long>(c.quarantined));
  return text;
}

std::string partial_text(const EpochAccount& a) {
  std::string unread;
  for (size_t i = 0; i < a.unread_bytes.size(); ++i) {
    if (a.unread_bytes[i] > 0)
      unread += format("%s%s of source %zu", unread.empty() ? "  (unread: " : ", ",
                       human_bytes(a.unread_bytes[i]).c_str(), i + 1);
  }
  if (!unread.empty()) unread += ")";
  return unread + (a.is_partial() ? format("  (partial epoch: %u of %u shards)", a.shards,
                                           a.shards + a.shards_left)
                                  : "");
}

const char* loss_name(const OutputSpec& output) {
  return output.loss == "squared" ? "rmse" : find_loss(output.loss)->metric;
}

ShownLoss shown_loss(const Job& job, double loss) {
  const std::vector<OutputSpec>& outputs = job.model.outputs;
  if (outputs.size() != 1 || outputs[0].loss != "squared") return {.value = number(loss)};
  return {.name = "rmse", .value = number(std::sqrt(loss / double(outputs[0].weight)))};
}

double shown_constant(const Job& job, size_t output, const Evaluation& evaluation) {
  const double loss = constant_loss(job, output, evaluation).value_or(NAN);
  return job.model.outputs[output].loss == "squared" ? std::sqrt(loss) : loss;
}

std::string evaluation_text(const Job& job, const Evaluation& evaluation) {
  std::string text;
  for (size_t o = 0; o < evaluation.outputs.size() && o < job.model.outputs.size(); ++o) {
    const OutputSpec& output = job.model.outputs[o];
    if (o > 0) text += "; ";
    if (job.model.outputs.size() > 1) text += output.name + " ";
    const char* const loss = loss_name(output);
    bool first = true, has_loss = false;
    for (const std::string& name : shown_metrics(job, output)) {
      const double value = evaluated_metric(evaluation, o, name);
      text += format("%s%s %s", first ? "" : "  ", name.c_str(), number(value).c_str());
      first = false;
      has_loss = has_loss || name == loss;
    }
    if (constant_loss(job, o, evaluation)) {
      const std::string constant = number(shown_constant(job, o, evaluation));
      const std::string value = number(compute_metric(loss, evaluation.outputs[o]).value);
      text += has_loss
                  ? format("  (best constant: %s %s)", loss, constant.c_str())
                  : format("  (%s %s, best constant %s)", loss, value.c_str(), constant.c_str());
    }
  }
  return text;
}

}  // namespace downpour::chief
