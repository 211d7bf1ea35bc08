// Arena: the rows of one variable in contiguous memory, addressed by row number. A large arena
// grows without copying.
#pragma once

#include <cstddef>
#include <cstdint>

namespace downpour::ps {

/// Interface for making memory present before it is written. The first touch of a page can cost
/// thousands of times more than a later one. An implementation touches pages on its own thread, so
/// that a push does not pay this cost.
class Prefault {
 public:
  virtual ~Prefault() = default;
  /// Requests a touch of whole pages. Their contents stay. Huge pages are a preference, not a
  /// requirement.
  virtual void ask(void* begin, size_t bytes, bool huge_pages) = 0;
  /// Withdraws a range that is about to be unmapped or moved. Returns when no thread touches it any
  /// more.
  virtual void forget(void* begin, size_t bytes) = 0;
};

struct ArenaOptions {
  Prefault* prefault = nullptr;  // borrowed; may be null
  bool reserves = true;          // reserves address space in advance; false if it is limited
};

/// Rows of a fixed stride. Memory is touched only when a row is written. A row's address changes
/// when the arena grows; its number never changes.
class Arena final {
 public:
  enum class Stride {
    /// A row crosses as few cache lines as possible: the stride is a multiple of whole lines if a
    /// row has more than 32 bytes, otherwise a power of two.
    kPadded,
    /// Rows take as little memory as possible: nothing lies between them.
    kPacked,
  };
  explicit Arena(uint32_t row_floats, Stride stride = Stride::kPadded);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  Arena& operator=(Arena&&) = delete;

  float* base() const { return base_; }
  /// Stride in floats.
  size_t stride() const { return stride_; }
  float* row(uint32_t row) const { return base_ + row * stride_; }

  /// Makes room for rows [0, rows) without touching it. Returns false and changes nothing if the
  /// system refuses. The contents of a new row are undefined.
  [[nodiscard]] bool reserve(uint64_t rows) { return rows <= capacity_rows_ || grow(rows); }
  /// Makes room for rows [0, rows) that are written at once. Stops the process if the system
  /// refuses, so call reserve() first if that can happen.
  void ensure(uint64_t rows) {
    if (rows > limit_rows_) [[unlikely]]
      ensure_slowly(rows);
  }
  /// Sets the options. Call it before the first row.
  void configure(const ArenaOptions& options) { options_ = options; }
  /// Bytes of memory in use after rows [0, rows) have been written.
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
  uint64_t limit_rows_ = 0;  // ensure() takes its slow path above this
  size_t mapped_bytes_ = 0;  // 0: base_ is on the heap
  size_t asked_bytes_ = 0;   // of mapped_bytes_: prefix requested from the prefault
  ArenaOptions options_;
};

}  // namespace downpour::ps
