// Field output: what a field gives the model, once its transform is done. The types of all ops
// stand here.
#pragma once

#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour {

/// What stands between two ops.
enum class ValueKind : uint8_t { kNumber, kInteger, kText, kKey };

struct FieldOutput {
  ValueKind kind = ValueKind::kNumber;
  bool any_length = false;
  std::vector<int64_t> shape;  // else
};

/// The op's name in a job.
std::string_view op_name(TransformOp op);

/// Follows a field's transform from op to op. Errors: kConfig, where = the op's key
/// ("data.fields.x.transform[1]"): an op that can't take what comes to it, options that can't be,
/// or an end that no layer can read.
Result<FieldOutput> field_output(const DataSpec& data, const FieldSpec& field);

constexpr bool makes_keys(TransformOp op) {
  return op == TransformOp::kHash || op == TransformOp::kIdentity ||
         op == TransformOp::kVocabulary || op == TransformOp::kBucketize ||
         op == TransformOp::kCross;
}

// What follows is needed where this module, which reads TOML, is not linked.

/// Whether a field gives keys (an op makes them, or parts words; a field of any length that no op
/// makes numbers; a string without `positive`); otherwise it gives numbers.
inline bool is_sparse(const FieldSpec& field) {
  bool numbers = false;
  for (const TransformSpec& spec : field.transform) {
    if (makes_keys(spec.op) || spec.op == TransformOp::kTokens) return true;
    numbers |= spec.op == TransformOp::kPad || spec.op == TransformOp::kPool;
  }
  if (numbers) return false;
  return field.is_bag() || (field.type == FieldType::kString && field.positive.empty());
}

/// The shape of a field of numbers behind its transform: `pad` and `pool` make one of any length.
inline std::vector<int64_t> number_shape(const FieldSpec& field) {
  std::vector<int64_t> shape = field.shape;
  for (const TransformSpec& spec : field.transform) {
    if (spec.op == TransformOp::kPad) shape = {int64_t(spec.length)};
    if (spec.op == TransformOp::kPool) shape.clear();
  }
  return shape;
}

/// Whether the field is made of others and not read.
inline bool is_cross(const FieldSpec& field) {
  return !field.transform.empty() && field.transform[0].op == TransformOp::kCross;
}

}  // namespace downpour
