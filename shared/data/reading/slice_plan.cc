#include "shared/data/reading/slice_plan.h"

#include <string>
#include <utility>

#include "shared/base/str.h"
#include "shared/data/values/declared_fields.h"
#include "shared/data/values/label_texts.h"
#include "shared/job/field_output.h"
#include "shared/job/formats.h"

namespace downpour::data {
namespace {

/// Returns a field that reads the same values as the field `name`, as places in `classes`.
Result<FieldSpec> same_values(const ReadPlan& plan, const std::string& name, const char* key) {
  DP_TRY(FieldSpec field, resolve_field(plan, name));
  if (!field.shape.empty() || is_cross(field)) {
    return Error{ErrorCode::kConfig,
                 str(key, " needs a field of one value, but `", name, "` has several"), key,
                 "choose a field without `shape`"};
  }
  if (!is_arrays(plan.data.format)) {
    field.column = field.source_name();
  } else if (field.path.empty()) {  // `column` is a place in the row of an array
    field.path = field.name;
  }
  field.name = str(key, ".", name);
  field.fallback = "";  // so that a record without the value is read
  field.positive.clear();
  field.classes = {""};  // place 0
  field.transform.clear();
  return field;
}

Result<void> add_slice(ReadPlan& plan, const SliceSpec& slice,
                       std::shared_ptr<TextCounter> counter) {
  DP_TRY(FieldSpec field, same_values(plan, slice.field, "eval.slices"));
  field.classes.insert(field.classes.end(), slice.values.begin(), slice.values.end());
  plan.layout.floats.push_back({field.name, 1});
  plan.targets.push_back({.field = field.name,
                          .kind = TargetKind::kClass,
                          .classes = uint32_t(field.classes.size()),
                          .any_text = true,
                          .by_text = true,
                          .counter = std::move(counter)});
  plan.data.fields.push_back(std::move(field));
  return {};
}

}  // namespace

Result<std::shared_ptr<const ReadPlan>> with_slices(const std::shared_ptr<const ReadPlan>& plan,
                                                    const std::vector<SliceSpec>& slices) {
  if (slices.empty()) return plan;
  auto out = std::make_shared<ReadPlan>(*plan);
  for (const SliceSpec& slice : slices) DP_TRY_VOID(add_slice(*out, slice, nullptr));
  return std::shared_ptr<const ReadPlan>(std::move(out));
}

Result<std::shared_ptr<const ReadPlan>> with_groups(const std::shared_ptr<const ReadPlan>& plan,
                                                    const std::string& field) {
  if (field.empty()) return plan;
  auto out = std::make_shared<ReadPlan>(*plan);
  for (const uint32_t part : {1U, 2U}) {
    DP_TRY(FieldSpec half, same_values(*plan, field, "eval.group_by"));
    half.name += str(".", part);
    out->layout.floats.push_back({half.name, 1});
    out->targets.push_back({.field = half.name,
                            .kind = TargetKind::kClass,
                            .classes = 1U << 24,
                            .any_text = true,
                            .by_text = true,
                            .hash_part = part});
    out->data.fields.push_back(std::move(half));
  }
  return std::shared_ptr<const ReadPlan>(std::move(out));
}

Result<std::shared_ptr<const ReadPlan>> counting_slices(
    const ReadPlan& plan, const std::vector<SliceSpec>& slices,
    const std::vector<std::shared_ptr<TextCounter>>& counters) {
  auto out = std::make_shared<ReadPlan>(plan);
  out->layout = {};
  out->targets.clear();
  for (size_t i = 0; i < slices.size(); ++i) {
    if (counters[i] != nullptr) DP_TRY_VOID(add_slice(*out, slices[i], counters[i]));
  }
  return std::shared_ptr<const ReadPlan>(std::move(out));
}

}  // namespace downpour::data
