#include "tools/data/column_stats.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "shared/base/check.h"

namespace downpour::tools {

void HyperLogLog::add(uint64_t hash) {
  const uint64_t index = hash >> (64 - kBits);
  const auto rank = uint8_t(std::countl_zero(hash << kBits | uint64_t{1} << (kBits - 1)) + 1);
  registers_[index] = std::max(registers_[index], rank);
}

double HyperLogLog::estimate() const {
  const auto m = double(registers_.size());
  double sum = 0;
  size_t empty = 0;
  for (const uint8_t rank : registers_) {
    sum += std::ldexp(1.0, -int(rank));
    empty += rank == 0;
  }
  const double raw = 0.7213 / (1 + 1.079 / m) * m * m / sum;
  if (raw <= 2.5 * m && empty > 0) return m * std::log(m / double(empty));
  return raw;
}

void FrequentValues::add(std::string_view value) {
  if (const auto found = counts_.find(value); found != counts_.end()) {
    ++found->second;
    return;
  }
  if (counts_.size() < kKept) {
    counts_.emplace(value, 1);
    return;
  }
  ++removed_;
  for (auto entry = counts_.begin(); entry != counts_.end();)
    entry = --entry->second == 0 ? counts_.erase(entry) : std::next(entry);
}

std::vector<FrequentValues::Entry> FrequentValues::top(size_t most) const {
  std::vector<Entry> all;
  for (const auto& [value, count] : counts_) all.push_back({value, count});
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
    return a.count != b.count ? a.count > b.count : a.value < b.value;
  });
  all.resize(std::min(all.size(), most));
  return all;
}

void Histogram::add(double value) {
  DP_CHECK(std::abs(value) <= kLargest, value);
  min_ = any_ ? std::min(min_, value) : value;
  max_ = any_ ? std::max(max_, value) : value;
  any_ = true;
  if (width_ > 0) return place(value);
  first_.push_back(value);
  if (first_.size() >= kFirst && max_ > min_) settle();
  // All values are equal so far, so it is enough to count them.
  if (width_ == 0 && first_.size() >= 2 * kFirst) {
    counts_[0] += kFirst;
    first_.resize(first_.size() - kFirst);
  }
}

void Histogram::settle() {
  const uint64_t alike = counts_[0];
  const double value = first_.front();
  counts_[0] = 0;
  low_ = min_;
  // Widen the range slightly, so that it contains the largest value.
  width_ = std::max((max_ - min_) / double(kBins) * (1 + 1e-9), std::ldexp(std::abs(max_), -50));
  for (const double each : first_) place(each);
  if (alike > 0) counts_[size_t((value - low_) / width_)] += alike;
  first_ = {};
}

void Histogram::place(double value) {
  while (value < low_ || value >= low_ + width_ * double(kBins)) {
    const bool below = value < low_;
    std::array<uint64_t, kBins> wider{};
    for (size_t i = 0; i < kBins; ++i) wider[i / 2 + (below ? kBins / 2 : 0)] += counts_[i];
    counts_ = wider;
    if (below) low_ -= width_ * double(kBins);
    width_ *= 2;
  }
  ++counts_[std::min(size_t((value - low_) / width_), kBins - 1)];
}

std::vector<uint64_t> Histogram::bins(size_t wanted) const {
  if (!any_) return std::vector<uint64_t>(wanted);
  Histogram settled = *this;
  if (settled.width_ == 0) {
    if (max_ == min_) {
      std::vector<uint64_t> one(wanted);
      one[0] = counts_[0] + first_.size();
      return one;
    }
    settled.settle();
  }
  const auto bin_of = [&](double value) {
    return std::min(size_t((value - settled.low_) / settled.width_), kBins - 1);
  };
  const size_t begin = bin_of(min_), count = bin_of(max_) - begin + 1;
  std::vector<uint64_t> out(wanted);
  for (size_t i = 0; i < count; ++i) out[i * wanted / count] += settled.counts_[begin + i];
  return out;
}

void Moments::add(double value) {
  min = count == 0 ? value : std::min(min, value);
  max = count == 0 ? value : std::max(max, value);
  ++count;
  const double distance = value - mean;
  mean += distance / double(count);
  squares += distance * (value - mean);
}

double Moments::deviation() const {
  return count == 0 ? 0 : std::sqrt(std::max(squares, 0.0) / double(count));
}

std::string bars(const std::vector<uint64_t>& bins) {
  static constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const uint64_t highest = *std::max_element(bins.begin(), bins.end());
  std::string out;
  for (const uint64_t bin : bins) {
    // A bin that is not empty gets at least the lowest bar.
    const double share = highest == 0 ? 0 : double(bin) / double(highest);
    out += kBars[bin == 0 ? 0 : std::max<size_t>(size_t(share * 8 + 0.5), 1)];
  }
  return out;
}

}  // namespace downpour::tools
