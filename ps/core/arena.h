// Arena: rows of one variable in contiguous memory, addressed by row number; grows without copying
// once large.
#pragma once

#include <cstddef>
#include <cstdint>

namespace downpour::ps {

/// Rows of a fixed stride. Memory is touched only as rows are written; a row's address changes when
/// the arena grows, its number never does.
class Arena final {
 public:
  /// The stride is padded so that no row straddles a cache line needlessly: to whole lines above 32
  /// bytes, else to a power of two.
  explicit Arena(uint32_t row_floats);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  Arena& operator=(Arena&&) = delete;

  float* base() const { return base_; }
  /// In floats.
  size_t stride() const { return stride_; }
  float* row(uint32_t row) const { return base_ + row * stride_; }

  /// Makes room for rows [0, rows). The contents of a new row are undefined.
  void ensure(uint64_t rows) {
    if (rows > capacity_rows_) grow(rows);
  }
  /// Memory in use once rows [0, rows) were written.
  uint64_t touched_bytes(uint64_t rows) const {
    return (mapped_bytes_ > 0 ? rows : capacity_rows_) * stride_ * sizeof(float);
  }

 private:
  void grow(uint64_t rows);

  size_t stride_;
  float* base_ = nullptr;
  uint64_t capacity_rows_ = 0;
  size_t mapped_bytes_ = 0;  // 0: base_ is from the heap
};

}  // namespace downpour::ps
