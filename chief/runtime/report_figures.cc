#include "chief/runtime/report_figures.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "shared/data/reading/dataset.h"
#include "shared/job/field_output.h"
#include "shared/job/metric_names.h"
#include "shared/metrics/auc.h"
#include "shared/metrics/metrics.h"

namespace downpour::chief {

std::optional<size_t> staleness_p99(const std::vector<uint64_t>& histogram) {
  uint64_t total = 0;
  for (const uint64_t n : histogram) total += n;
  if (total == 0) return std::nullopt;
  uint64_t seen = 0;
  for (size_t b = 0; b < histogram.size(); ++b) {
    seen += histogram[b];
    if (double(seen) >= 0.99 * double(total)) return b;
  }
  return histogram.size() - 1;
}

std::optional<double> queue_fill(const wire::WorkTime& work) {
  if (work.queue_ns == 0) return std::nullopt;
  return std::min(1.0, double(work.queued_ns) / double(work.queue_ns));
}

wire::WorkTime work_between(const wire::WorkTime& before, const wire::WorkTime& now) {
  const auto less = [](uint64_t a, uint64_t b) { return a > b ? a - b : 0; };
  return {.compute_ns = less(now.compute_ns, before.compute_ns),
          .network_ns = less(now.network_ns, before.network_ns),
          .input_ns = less(now.input_ns, before.input_ns),
          .queued_ns = less(now.queued_ns, before.queued_ns),
          .queue_ns = less(now.queue_ns, before.queue_ns)};
}

namespace {

/// Returns 1 if the output's target is one number, otherwise 2.
uint32_t target_width(const Job& job, const OutputSpec& output) {
  uint32_t width = 1;
  if (const FieldSpec* target = job.data.find_field(output.target)) {
    for (const int64_t n : number_shape(*target)) width = n == 1 ? width : 2;
  }
  return width;
}

/// Returns the number of the output's classes, or 0 if the job does not name it.
size_t classes_of(const Job& job, const OutputSpec& output) {
  if (output.width > 0) return output.width;
  std::string name = output.input;
  for (const LayerSpec& layer : std::views::reverse(job.model.layers)) {  // inputs come earlier
    if (layer.name != name) continue;
    if (!layer.units.empty()) return layer.units.back();
    if (layer.type == "concat" || layer.inputs.empty()) break;
    name = layer.inputs[0];  // has the same width, for example that of a sum
  }
  const FieldSpec* const target = job.data.find_field(output.target);
  return target == nullptr ? 0 : target->classes.size();
}

}  // namespace

std::vector<std::string> known_metrics(const Job& job, const OutputSpec& output) {
  std::vector<std::string> names = supported_metrics(output.loss);
  const size_t classes = classes_of(job, output);
  if (classes > 0 && classes <= job.eval.top_k) std::erase(names, "top_k_accuracy");
  if (target_width(job, output) != 1)
    std::erase_if(names, [](const std::string& name) { return needs_one_column(name); });
  if (job.eval.group_by.empty())
    std::erase_if(names, [](const std::string& name) { return name == "gauc" || name == "ndcg"; });
  return names;
}

std::vector<std::string> shown_metrics(const Job& job, const OutputSpec& output) {
  std::vector<std::string> names = !job.eval.metrics.empty() ? job.eval.metrics : output.metrics;
  const std::vector<std::string> known = known_metrics(job, output);
  std::erase_if(names, [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) == known.end();
  });
  if (names.empty()) names = default_metrics(output.loss, /*one_column=*/true);
  for (const char* const of_groups : {"gauc", "ndcg"}) {
    const auto has = [&](const std::vector<std::string>& of) {
      return std::ranges::find(of, of_groups) != of.end();
    };
    if (job.eval.metrics.empty() && has(known) && !has(names)) names.emplace_back(of_groups);
  }
  return names;
}

double mean_loss(const std::vector<OutputMetrics>& outputs, const Job& job) {
  double loss = 0;
  for (size_t o = 0; o < outputs.size() && o < job.model.outputs.size(); ++o) {
    loss += double(job.model.outputs[o].weight) * outputs[o].sums.loss /
            std::max(outputs[o].sums.weight, 1e-300);
  }
  return outputs.empty() || outputs[0].sums.weight == 0 ? NAN : loss;
}

double first_auc(const std::vector<OutputMetrics>& outputs) {
  return outputs.empty() || outputs[0].auc.empty() ? NAN : auc_value(outputs[0].auc);
}

std::vector<OutputMetrics> trained_metrics(const EpochAccount& account) {
  std::vector<OutputMetrics> trained;
  for (const OutputSums& sums : account.metrics) trained.emplace_back().sums = sums;
  return trained;
}

std::optional<double> constant_loss(const Job& job, size_t output, const Evaluation& evaluation) {
  const OutputSpec& spec = job.model.outputs[output];
  return best_constant_loss(spec.loss, target_width(job, spec), evaluation.outputs[output],
                            job.data.negatives.per_record);
}

const Evaluation* kept_evaluation(const JobSummary& s) {
  if (s.evaluations.empty()) return nullptr;
  const Evaluation* kept = &s.evaluations.back();
  for (const Evaluation& evaluation : s.evaluations) {
    if (s.best_checkpoint != ViewId{} && evaluation.epochs_trained == s.best_epochs)
      kept = &evaluation;
  }
  return kept->counts.applied > 0 ? kept : nullptr;
}

std::vector<size_t> worse_than_constant(const Job& job, const JobSummary& s) {
  std::vector<size_t> worse;
  const Evaluation* kept = kept_evaluation(s);
  for (size_t o = 0;
       kept != nullptr && o < std::min(kept->outputs.size(), job.model.outputs.size()); ++o) {
    const auto constant = constant_loss(job, o, *kept);
    if (constant && !(compute_metric("loss", kept->outputs[o]).value <= *constant))
      worse.push_back(o);
  }
  return worse;
}

}  // namespace downpour::chief
