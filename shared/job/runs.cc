#include "shared/job/runs.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace downpour {
namespace {

struct Numbered {
  std::string_view prefix, digits;
  uint64_t number = 0;
};

/// "I13" -> "I", 13. Returns nothing without a final number of at most nine digits.
std::optional<Numbered> split_number(std::string_view name) {
  size_t begin = name.size();
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
  Numbered result{name.substr(0, begin), name.substr(begin)};
  if (result.digits.empty() || result.digits.size() > 9) return std::nullopt;
  std::from_chars(result.digits.data(), result.digits.data() + result.digits.size(), result.number);
  return result;
}

std::string padded(std::string_view prefix, uint64_t number, size_t width) {
  std::string digits = std::to_string(number);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return std::string(prefix) + digits;
}

/// Returns true if the ends of a run differ only in a final number.
bool is_numbered_run(std::string_view name) {
  const size_t dots = name.find("..");
  const auto a = split_number(name.substr(0, dots)), b = split_number(name.substr(dots + 2));
  return a && b && a->prefix == b->prefix;
}

Error run_error(std::string_view name, const std::string& why) {
  return Error{ErrorCode::kConfig,
               str("the name range `", name, "` ", why),
               {},
               "a name range consists of two names that differ only in their final number, as in "
               "\"I1..I13\"",
               "DP-2108"};
}

}  // namespace

bool is_run(std::string_view name) {
  const size_t dots = name.find("..");
  return dots != std::string_view::npos && dots > 0 && dots + 2 < name.size();
}

Result<std::vector<std::string>> expand_run(std::string_view name,
                                            const std::vector<std::string>& columns) {
  std::vector<std::string> names;
  if (!is_run(name)) {
    names.emplace_back(name);
    return names;
  }
  const size_t dots = name.find("..");
  const std::string_view first = name.substr(0, dots), last = name.substr(dots + 2);
  const auto a = split_number(first), b = split_number(last);
  if (a && b && a->prefix == b->prefix) {
    if (b->number < a->number) return run_error(name, "is in descending order");
    if (b->number - a->number >= kRunNamesMax) return run_error(name, "contains too many names");
    const size_t width = a->digits.front() == '0' ? a->digits.size() : 0;
    for (uint64_t n = a->number; n <= b->number; ++n) names.push_back(padded(a->prefix, n, width));
    return names;
  }
  const auto begin = std::find(columns.begin(), columns.end(), first);
  const auto end = std::find(begin, columns.end(), last);
  if (begin == columns.end() || end == columns.end())
    return run_error(name, "refers to unknown columns");
  names.assign(begin, end + 1);
  return names;
}

Result<void> expand_runs(std::vector<std::string>& names, const std::vector<std::string>& columns) {
  std::vector<std::string> expanded;
  for (const std::string& name : names) {
    auto run = expand_run(name, columns);
    if (!run && columns.empty() && !is_numbered_run(name)) {
      expanded.push_back(name);  // expanded by columns once they are known
      continue;
    }
    if (!run) return std::move(run).error();
    expanded.insert(expanded.end(), run->begin(), run->end());
    if (expanded.size() > kRunNamesMax) return run_error(name, "contains too many names");
  }
  names = std::move(expanded);
  return {};
}

size_t run_length(const std::vector<std::string>& names, size_t begin) {
  const auto first = split_number(names[begin]);
  if (!first || (first->digits.size() > 1 && first->digits.front() == '0')) return 1;
  size_t length = 1;
  while (begin + length < names.size() &&
         names[begin + length] == padded(first->prefix, first->number + length, 0)) {
    ++length;
  }
  return length;
}

std::vector<std::string> compress_runs(const std::vector<std::string>& names) {
  std::vector<std::string> compressed;
  for (size_t i = 0; i < names.size();) {
    const size_t length = run_length(names, i);
    if (length < 3) {
      compressed.push_back(names[i++]);
      continue;
    }
    compressed.push_back(names[i] + ".." + names[i + length - 1]);
    i += length;
  }
  return compressed;
}

}  // namespace downpour
