#include "shared/checkpoint/image.h"

#include <algorithm>
#include <cstring>

#include "shared/base/check.h"
#include "shared/base/radix_sort.h"

namespace downpour::checkpoint {

bool PartitionImage::holds_from(uint32_t epoch) const {
  const auto from = [&](uint32_t of) { return of >= epoch; };
  return std::ranges::any_of(epochs, from, &EpochImage::epoch) ||
         std::ranges::any_of(shards, from, [](const ShardImage& s) { return s.shard.epoch; }) ||
         std::ranges::any_of(markers, from, [](const auto& line) { return line.batch.epoch; });
}

uint64_t bulk_bytes(const PartitionImage& image) {
  uint64_t bytes = 0;
  for (const TableImage& table : image.tables) {
    bytes += table.keys.size() * sizeof(uint64_t);
    for (const PageVector<float>& rows : table.table_variables)
      bytes += rows.size() * sizeof(float);
  }
  return bytes;
}

void RowSorter::sort(PartitionImage& image) {
  for (TableImage& table : image.tables) sort(table);
}

void RowSorter::sort(TableImage& image) {
  const size_t n = image.keys.size();
  if (std::is_sorted(image.keys.begin(), image.keys.end())) return;
  order_.resize(n);
  for (size_t i = 0; i < n; ++i) order_[i] = {image.keys[i], uint32_t(i)};
  radix_sort(order_, sorted_, [](const Place& place) { return place.key; });
  for (size_t i = 0; i < n; ++i) image.keys[i] = order_[i].key;
  for (PageVector<float>& rows : image.table_variables) {
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
