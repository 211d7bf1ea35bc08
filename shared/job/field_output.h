// Field output: the kind and shape of the values that a field gives to the model after its
// transform. Applies the type rules of the ops.
#pragma once

#include <variant>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/job/ops.h"

namespace downpour {

/// Returns what a field gives to the model: starts with the field's type, and applies the type rule
/// of each op of its transform in order. Errors: kConfig for an op that does not accept its input,
/// for invalid options, or for a result that no layer reads. `where` is the op's key
/// ("data.fields.x.transform[1]").
Result<FieldOutput> field_output(const DataSpec& data, const FieldSpec& field);

// The functions below are header-only, because modules that do not link this module (and TOML) use
// them.

/// Returns true if the field gives keys, false if it gives numbers. The first matching rule
/// decides:
/// - A field with an op that makes keys or tokens gives keys.
/// - A field with `pad` or `pool` gives numbers.
/// - A field of any length gives keys, and so does a string without `positive` and `classes`.
/// - Every other field gives numbers.
inline bool is_sparse(const FieldSpec& field) {
  bool numbers = false;
  for (const TransformSpec& spec : field.transform) {
    const OpInfo& op = info_of(spec);
    if (op.makes_keys() || op.stage == OpStage::kWords) return true;
    numbers |= op.fixes_shape;
  }
  if (numbers) return false;
  return field.is_bag() || (field.type == FieldType::kString && !field.is_label());
}

/// Returns true if the keys of a field are numbers of its own, such as lines of a vocabulary, which
/// other fields give, too. Returns false if they are hashes, which contain the field's name.
inline bool numbers_keys(const FieldSpec& field) {
  for (const TransformSpec& spec : field.transform) {
    if (std::holds_alternative<ops::Hash>(spec) || std::holds_alternative<ops::Cross>(spec))
      return false;
    if (info_of(spec).makes_keys()) return true;
  }
  return field.type == FieldType::kInt64 && is_sparse(field);
}

/// Returns the shape of a field of numbers after its transform. `pad` and `pool` give a field of
/// any length a fixed shape.
inline std::vector<int64_t> number_shape(const FieldSpec& field) {
  std::vector<int64_t> shape = field.shape;
  for (const TransformSpec& spec : field.transform) {
    std::visit(
        [&]<typename Op>(const Op& op) {
          if constexpr (Op::kInfo.fixes_shape) shape = op.shape();
        },
        spec);
  }
  return shape;
}

/// Returns whether the numbers of a field are in [0, 1], as the layer "piecewise" needs them.
inline bool is_quantile(const FieldSpec& field) {
  return !field.transform.empty() && std::holds_alternative<ops::Quantile>(field.transform.back());
}

/// Returns true if the field is computed from other fields and not read.
inline bool is_cross(const FieldSpec& field) {
  return !field.transform.empty() && std::holds_alternative<ops::Cross>(field.transform[0]);
}

}  // namespace downpour
