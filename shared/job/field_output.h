// Field output: the kind and shape of the values that a field gives to the model after its
// transform. Defines the type rules of all ops.
#pragma once

#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour {

/// The kind of the values between two ops.
enum class ValueKind : uint8_t { kNumber, kInteger, kText, kKey };

struct FieldOutput {
  ValueKind kind = ValueKind::kNumber;
  bool any_length = false;
  std::vector<int64_t> shape;  // if not any_length
};

/// Returns the name of the op in a job.
std::string_view op_name(TransformOp op);

/// Applies a field's transform to its type, op by op. Errors: kConfig for an op that does not
/// accept its input, for invalid options, or for a result that no layer reads. `where` is the op's
/// key ("data.fields.x.transform[1]").
Result<FieldOutput> field_output(const DataSpec& data, const FieldSpec& field);

constexpr bool makes_keys(TransformOp op) {
  return op == TransformOp::kHash || op == TransformOp::kIdentity ||
         op == TransformOp::kVocabulary || op == TransformOp::kBucketize ||
         op == TransformOp::kCross;
}

// The functions below are header-only, because modules that do not link this module (and TOML) use
// them.

/// Returns true if the field gives keys, false if it gives numbers. It gives keys if an op makes
/// keys or tokens. Without pad or pool, so does a field of any length, and a string without
/// `positive`.
inline bool is_sparse(const FieldSpec& field) {
  bool numbers = false;
  for (const TransformSpec& spec : field.transform) {
    if (makes_keys(spec.op) || spec.op == TransformOp::kTokens) return true;
    numbers |= spec.op == TransformOp::kPad || spec.op == TransformOp::kPool;
  }
  if (numbers) return false;
  return field.is_bag() || (field.type == FieldType::kString && field.positive.empty());
}

/// Returns the shape of a field of numbers after its transform. `pad` and `pool` give a field of
/// any length a fixed shape.
inline std::vector<int64_t> number_shape(const FieldSpec& field) {
  std::vector<int64_t> shape = field.shape;
  for (const TransformSpec& spec : field.transform) {
    if (spec.op == TransformOp::kPad) shape = {int64_t(spec.length)};
    if (spec.op == TransformOp::kPool) shape.clear();
  }
  return shape;
}

/// Returns true if the field is computed from other fields and not read.
inline bool is_cross(const FieldSpec& field) {
  return !field.transform.empty() && field.transform[0].op == TransformOp::kCross;
}

}  // namespace downpour
