#include "shared/job/validate_slices.h"

#include <algorithm>
#include <string>
#include <vector>

#include "shared/base/names.h"
#include "shared/job/field_output.h"
#include "shared/job/losses.h"
#include "shared/job/validate_support.h"

namespace downpour {
namespace {

/// Checks that the field has one value in each record. `key` names it in the job.
Result<void> check_single(const Job& job, const std::string& name, const std::string& key) {
  std::vector<std::string> names;
  for (const FieldSpec& field : job.data.fields) names.push_back(field.name);
  const FieldSpec* const field = job.data.find_field(name);
  if (field == nullptr) return unknown_name("field", name, key, names);
  if (field->shape.empty() && !is_cross(*field)) return {};
  return wrong(str("the field `", name, "` has no single value in a record"), key,
               "choose a field without `shape` that is read from the data");
}

/// Returns the metric of groups that the job names; null if it names none.
const std::string* group_metric(const Job& job) {
  const auto find = [](const std::vector<std::string>& metrics) -> const std::string* {
    for (const std::string& metric : metrics)
      if (metric == "gauc" || metric == "ndcg") return &metric;
    return nullptr;
  };
  if (const std::string* metric = find(job.eval.metrics)) return metric;
  for (const OutputSpec& output : job.model.outputs)
    if (const std::string* metric = find(output.metrics)) return metric;
  const std::string& decides = job.eval.early_stop.metric;
  return decides == "gauc" || decides == "ndcg" ? &decides : nullptr;
}

Result<void> check_grouping(const Job& job) {
  const std::string& field = job.eval.group_by;
  if (field.empty()) {
    const std::string* const metric = group_metric(job);
    if (metric == nullptr) return {};
    return wrong(str("the metric ", *metric, " needs groups"), "eval.group_by",
                 "name the field whose values are the groups, for example eval.group_by = "
                 "\"user\"",
                 "DP-2107");
  }
  DP_TRY_VOID(check_single(job, field, "eval.group_by"));
  const auto ranks = [](const OutputSpec& output) {
    const LossInfo* const loss = find_loss(output.loss);
    return loss != nullptr && loss->target == TargetType::kBinary;
  };
  if (job.model.is_custom() || std::ranges::none_of(job.model.outputs, ranks)) {
    return wrong("eval.group_by needs layers, and an output whose target is 0 or 1",
                 "eval.group_by", "remove it");
  }
  // The records of a batch travel in one message.
  const uint64_t floats = 2 + 2 * uint64_t(job.model.outputs.size());
  const uint64_t most = kGroupFloatsMax / floats / (1 + job.data.negatives.per_record);
  if (job.train.eval_records() <= most) return {};
  return wrong(str("with eval.group_by a batch may have at most ", most, " records, but it has ",
                   job.train.eval_records()),
               "train.batch_size", "lower it, or remove eval.group_by");
}

Result<void> check_slice(const Job& job, const SliceSpec& slice, const std::string& where) {
  if (slice.field.empty())
    return wrong("a slice needs a `field`", where, "name a field of data.fields", "DP-2107");
  DP_TRY_VOID(check_single(job, slice.field, where + ".field"));
  if (const std::string* value = first_repeated(slice.values))
    return wrong(str("the value \"", *value, "\" is listed twice"), where + ".values",
                 "list each value once");
  if (contains(slice.values, "")) {
    return wrong("an empty text means a missing value, which cannot be a slice", where + ".values",
                 "remove it: missing values count in the row of the others");
  }
  return {};
}

}  // namespace

Result<void> check_slices(const Job& job) {
  DP_TRY_VOID(check_grouping(job));
  const std::vector<SliceSpec>& slices = job.eval.slices;
  if (slices.empty()) return {};
  if (job.model.is_custom()) {
    return wrong("eval.slices does not support a model of variables", "eval.slices",
                 "remove it: the program that computes the model has the records");
  }
  if (slices.size() > kSlicesMax) {
    return wrong(str("eval.slices has ", slices.size(), " fields"), "eval.slices",
                 str("list at most ", kSlicesMax, " fields"));
  }
  std::vector<std::string> fields;
  size_t rows = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    DP_TRY_VOID(check_slice(job, slices[i], str("eval.slices[", i, "]")));
    fields.push_back(slices[i].field);
    rows += slices[i].rows();
  }
  if (const std::string* field = first_repeated(fields))
    return wrong(str("the field `", *field, "` is listed twice"), "eval.slices",
                 "list each field once");
  if (rows * job.model.outputs.size() > kSliceRowsMax) {
    return wrong(str("eval.slices has up to ", rows, " rows for each of ", job.model.outputs.size(),
                     " outputs, with those of the other values"),
                 "eval.slices",
                 str("lower `top`, or list fewer fields or values: at most ", kSliceRowsMax,
                     " rows, times the outputs"));
  }
  return {};
}

}  // namespace downpour
