#include "shared/job/interval.h"

#include <charconv>
#include <cmath>

#include "shared/base/str.h"
#include "shared/base/units.h"

namespace downpour {
namespace {

struct Unit {
  std::string_view name;
  int64_t ns;
};
constexpr Unit kUnits[] = {{"d", 86400 * kSecond},
                           {"h", 3600 * kSecond},
                           {"m", 60 * kSecond},
                           {"s", kSecond},
                           {"ms", kMillisecond}};
constexpr double kLongestNs = 100.0 * 365 * 86400 * double(kSecond);

}  // namespace

std::optional<int64_t> parse_duration(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !(number >= 0)) return {};
  const std::string_view rest(end, size_t(text.data() + text.size() - end));
  for (const Unit& unit : kUnits) {
    const double ns = number * double(unit.ns);
    if (rest == unit.name && ns <= kLongestNs) return std::llround(ns);
  }
  return {};
}

std::string duration_text(int64_t ns) {
  for (const Unit& unit : kUnits) {
    if (ns % unit.ns == 0) return str(ns / unit.ns, unit.name);
  }
  return str(double(ns) / double(kMillisecond), "ms");
}

std::optional<uint64_t> parse_bytes(std::string_view text) {
  struct Size {
    std::string_view name;
    double bytes;
  };
  static constexpr Size kSizes[] = {
      {"", 1},     {"B", 1},    {"KiB", 1024.0},       {"MiB", 1048576.0},
      {"KB", 1e3}, {"MB", 1e6}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
      {"GB", 1e9}, {"TB", 1e12}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !(number >= 0)) return {};
  std::string_view rest(end, size_t(text.data() + text.size() - end));
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  for (const Size& size : kSizes) {
    const double bytes = number * size.bytes;
    if (rest == size.name && bytes <= 1e15) return uint64_t(std::llround(bytes));
  }
  return {};
}

std::optional<Interval> parse_interval(std::string_view text) {
  if (text == "epoch") return Interval{};
  const auto ns = parse_duration(text);
  if (!ns || *ns <= 0) return {};
  return Interval{.ns = *ns};
}

}  // namespace downpour
