#include "shared/model/outputs.h"

#include <string>
#include <utility>
#include <vector>

#include "shared/base/str.h"
#include "shared/job/losses.h"
#include "shared/job/metric_names.h"

namespace downpour::model {
namespace {

Error wrong(std::string what, std::string hint = {}) {
  return Error{ErrorCode::kConfig, std::move(what), {}, std::move(hint), {}};
}

bool has_classes(const OutputSpec& spec) { return find_loss(spec.loss)->loss == Loss::kSoftmax; }

size_t classes_of(const Job& job, const OutputSpec& spec) {
  return job.data.find_field(spec.target)->classes.size();
}

/// Returns the layer that an output reads, or without layers the output itself.
const std::string& source_of(const OutputSpec& spec) {
  return spec.input.empty() ? spec.name : spec.input;
}

Result<void> check_metrics(const Job& job, const OutputSpec& spec, uint32_t width) {
  std::vector<std::string> metrics = spec.metrics;
  if (job.model.outputs.size() == 1) {
    metrics.push_back(job.eval.early_stop.metric);
    metrics.insert(metrics.end(), job.eval.metrics.begin(), job.eval.metrics.end());
  }
  for (const std::string& metric : metrics) {
    if (width != 1 && needs_one_column(metric)) {
      return wrong(str(metric, " needs a single column, but '", source_of(spec), "' has ", width),
                   str("choose another metric, such as ", find_loss(spec.loss)->metric,
                       ", or define an output for each column"));
    }
    if (metric == "top_k_accuracy" && has_classes(spec) && width <= job.eval.top_k) {
      return wrong(str("top_k_accuracy with eval.top_k = ", job.eval.top_k,
                       " is always 1, because '", source_of(spec), "' has ", width, " classes"),
                   str("set eval.top_k below ", width, ", or choose another metric"));
    }
  }
  return {};
}

}  // namespace

uint64_t prediction_width(const Job& job, const OutputSpec& spec, uint64_t target_width) {
  if (spec.width > 0) return spec.width;
  const size_t classes = classes_of(job, spec);
  return has_classes(spec) && classes > 0 ? classes : target_width;
}

Result<void> check_output(const Job& job, const OutputSpec& spec, uint32_t width,
                          uint64_t target_width) {
  const char* const source = source_of(spec).c_str();
  const char* const key = job.model.is_custom() ? "width" : "units of its last layer";
  if (!has_classes(spec)) {
    if (target_width == width) return check_metrics(job, spec, width);
    return wrong(str("'", source, "' has ", width, " columns, but target '", spec.target, "' has ",
                     target_width));
  }
  if (target_width != 1) return wrong(str("target '", spec.target, "' must be one class number"));
  if (width < 2) {
    return wrong(str("softmax needs one column per class, but '", source, "' has 1 column"),
                 str("set ", key, " to the number of classes, or use loss = \"logistic\""));
  }
  if (const size_t classes = classes_of(job, spec); classes > 0 && classes != width) {
    return wrong(str("'", source, "' has ", width, " columns, but target '", spec.target, "' has ",
                     classes, " classes"),
                 str("set ", key, " to ", classes));
  }
  return check_metrics(job, spec, width);
}

}  // namespace downpour::model
