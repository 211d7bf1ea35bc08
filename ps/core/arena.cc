#include "ps/core/arena.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/units.h"

namespace downpour::ps {
namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kHugePageBytes = 2 * kMiB;
// From here on the kernel moves pages instead of us copying rows.
constexpr size_t kMapFromBytes = 64 * kKiB;
// Huge pages from here on: below, the last one's untouched part would be a large share of the
// whole.
constexpr size_t kHugeFromBytes = 16 * kMiB;
// From here on address space is taken ahead, so that rows do not move while they double: it costs
// nothing, but there are only 128 TiB of it, for thousands of small tables too.
constexpr size_t kReserveFromBytes = kMiB;
constexpr size_t kReserveBytes = 4 * kGiB;
constexpr size_t kReserveTimes = 16;  // beyond
// How far ahead of the rows in use pages are asked for: what several full pushes can fill, and a
// share of what is there, since a table that has grown fast is likely to go on. A machine that
// finds fresh memory slowly needs all of it: 16 MiB may take it 40 ms.
constexpr size_t kAheadBytesMin = 16 * kMiB;
constexpr size_t kAheadBytesMax = 256 * kMiB;
constexpr size_t kAheadShare = 5;
// In these steps while pages are small.
constexpr size_t kSmallStepBytes = 64 * kKiB;

size_t ahead_bytes(size_t used_bytes) {
  if (used_bytes < kHugeFromBytes) return used_bytes / 2;
  return std::clamp(used_bytes / kAheadShare, kAheadBytesMin, kAheadBytesMax);
}

size_t padded_floats(uint32_t row_floats) {
  const size_t bytes = row_floats * sizeof(float);
  const size_t padded =
      bytes > 32 ? (bytes + kLineBytes - 1) / kLineBytes * kLineBytes : std::bit_ceil(bytes);
  return padded / sizeof(float);
}

/// Address space of `bytes` that begins at a multiple of a huge page, or null. Not accounted:
/// nothing is touched yet.
void* map(size_t bytes) {
  const size_t with_slack = bytes + kHugePageBytes;
  void* const raw = ::mmap(nullptr, with_slack, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<uint8_t*>(raw);
  const size_t misfit = reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  uint8_t* const aligned = misfit == 0 ? begin : begin + (kHugePageBytes - misfit);
  if (aligned > begin) ::munmap(begin, size_t(aligned - begin));
  ::munmap(aligned + bytes, size_t(begin + with_slack - (aligned + bytes)));
  return aligned;
}

}  // namespace

Arena::Arena(uint32_t row_floats) : stride_(padded_floats(row_floats)) { DP_CHECK(row_floats > 0); }

Arena::Arena(Arena&& other) noexcept
    : stride_(other.stride_),
      base_(std::exchange(other.base_, nullptr)),
      capacity_rows_(std::exchange(other.capacity_rows_, 0)),
      limit_rows_(std::exchange(other.limit_rows_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      asked_bytes_(std::exchange(other.asked_bytes_, 0)),
      prefault_(other.prefault_) {}

Arena::~Arena() {
  if (mapped_bytes_ > 0) {
    if (asked_bytes_ > 0) prefault_->forget(base_, asked_bytes_);
    ::munmap(base_, mapped_bytes_);
  } else {
    std::free(base_);
  }
}

void Arena::ensure_slowly(uint64_t rows) {
  if (rows > capacity_rows_) grow(rows);
  limit_rows_ = capacity_rows_;
  if (prefault_ != nullptr && mapped_bytes_ >= kReserveFromBytes) look_ahead(rows);
}

// Asks for the next stretch when a quarter of the last one is used up: the rest is time to make it
// present.
void Arena::look_ahead(uint64_t rows) {
  const size_t row_bytes = stride_ * sizeof(float);
  const size_t used_bytes = rows * row_bytes;
  const size_t ahead = ahead_bytes(used_bytes);
  const bool huge = used_bytes >= kHugeFromBytes;
  const size_t step = huge ? kHugePageBytes : kSmallStepBytes;
  const size_t wanted_bytes = std::min(mapped_bytes_, (used_bytes + ahead) / step * step);
  // Not the page that is being filled nor the next: whoever comes to a page while it is made
  // present waits for all of it.
  const size_t begin_bytes = std::max(asked_bytes_, (used_bytes / step + 2) * step);
  if (wanted_bytes > begin_bytes) {
    prefault_->ask(reinterpret_cast<uint8_t*>(base_) + begin_bytes, wanted_bytes - begin_bytes,
                   huge);
    asked_bytes_ = wanted_bytes;
  }
  limit_rows_ = std::min(capacity_rows_, (used_bytes + ahead / 4) / row_bytes + 1);
}

void Arena::grow(uint64_t rows) {
  const size_t row_bytes = stride_ * sizeof(float);
  const size_t used_bytes = capacity_rows_ * row_bytes;
  const size_t wanted_bytes = std::max(rows * row_bytes, used_bytes + used_bytes / 2);
  if (wanted_bytes < kMapFromBytes) {
    const size_t bytes = (wanted_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    auto* const grown = static_cast<float*>(std::aligned_alloc(kLineBytes, bytes));
    DP_CHECK(grown != nullptr, "out of memory for table rows: bytes", bytes);
    if (used_bytes > 0) std::memcpy(grown, base_, used_bytes);
    std::free(base_);
    base_ = grown;
    capacity_rows_ = bytes / row_bytes;
    return;
  }
  size_t bytes = std::bit_ceil(std::max(wanted_bytes, kMapFromBytes));
  void* place = nullptr;
  if (bytes >= kReserveFromBytes) {
    const size_t ahead = bytes < kReserveBytes ? kReserveBytes : bytes * kReserveTimes;
    place = map(ahead);  // null where the process may not: ulimit -v, strict overcommit
    if (place != nullptr) bytes = ahead;
  }
  if (place == nullptr) place = map(bytes);
  DP_CHECK(place != nullptr, "out of memory for table rows: bytes", bytes);
  if (mapped_bytes_ > 0) {
    if (asked_bytes_ > 0) prefault_->forget(base_, asked_bytes_);
    void* const moved = ::mremap(base_, mapped_bytes_, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    DP_CHECK(moved == place, "the kernel would not move a table's rows: bytes", bytes);
  } else if (used_bytes > 0) {
    std::memcpy(place, base_, used_bytes);
    std::free(base_);
  }
  // Advice: may be refused. With somebody to make pages present it is his to ask for huge ones: a
  // row that is there before him then waits for a small page.
  base_ = static_cast<float*>(place);
  if (bytes > kHugeFromBytes && prefault_ == nullptr) {
    ::madvise(reinterpret_cast<uint8_t*>(base_) + kHugeFromBytes, bytes - kHugeFromBytes,
              MADV_HUGEPAGE);
  }
  capacity_rows_ = bytes / row_bytes;
  mapped_bytes_ = bytes;
}

}  // namespace downpour::ps
