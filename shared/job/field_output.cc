#include "shared/job/field_output.h"

#include <string>
#include <string_view>
#include <utility>

#include "shared/base/enum_text.h"
#include "shared/base/str.h"
#include "shared/job/formats.h"
#include "shared/job/toml_tree.h"

namespace downpour {
namespace {

std::string_view kind_name(ValueKind kind) {
  return enum_text<ValueKind::kKey>(kind, {"numbers", "integers", "strings", "keys"});
}

/// Checks the fields that a cross names.
Checked check_crossed(const DataSpec& data, const TransformSpec& spec) {
  const auto* const cross = std::get_if<ops::Cross>(&spec);
  if (cross == nullptr) return {};
  for (const std::string& name : cross->fields) {
    const FieldSpec* const field = data.find_field(name);
    if (field == nullptr) return Complaint{str("crosses `", name, "`, which is not a field"), ""};
    if (is_cross(*field))
      return Complaint{str("crosses `", name, "`, which is a cross"), "list its fields instead"};
    if (!is_sparse(*field))
      return Complaint{str("crosses `", name, "`, which gives numbers"),
                       "add { op = \"bucketize\", boundaries = [...] } to that field, which turns "
                       "numbers into keys"};
  }
  return {};
}

/// Checks the values and the place of an op. `late` says that an op of OpStage::kLate is before it.
Checked check_input(const TransformSpec& spec, const FieldOutput& now, bool first, bool late) {
  const OpInfo& op = info_of(spec);
  if (!op.takes.contains(now.kind)) {
    const char* hint =
        now.kind == ValueKind::kKey ? "put ops that give keys after ops for values"
        : now.kind == ValueKind::kText
            ? "use tokens, hash or vocabulary for strings; type = \"float32\" gives numbers"
            : "bucketize turns numbers into keys; hash, identity and vocabulary need type = "
              "\"int64\"";
    return Complaint{str("can't be applied to ", kind_name(now.kind)), hint};
  }
  if (op.stands_first() && !first) return Complaint{"is not the first op", "put it first"};
  if (late && op.makes_keys())
    return Complaint{"follows an op for lists or a random op", "put ops that give keys first"};
  if (is_open(spec) && now.any_length)
    return Complaint{"can't learn from lists", "put it after pad or pool, or set its statistics"};
  if (op.for_lists && !now.any_length)
    return Complaint{"needs a field of any length", "set shape = [-1], or put tokens before it"};
  return {};
}

Checked check_options(const TransformSpec& spec, const FieldOutput& now) {
  return std::visit(
      [&](const auto& op) -> Checked {
        if constexpr (requires { op.check(now); }) return op.check(now);
        return {};
      },
      spec);
}

/// Changes `now` from the values before an op to those after it.
template <typename Op>
void advance(const Op& op, FieldOutput& now) {
  constexpr OpInfo kInfo = Op::kInfo;
  if constexpr (requires { op.makes_bag(); }) now.any_length |= op.makes_bag();
  if constexpr (kInfo.fixes_shape) {
    now = {.kind = ValueKind::kNumber, .shape = op.shape()};
  } else if (kInfo.makes_keys()) {
    now.kind = ValueKind::kKey;
  } else if (now.kind == ValueKind::kInteger && !kInfo.for_lists) {
    now.kind = ValueKind::kNumber;
  }
}

}  // namespace

Result<FieldOutput> field_output(const DataSpec& data, const FieldSpec& field) {
  const std::string where = str("data.fields.", toml_key(field.name), ".transform");
  FieldOutput now{.any_length = field.is_bag(), .shape = field.shape};
  if (field.type == FieldType::kInt64 || (field.is_bag() && has_sparse_lines(data.format))) {
    now.kind = ValueKind::kInteger;
  } else if (field.type == FieldType::kString && !field.is_label()) {
    now.kind = ValueKind::kText;
  }
  bool late = false;
  for (size_t i = 0; i < field.transform.size(); ++i) {
    const TransformSpec& spec = field.transform[i];
    Checked complaint = check_input(spec, now, i == 0, late);
    if (!complaint) complaint = check_options(spec, now);
    if (!complaint) complaint = check_crossed(data, spec);
    late |= info_of(spec).stage == OpStage::kLate;
    if (complaint) {
      return Error{ErrorCode::kConfig,
                   str(info_of(spec).name, " in field `", field.name, "` ", complaint->what),
                   str(where, "[", i, "]"), std::move(complaint->hint), "DP-2106"};
    }
    std::visit([&](const auto& op) { advance(op, now); }, spec);
  }
  if (now.kind == ValueKind::kInteger) {
    now.kind = now.any_length ? ValueKind::kKey : ValueKind::kNumber;
  }
  const char* hint = nullptr;
  if (now.kind == ValueKind::kText)
    hint = "end the transform with { op = \"hash\" } or a vocabulary";
  if (now.kind == ValueKind::kNumber && now.any_length)
    hint = "add { op = \"pad\", length = 20 } or { op = \"pool\" } to get a fixed number";
  if (hint == nullptr) return now;
  return Error{ErrorCode::kConfig,
               str("field `", field.name, "` gives ", kind_name(now.kind),
                   now.any_length ? " without a fixed number" : "", ", which a layer can't read"),
               where, hint, "DP-2106"};
}

}  // namespace downpour
