#include "shared/job/field_output.h"

#include <algorithm>
#include <optional>

#include "shared/base/number_text.h"
#include "shared/job/formats.h"
#include "shared/job/keys.h"
#include "shared/job/toml_tree.h"

namespace downpour {
namespace {

constexpr uint32_t kNgramsMax = 8;
constexpr uint32_t kLengthMax = 1U << 20;

bool is_for_lists(TransformOp op) {
  return op == TransformOp::kTruncate || op == TransformOp::kPad || op == TransformOp::kPool ||
         op == TransformOp::kCrop;
}

std::string_view kind_name(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNumber:
      return "numbers";
    case ValueKind::kInteger:
      return "integers";
    case ValueKind::kText:
      return "strings";
    case ValueKind::kKey:
      return "keys";
  }
  return "";
}

/// An error in the options of an op, and the correction.
struct Complaint {
  std::string what, hint;
};
using Checked = std::optional<Complaint>;

Checked check_statistics(const TransformSpec& spec) {
  if (spec.op == TransformOp::kStandardize) {
    if (spec.mean.has_value() != spec.scale.has_value())
      return Complaint{"has only one of mean and scale",
                       "give both: { op = \"standardize\", mean = 40.0, scale = 12.5 }; or none, "
                       "and both are learned"};
    if (spec.scale && !(*spec.scale > 0)) return Complaint{"needs a scale above 0", "scale = 12.5"};
    return {};
  }
  if (spec.min.has_value() != spec.max.has_value())
    return Complaint{
        "has only one of min and max",
        "give both: { op = \"min_max\", min = 0.0, max = 100.0 }; or none, and both are learned"};
  if (spec.min && !(*spec.min < *spec.max)) return Complaint{"needs a min below its max", ""};
  return {};
}

Checked check_vocabulary(const TransformSpec& spec) {
  if (spec.file.empty() == spec.words.empty())
    return Complaint{
        "needs either a file or a list of words",
        "{ op = \"vocabulary\", file = \"words.txt\" }, or words = [\"red\", \"green\"]"};
  if (spec.unknown == UnknownWord::kHash && spec.buckets == 0)
    return Complaint{"hashes unknown words, but has no buckets", "buckets = 64"};
  if (spec.unknown == UnknownWord::kDefault && !spec.fallback)
    return Complaint{"has no default for unknown words", "default = 0"};
  for (const std::string& word : spec.words) {
    if (word.empty() || word.find('\n') != std::string::npos)
      return Complaint{str("has the word ", toml_quoted(word)),
                       "a word is not empty and contains no line break"};
  }
  std::vector<std::string> words = spec.words;
  std::sort(words.begin(), words.end());
  const auto twice = std::adjacent_find(words.begin(), words.end());
  if (twice != words.end())
    return Complaint{str("has the word ", toml_quoted(*twice), " twice"), "list each word once"};
  return {};
}

Checked check_boundaries(const TransformSpec& spec, ValueKind kind) {
  if (spec.boundaries.empty())
    return Complaint{"has no boundaries", "boundaries = [18.0, 35.0, 65.0]"};
  const bool exact = kind == ValueKind::kInteger;  // numbers are compared as 32-bit floats
  for (size_t i = 1; i < spec.boundaries.size(); ++i) {
    const double before = spec.boundaries[i - 1], after = spec.boundaries[i];
    if (exact ? before < after : float(before) < float(after)) continue;
    return Complaint{str("has boundaries that are not in ascending order: ", number_text(before),
                         ", ", number_text(after)),
                     "sort the boundaries, and list each once"};
  }
  return {};
}

Checked check_options(const TransformSpec& spec, ValueKind kind) {
  switch (spec.op) {
    case TransformOp::kClip:
      if (!spec.min && !spec.max)
        return Complaint{"needs min, max or both", "{ op = \"clip\", min = 0 }"};
      if (spec.min && spec.max && !(*spec.min <= *spec.max))
        return Complaint{"has min above max", "swap min and max"};
      return {};
    case TransformOp::kStandardize:
    case TransformOp::kMinMax:
      return check_statistics(spec);
    case TransformOp::kIdentity:
      if (spec.fallback && spec.buckets > 0 && *spec.fallback >= spec.buckets)
        return Complaint{"has a default that is not less than `buckets`", ""};
      if (spec.fallback && spec.buckets == 0)
        return Complaint{"has a default, but no `buckets`",
                         "set buckets = 1000 for keys from 0 to 999"};
      return {};
    case TransformOp::kBucketize:
      return check_boundaries(spec, kind);
    case TransformOp::kVocabulary:
      return check_vocabulary(spec);
    case TransformOp::kTokens:
      if (spec.ngrams < 1 || spec.ngrams > kNgramsMax)
        return Complaint{"has an invalid `ngrams`", str("set ngrams from 1 to ", kNgramsMax)};
      return {};
    case TransformOp::kTruncate:
    case TransformOp::kPad:
    case TransformOp::kCrop:
      if (spec.length < 1 || spec.length > kLengthMax)
        return Complaint{"has no valid length",
                         str("for example length = 20; the maximum is ", kLengthMax)};
      return {};
    case TransformOp::kDropout:
      if (!(spec.rate > 0 && spec.rate < 1))
        return Complaint{"needs a rate between 0 and 1", "rate = 0.1"};
      return {};
    case TransformOp::kNoise:
      if (!(spec.stddev > 0)) return Complaint{"needs a stddev above 0", "stddev = 0.01"};
      return {};
    case TransformOp::kCross:
      if (spec.fields.size() < 2)
        return Complaint{"crosses fewer than two fields", "fields = [\"city\", \"age\"]"};
      return {};
    case TransformOp::kHash:
    case TransformOp::kLog1p:
    case TransformOp::kPool:
      return {};
  }
  return {};
}

/// Returns true if an op accepts values of this kind.
bool takes(TransformOp op, ValueKind kind) {
  switch (op) {
    case TransformOp::kLog1p:
    case TransformOp::kClip:
    case TransformOp::kStandardize:
    case TransformOp::kMinMax:
    case TransformOp::kNoise:
    case TransformOp::kBucketize:
    case TransformOp::kPad:
    case TransformOp::kPool:
      return kind == ValueKind::kNumber || kind == ValueKind::kInteger;
    case TransformOp::kHash:
    case TransformOp::kVocabulary:
      return kind == ValueKind::kText || kind == ValueKind::kInteger;
    case TransformOp::kIdentity:
      return kind == ValueKind::kInteger;
    case TransformOp::kTokens:
      return kind == ValueKind::kText;
    case TransformOp::kTruncate:
    case TransformOp::kCrop:
    case TransformOp::kDropout:
      return kind != ValueKind::kText;
    case TransformOp::kCross:
      return true;
  }
  return false;
}

/// Returns true if an op needs all values of a record or is random, so that no key can be made
/// after it.
bool is_late(TransformOp op) {
  return is_for_lists(op) || op == TransformOp::kDropout || op == TransformOp::kNoise;
}

Checked check_cross(const DataSpec& data, const TransformSpec& spec) {
  for (const std::string& name : spec.fields) {
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

Checked check_input(const TransformSpec& spec, const FieldOutput& now, bool first, bool late) {
  if (!takes(spec.op, now.kind)) {
    const char* hint =
        now.kind == ValueKind::kKey ? "put ops that give keys after ops for values"
        : now.kind == ValueKind::kText
            ? "use tokens, hash or vocabulary for strings; type = \"float32\" gives numbers"
            : "bucketize turns numbers into keys; hash, identity and vocabulary need type = "
              "\"int64\"";
    return Complaint{str("can't be applied to ", kind_name(now.kind)), hint};
  }
  if ((spec.op == TransformOp::kTokens || spec.op == TransformOp::kCross) && !first)
    return Complaint{"is not the first op", "put it first"};
  if (late && makes_keys(spec.op))
    return Complaint{"follows an op for lists or a random op", "put ops that give keys first"};
  const bool learned = (spec.op == TransformOp::kStandardize && !spec.mean && !spec.scale) ||
                       (spec.op == TransformOp::kMinMax && !spec.min && !spec.max);
  if (learned && now.any_length)
    return Complaint{"can't learn from lists", "put it after pad or pool, or set its statistics"};
  if (is_for_lists(spec.op) && !now.any_length)
    return Complaint{"needs a field of any length", "set shape = [-1], or put tokens before it"};
  if (spec.op == TransformOp::kDropout && now.kind == ValueKind::kKey && !now.any_length)
    return Complaint{"can drop keys only from a list",
                     "set shape = [-1], or apply dropout to numbers before they become keys"};
  return {};
}

void advance(const TransformSpec& spec, FieldOutput& now) {
  if (makes_keys(spec.op)) {
    now.kind = ValueKind::kKey;
    now.any_length |= spec.op == TransformOp::kCross || spec.unknown == UnknownWord::kDrop;
  } else if (spec.op == TransformOp::kTokens) {
    now.any_length = true;
  } else if (now.kind == ValueKind::kInteger && !is_for_lists(spec.op)) {
    now.kind = ValueKind::kNumber;
  }
  const bool numbers = now.kind == ValueKind::kNumber || now.kind == ValueKind::kInteger;
  if (numbers && (spec.op == TransformOp::kPad || spec.op == TransformOp::kPool)) {
    now.kind = ValueKind::kNumber;
    now.any_length = false;
    now.shape.clear();
    if (spec.op == TransformOp::kPad) now.shape = {int64_t(spec.length)};
  }
}

}  // namespace

std::string_view op_name(TransformOp op) {
  for (const auto& [name, value] : kTransformNames)
    if (value == op) return name;
  return "";
}

Result<FieldOutput> field_output(const DataSpec& data, const FieldSpec& field) {
  const std::string where = str("data.fields.", toml_key(field.name), ".transform");
  FieldOutput now{.any_length = field.is_bag(), .shape = field.shape};
  if (field.type == FieldType::kInt64 || (field.is_bag() && has_sparse_lines(data.format))) {
    now.kind = ValueKind::kInteger;
  } else if (field.type == FieldType::kString && field.positive.empty()) {
    now.kind = ValueKind::kText;
  }
  bool late = false;
  for (size_t i = 0; i < field.transform.size(); ++i) {
    const TransformSpec& spec = field.transform[i];
    Checked complaint = check_input(spec, now, i == 0, late);
    if (!complaint) complaint = check_options(spec, now.kind);
    if (!complaint && spec.op == TransformOp::kCross) complaint = check_cross(data, spec);
    late |= is_late(spec.op);
    if (complaint) {
      return Error{ErrorCode::kConfig,
                   str(op_name(spec.op), " in field `", field.name, "` ", complaint->what),
                   str(where, "[", i, "]"), std::move(complaint->hint), "DP-2106"};
    }
    advance(spec, now);
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
