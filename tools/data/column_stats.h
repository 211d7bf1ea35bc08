// Statistics of a stream of values in fixed memory: number of distinct values, frequent values, and
// distribution.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace downpour::tools {

/// Estimates the number of distinct hashes (Flajolet, Fusy, Gandouet, Meunier 2007). The standard
/// error is about 1.6 %. Small numbers are estimated from the empty registers, with a smaller
/// error.
class HyperLogLog {
 public:
  void add(uint64_t hash);
  double estimate() const;

 private:
  static constexpr uint32_t kBits = 12;
  std::array<uint8_t, size_t{1} << kBits> registers_{};
};

/// Finds the most frequent values of a stream (Misra, Gries 1982). Each count is too low by at most
/// error(), which is at most 1/1000 of the number of values. A value that occurs more often than
/// error() is always found.
class FrequentValues {
 public:
  void add(std::string_view value);
  struct Entry {
    std::string value;
    uint64_t count = 0;
  };
  /// Returns the `most` most frequent values. Equally frequent values are in byte order.
  std::vector<Entry> top(size_t most) const;
  uint64_t error() const { return removed_; }

 private:
  static constexpr size_t kKept = 1000;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, uint64_t, Hash, std::equal_to<>> counts_;
  uint64_t removed_ = 0;
};

/// Counts values in bins of equal width. The range doubles when a value lies outside of it.
class Histogram {
 public:
  static constexpr double kLargest = 1e300;  // largest absolute value that may be added
  void add(double value);
  /// Returns `bins` counts that cover the smallest to the largest value. Each of them is a sum of
  /// whole internal bins.
  std::vector<uint64_t> bins(size_t bins) const;

 private:
  static constexpr size_t kBins = 256, kFirst = 256;
  void place(double value);
  void settle();  // chooses the range from the values so far

  std::vector<double> first_;  // the values until the range is chosen
  std::array<uint64_t, kBins> counts_{};
  double low_ = 0, width_ = 0;
  double min_ = 0, max_ = 0;
  bool any_ = false;
};

/// Count, extremes and moments (Welford 1962).
struct Moments {
  uint64_t count = 0;
  double min = 0, max = 0, mean = 0, squares = 0;
  void add(double value);
  double deviation() const;
};

/// Draws one character per bin, with heights in eighths of a line: "▁▂█".
std::string bars(const std::vector<uint64_t>& bins);

}  // namespace downpour::tools
