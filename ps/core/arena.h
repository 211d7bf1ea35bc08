// Arena: rows of one variable in contiguous memory, addressed by row number; grows without copying
// once large.
#pragma once

#include <cstddef>
#include <cstdint>

namespace downpour::ps {

/// Makes memory present that will be written soon. The first touch of a page may cost thousands of
/// times a later one; a thread of its own takes that cost off the path of a push.
class Prefault {
 public:
  virtual ~Prefault() = default;
  /// Touches whole pages; their contents stay. Huge pages are wished for, not needed.
  virtual void ask(void* begin, size_t bytes, bool huge_pages) = 0;
  /// The range is about to be unmapped or moved: returns once no thread touches it any more.
  virtual void forget(void* begin, size_t bytes) = 0;
};

struct ArenaOptions {
  Prefault* prefault = nullptr;  // borrowed; may be null
  bool reserves = true;          // takes address space ahead; false where that is limited
};

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

  /// Makes room for rows [0, rows), without touching it. False: the system refuses, and nothing has
  /// changed. The contents of a new row are undefined.
  [[nodiscard]] bool reserve(uint64_t rows) { return rows <= capacity_rows_ || grow(rows); }
  /// The same for rows that are written at once. Stops the process where the system refuses: call
  /// reserve() first where it may.
  void ensure(uint64_t rows) {
    if (rows > limit_rows_) [[unlikely]]
      ensure_slowly(rows);
  }
  /// Before the first row.
  void configure(const ArenaOptions& options) { options_ = options; }
  /// Memory in use once rows [0, rows) were written.
  uint64_t touched_bytes(uint64_t rows) const {
    return (mapped_bytes_ > 0 ? rows : capacity_rows_) * stride_ * sizeof(float);
  }

 private:
  void ensure_slowly(uint64_t rows);
  bool grow(uint64_t rows);
  bool grow_on_heap(size_t wanted_bytes);
  bool move_to_mapping(size_t bytes);
  bool resize_mapping(size_t bytes);
  void use_mapping(void* place, size_t bytes);
  void look_ahead(uint64_t rows);

  size_t stride_;
  float* base_ = nullptr;
  uint64_t capacity_rows_ = 0;
  uint64_t limit_rows_ = 0;  // from here on ensure() has something to do
  size_t mapped_bytes_ = 0;  // 0: base_ is from the heap
  size_t asked_bytes_ = 0;   // of mapped_bytes_: asked to be made present
  ArenaOptions options_;
};

}  // namespace downpour::ps
