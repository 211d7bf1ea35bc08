// sniff of libsvm and libffm: counts their features and collects their labels.
#include <algorithm>
#include <cmath>
#include <set>

#include "shared/base/str.h"
#include "shared/data/formats/sniff_columns.h"
#include "shared/data/records/delimited.h"
#include "shared/data/values/number.h"
#include "shared/job/formats.h"

namespace downpour::data {
namespace {

std::string joined(const std::vector<std::string>& texts, const char* separator) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : separator) + text;
  return out;
}

/// What the sampled lines contain.
struct Contents {
  std::set<double> labels;
  std::set<uint64_t> features;
  size_t values = 0;         // features of all lines
  double products = 0;       // sum of squared products of two values of a line, over all lines
  double largest_value = 0;  // absolute
};

/// Adds what a line contains, if it is libsvm, "label index:value ...", or with `ffm` libffm,
/// "label field:index:value ...". Returns false if it is neither.
bool add_line(std::string_view line, bool ffm, Contents& found) {
  line = trimmed(line.substr(0, line.find('#')));
  if (line.empty()) return true;
  size_t at = std::min(line.find_first_of(" \t"), line.size());
  double label = 0;
  if (!number_of(line.substr(0, at), label)) return false;
  double squares = 0, fourth_powers = 0;
  while ((at = line.find_first_not_of(" \t", at)) != std::string_view::npos) {
    const size_t end = std::min(line.find_first_of(" \t", at), line.size());
    std::string_view token = line.substr(at, end - at);
    if (ffm) {
      const size_t first = token.find(':');
      double group = 0;
      if (first == std::string_view::npos || !number_of(token.substr(0, first), group))
        return false;
      token.remove_prefix(first + 1);
    }
    const size_t colon = token.find(':');
    double value = 0;
    uint64_t index = 0;
    at = end;
    if (token.substr(0, 4) == "qid:") continue;  // the reader reports it as an error
    const std::string number(token.substr(0, colon));
    const char* const stop = parse_uint(number.c_str(), index);
    if (colon == std::string_view::npos || stop != number.c_str() + number.size() ||
        !number_of(token.substr(colon + 1), value))
      return false;
    found.features.insert(index);
    ++found.values;
    squares += value * value;
    fourth_powers += value * value * value * value;
    found.largest_value = std::max(found.largest_value, std::fabs(value));
  }
  if (found.labels.size() <= kClassesMax) found.labels.insert(label);
  found.products += (squares * squares - fourth_powers) / 2;
  return true;
}

/// Returns true if nearly all lines are libsvm or libffm. The reader reports the others.
bool looks_like_libsvm(const std::vector<std::string_view>& lines, bool ffm, Contents& found) {
  constexpr size_t kOddLines = 10;  // at most one of so many
  found = {};
  size_t odd = 0;
  for (const std::string_view line : lines) {
    if (add_line(line, ffm, found)) continue;
    if (++odd * kOddLines > lines.size()) return false;
  }
  return found.values > 0;
}

FileFacts libsvm_facts(const std::vector<std::string_view>& lines, bool ffm,
                       const Contents& found) {
  FileFacts facts{.format = ffm ? DataFormat::kLibffm : DataFormat::kLibsvm,
                  .fields = default_fields(DataFormat::kLibsvm),
                  .target = "label"};
  facts.classes = classes_of(found.labels, lines.size());
  facts.pairs_per_record = found.products / static_cast<double>(lines.size());
  facts.largest_value = found.largest_value;
  std::vector<std::string> texts;
  for (const double label : found.labels)
    if (texts.size() < 5) texts.push_back(str(label));
  facts.reason =
      str(ffm ? "libffm: " : "libsvm: ", found.features.size(), " features in the first ",
          lines.size(), " lines, labels ", joined(texts, ", "),
          found.labels.size() > texts.size() ? " ..." : "", " (", said(facts.classes), ")");
  return facts;
}

}  // namespace

std::optional<Sniffed> sniff_sparse_lines(FileSample& file) {
  Contents found;
  for (const bool ffm : {false, true}) {
    if (!looks_like_libsvm(file.lines(), ffm, found)) continue;
    FileFacts facts = libsvm_facts(file.lines(), ffm, found);
    return Sniffed{facts.format, std::move(facts)};
  }
  return std::nullopt;
}

}  // namespace downpour::data
