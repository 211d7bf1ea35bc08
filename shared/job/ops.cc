#include "shared/job/ops.h"

#include <algorithm>

#include "shared/base/number_text.h"
#include "shared/base/str.h"
#include "shared/job/coarse_floats.h"
#include "shared/job/toml_tree.h"

namespace downpour {
namespace ops {

Checked check_length(uint32_t length) {
  if (length >= 1 && length <= kLengthMax) return {};
  return Complaint{"has no valid length",
                   str("for example length = 20; the maximum is ", kLengthMax)};
}

Checked Clip::check(const FieldOutput& /*input*/) const {
  if (!min && !max) return Complaint{"needs min, max or both", "{ op = \"clip\", min = 0 }"};
  if (min && max && !(*min <= *max)) return Complaint{"has min above max", "swap min and max"};
  return {};
}

Checked Identity::check(const FieldOutput& /*input*/) const {
  if (fallback && buckets > 0 && *fallback >= buckets)
    return Complaint{"has a default that is not less than `buckets`", ""};
  if (fallback && buckets == 0)
    return Complaint{"has a default, but no `buckets`",
                     "set buckets = 1000 for keys from 0 to 999"};
  return {};
}

Checked Standardize::check(const FieldOutput& /*input*/) const {
  if (mean.has_value() != scale.has_value())
    return Complaint{"has only one of mean and scale",
                     "give both: { op = \"standardize\", mean = 40.0, scale = 12.5 }; or none, and "
                     "both are learned"};
  if (scale && !(*scale > 0)) return Complaint{"needs a scale above 0", "scale = 12.5"};
  return {};
}

Checked MinMax::check(const FieldOutput& /*input*/) const {
  if (min.has_value() != max.has_value())
    return Complaint{
        "has only one of min and max",
        "give both: { op = \"min_max\", min = 0.0, max = 100.0 }; or none, and both are learned"};
  if (min && !(*min < *max)) return Complaint{"needs a min below its max", ""};
  return {};
}

namespace {

/// Checks that boundaries ascend, as 32-bit floats unless `exact`.
Checked check_ascending(const std::vector<double>& boundaries, bool exact) {
  for (size_t i = 1; i < boundaries.size(); ++i) {
    const double before = boundaries[i - 1], after = boundaries[i];
    if (exact ? before < after : float(before) < float(after)) continue;
    return Complaint{str("has boundaries that are not in ascending order: ", number_text(before),
                         ", ", number_text(after)),
                     "sort the boundaries, and list each once"};
  }
  return {};
}

}  // namespace

Checked Bucketize::check(const FieldOutput& input) const {
  if (boundaries.empty()) return Complaint{"has no boundaries", "boundaries = [18.0, 35.0, 65.0]"};
  return check_ascending(boundaries, input.kind == ValueKind::kInteger);
}

Checked Quantile::check(const FieldOutput& /*input*/) const {
  if (boundaries.size() == 1 || boundaries.size() > kIntervalsMax + 1) {
    return Complaint{str("has ", boundaries.size(), " boundaries"),
                     str("list 2 to ", kIntervalsMax + 1, " boundaries, or none to learn them")};
  }
  return check_ascending(
      boundaries,
      !boundaries.empty() && floats_are_coarse_between(boundaries.front(), boundaries.back()));
}

Checked Vocabulary::check(const FieldOutput& /*input*/) const {
  if (file.empty() == words.empty())
    return Complaint{
        "needs either a file or a list of words",
        "{ op = \"vocabulary\", file = \"words.txt\" }, or words = [\"red\", \"green\"]"};
  if (unknown == UnknownWord::kHash && buckets == 0)
    return Complaint{"hashes unknown words, but has no buckets", "buckets = 64"};
  if (unknown == UnknownWord::kDefault && !fallback)
    return Complaint{"has no default for unknown words", "default = 0"};
  for (const std::string& word : words) {
    if (word.empty() || word.find('\n') != std::string::npos)
      return Complaint{str("has the word ", toml_quoted(word)),
                       "a word is not empty and contains no line break"};
  }
  std::vector<std::string> sorted = words;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return Complaint{str("has the word ", toml_quoted(*twice), " twice"), "list each word once"};
  return {};
}

Checked Tokens::check(const FieldOutput& /*input*/) const {
  if (ngrams >= 1 && ngrams <= kNgramsMax) return {};
  return Complaint{"has an invalid `ngrams`", str("set ngrams from 1 to ", kNgramsMax)};
}

Checked Cross::check(const FieldOutput& /*input*/) const {
  if (fields.size() >= 2) return {};
  return Complaint{"crosses fewer than two fields", "fields = [\"city\", \"age\"]"};
}

Checked Dropout::check(const FieldOutput& input) const {
  if (input.kind == ValueKind::kKey && !input.any_length)
    return Complaint{"can drop keys only from a list",
                     "set shape = [-1], or apply dropout to numbers before they become keys"};
  if (!(rate > 0 && rate < 1)) return Complaint{"needs a rate between 0 and 1", "rate = 0.1"};
  return {};
}

Checked Noise::check(const FieldOutput& /*input*/) const {
  if (stddev > 0) return {};
  return Complaint{"needs a stddev above 0", "stddev = 0.01"};
}

}  // namespace ops

TransformSpec op_at(size_t index) {
  TransformSpec made;
  [&]<size_t... I>(std::index_sequence<I...>) {
    ((I == index ? void(made.emplace<I>()) : void()), ...);
  }
  (std::make_index_sequence<std::variant_size_v<TransformSpec>>());
  return made;
}

}  // namespace downpour
