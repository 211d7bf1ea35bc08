// "range:N": a source of the numbers from 0 to N - 1, for tests and experiments.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace downpour {

constexpr std::string_view kRangeScheme = "range:";
constexpr uint64_t kRangeMax = 1'000'000'000;

/// Returns N. Returns nothing if the path is not a range or N is out of bounds.
inline std::optional<uint64_t> range_records(std::string_view path) {
  if (!path.starts_with(kRangeScheme)) return std::nullopt;
  const char* const end = path.data() + path.size();
  uint64_t records = 0;
  const auto read = std::from_chars(path.data() + kRangeScheme.size(), end, records);
  if (read.ec != std::errc{} || read.ptr != end || records == 0 || records > kRangeMax)
    return std::nullopt;
  return records;
}

}  // namespace downpour
