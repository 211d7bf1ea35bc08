// Statistics of a stream of values in fixed memory: how many different ones, which are frequent,
// how they are spread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace downpour::tools {

/// How many different hashes were added, to about 1.6 % (Flajolet, Fusy, Gandouet, Meunier 2007);
/// few are counted by the empty registers, to less.
class HyperLogLog {
 public:
  void add(uint64_t hash);
  double estimate() const;

 private:
  static constexpr uint32_t kBits = 12;
  std::array<uint8_t, size_t{1} << kBits> registers_{};
};

/// The most frequent of a stream of values (Misra, Gries 1982): each count is low by at most
/// error(), a 1,000th of all, and no value more frequent than that is missed.
class FrequentValues {
 public:
  void add(std::string_view value);
  struct Entry {
    std::string value;
    uint64_t count = 0;
  };
  /// The `most` most frequent ones, the first of equals in order of their bytes.
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

/// Counts of values in bins of equal width. Its range doubles as values come.
class Histogram {
 public:
  static constexpr double kLargest = 1e300;  // of what may be added, either sign
  void add(double value);
  /// `bins` counts from the smallest value to the largest, each of whole bins of ours.
  std::vector<uint64_t> bins(size_t bins) const;

 private:
  static constexpr size_t kBins = 256, kFirst = 256;
  void place(double value);
  void settle();  // chooses the range by the values so far

  std::vector<double> first_;  // until the range is chosen
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

/// Eighths of a line's height, a character a bin: "▁▂█".
std::string bars(const std::vector<uint64_t>& bins);

}  // namespace downpour::tools
