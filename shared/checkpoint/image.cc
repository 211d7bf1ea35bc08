#include "shared/checkpoint/image.h"

#include <algorithm>
#include <cstring>

#include "shared/base/check.h"

namespace downpour::checkpoint {

uint64_t bulk_bytes(const PartitionImage& image) {
  uint64_t bytes = 0;
  for (const TableImage& table : image.tables) {
    bytes += table.keys.size() * sizeof(uint64_t);
    for (const std::vector<float>& rows : table.members) bytes += rows.size() * sizeof(float);
  }
  return bytes;
}

void RowSorter::sort(PartitionImage& image) {
  for (TableImage& table : image.tables) sort(table);
}

/// Least significant digit first; digits in which all keys agree are passed over, so that keys from
/// a dictionary take three passes. Several times as fast as std::sort.
void RowSorter::sort_places() {
  constexpr size_t kDigitValues = 256;
  uint64_t differ = 0;
  for (const Place& place : order_) differ |= place.key ^ order_[0].key;
  sorted_.resize(order_.size());
  for (uint32_t shift = 0; shift < 64; shift += 8) {
    if ((differ >> shift & 0xff) == 0) continue;
    size_t begins[kDigitValues] = {};
    for (const Place& place : order_) ++begins[place.key >> shift & 0xff];
    size_t begin = 0;
    for (size_t& here : begins) begin += std::exchange(here, begin);
    for (const Place& place : order_) sorted_[begins[place.key >> shift & 0xff]++] = place;
    order_.swap(sorted_);
  }
}

void RowSorter::sort(TableImage& image) {
  const size_t n = image.keys.size();
  if (std::is_sorted(image.keys.begin(), image.keys.end())) return;
  order_.resize(n);
  for (size_t i = 0; i < n; ++i) order_[i] = {image.keys[i], uint32_t(i)};
  sort_places();
  for (size_t i = 0; i < n; ++i) image.keys[i] = order_[i].key;
  for (std::vector<float>& rows : image.members) {
    DP_CHECK(rows.size() % n == 0, rows.size(), n);
    const size_t width = rows.size() / n;
    rows_.resize(rows.size());
    for (size_t i = 0; i < n; ++i) {
      std::memcpy(rows_.data() + i * width, rows.data() + order_[i].row * width,
                  width * sizeof(float));
    }
    rows_.swap(rows);
  }
}

}  // namespace downpour::checkpoint
