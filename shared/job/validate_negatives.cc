#include "shared/job/validate_negatives.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/names.h"
#include "shared/job/field_output.h"
#include "shared/job/validate_support.h"

namespace downpour {
namespace {

constexpr const char* kFieldsKey = "data.negatives.fields";

bool is_read(const Job& job, const std::string& field) {
  return std::ranges::any_of(job.model.layers,
                             [&](const LayerSpec& layer) { return contains(layer.inputs, field); });
}

Result<void> check_item_field(const Job& job, const std::string& name) {
  for (const OutputSpec& output : job.model.outputs) {
    if (name != output.target && name != output.weights) continue;
    return wrong(
        str("the field `", name, "` is the target or the weights of output `", output.name, "`"),
        kFieldsKey, "remove it: list the fields that describe the item");
  }
  const auto crosses_it = [&](const FieldSpec& field) {
    return is_cross(field) && contains(std::get<ops::Cross>(field.transform[0]).fields, name) &&
           is_read(job, field.name);
  };
  if (is_read(job, name) || std::ranges::any_of(job.data.fields, crosses_it)) return {};
  return wrong(str("no layer reads the field `", name, "`"), kFieldsKey,
               "remove it, or add it to the inputs of a layer");
}

/// Checks that a cross has either only fields of the item or none.
Result<void> check_cross(const Job& job, const FieldSpec& field) {
  const std::vector<std::string>& items = job.data.negatives.fields;
  const std::string* of_item = nullptr;
  const std::string* other = nullptr;
  for (const std::string& name : std::get<ops::Cross>(field.transform[0]).fields)
    (contains(items, name) ? of_item : other) = &name;
  if (other == nullptr || (of_item == nullptr && !contains(items, field.name))) return {};
  if (of_item == nullptr) {
    return wrong(str("the field `", field.name, "` crosses `", *other,
                     "`, which does not describe the item"),
                 kFieldsKey, "remove it: a cross of fields of the item follows them");
  }
  return wrong(
      str("the field `", field.name, "` crosses `", *of_item, "` of the item with `", *other,
          "`, and a negative would need a key that was not pulled"),
      kFieldsKey,
      "remove the cross from the inputs of the layers; an fm layer over both fields learns "
      "a factor for each pair");
}

Result<void> check_losses(const Job& job) {
  const bool given = job.data.negatives.given();
  for (size_t i = 0; i < job.model.outputs.size(); ++i) {
    const OutputSpec& output = job.model.outputs[i];
    const LossInfo& loss = *find_loss(output.loss);  // the reader knows all names
    const std::string where = str("model.outputs[", i, "].loss");
    if (loss.compares && !given) return no_negatives(loss, where);
    if (!given) continue;
    if (loss.target != TargetType::kBinary) {
      return wrong(str("output `", output.name, "` has the loss ", loss.name,
                       ", which data.negatives does not support"),
                   where,
                   "with data.negatives, use \"bpr\", \"sampled_softmax\", \"logistic\" or "
                   "\"hinge\"");
    }
    const FieldSpec* const target = job.data.find_field(output.target);
    if (target == nullptr || target->shape.empty()) continue;
    return wrong(str("the target `", output.target, "` has a shape, but the target of a record is ",
                     "1 and that of a negative 0"),
                 str("model.outputs[", i, "].target"), "remove the target, or its shape");
  }
  return {};
}

}  // namespace

Error no_negatives(const LossInfo& loss, std::string where) {
  return wrong(
      str("the loss ", loss.name, " compares records with negatives, but the job has none"),
      std::move(where),
      "name the fields of the item, for example data.negatives = { fields = [\"item\"], "
      "per_record = 4 }",
      "DP-2107");
}

Result<void> check_negatives(const Job& job) {
  DP_TRY_VOID(check_losses(job));
  const NegativesSpec& negatives = job.data.negatives;
  if (!negatives.given()) return {};
  if (job.model.is_custom()) {
    return wrong("data.negatives does not support a model of variables", "data.negatives",
                 "remove it: the program that computes the model draws its own negatives");
  }
  if (negatives.fields.empty()) {
    return wrong("data.negatives has no `fields`", kFieldsKey,
                 "list the fields that describe the item, for example fields = [\"item\"]",
                 "DP-2107");
  }
  if (negatives.per_record == 0) {
    return wrong("data.negatives has no `per_record`", "data.negatives.per_record",
                 "set the number of negatives of a record, for example per_record = 4", "DP-2107");
  }
  if (const std::string* const name = first_repeated(negatives.fields))
    return wrong(str("the field `", *name, "` is listed twice"), kFieldsKey, "list each name once");
  std::vector<std::string> names;
  for (const FieldSpec& field : job.data.fields) names.push_back(field.name);
  for (const std::string& name : negatives.fields) {
    if (!contains(names, name)) return unknown_name("field", name, kFieldsKey, names);
    DP_TRY_VOID(check_item_field(job, name));
  }
  for (const FieldSpec& field : job.data.fields) {
    if (is_cross(field) && is_read(job, field.name)) DP_TRY_VOID(check_cross(job, field));
  }
  const uint64_t rows = uint64_t{job.train.eval_records()} * (1 + negatives.per_record);
  if (rows <= kRowsMax) return {};
  return wrong(str("a batch of ", job.train.eval_records(), " records with ", negatives.per_record,
                   " negatives each has ", rows, " rows, but at most ", kRowsMax, " are possible"),
               "data.negatives.per_record", "lower it, or train.batch_size");
}

}  // namespace downpour
