#include "ps/core/arena.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/page_vector.h"
#include "shared/base/units.h"

namespace downpour::ps {
namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kHugePageBytes = 2 * kMiB;
// From this size on, the kernel moves pages, so that we do not copy rows.
constexpr size_t kMapFromBytes = 64 * kKiB;
// Huge pages are used from this size on. Below it, the unused rest of the last page would be a
// large share of the whole.
constexpr size_t kHugeFromBytes = 16 * kMiB;
// Address space is reserved in advance from this size on, so that rows do not move while an arena
// grows. A reservation costs nothing, but there are only 128 TiB of address space, for thousands of
// small tables too.
constexpr size_t kReserveFromBytes = kMiB;
constexpr size_t kReserveBytes = 4 * kGiB;
constexpr size_t kReserveTimes = 16;  // multiple of the size, for larger arenas
// If address space is limited, an arena takes this share more than it needs at the moment.
constexpr size_t kTightShare = 8;
// How far ahead of the rows in use pages are requested. That is enough for several full pushes, and
// a share of the rows in use. A table that has grown fast is likely to continue. A machine that is
// slow to provide fresh memory needs all of it: 16 MiB can take it 40 ms.
constexpr size_t kAheadBytesMin = 16 * kMiB;
constexpr size_t kAheadBytesMax = 256 * kMiB;
constexpr size_t kAheadShare = 5;
// Step size of the requests while pages are small.
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

size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

/// Returns address space of `bytes` that begins at a multiple of a huge page, or null. It is not
/// accounted, because nothing is touched yet.
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

/// Moves pages to `to`, which is mapped, and unmaps `from`. mremap() moves one kernel mapping at a
/// time, and advice for a part of an arena cuts it into several mappings. If the kernel refuses the
/// whole range (EFAULT), the halves are moved one after the other.
void move_pages(uint8_t* from, uint8_t* to, size_t bytes) {
  if (::mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to) return;
  DP_CHECK(errno == EFAULT && bytes > kPageBytes, "the kernel refused to move table rows", bytes,
           std::strerror(errno));
  const size_t half = round_up(bytes / 2, bytes > kHugePageBytes ? kHugePageBytes : kPageBytes);
  move_pages(from, to, half);
  move_pages(from + half, to + half, bytes - half);
}

}  // namespace

Arena::Arena(uint32_t row_floats, Stride stride)
    : stride_(stride == Stride::kPacked ? row_floats : padded_floats(row_floats)) {
  DP_CHECK(row_floats > 0);
}

Arena::Arena(Arena&& other) noexcept
    : stride_(other.stride_),
      base_(std::exchange(other.base_, nullptr)),
      capacity_rows_(std::exchange(other.capacity_rows_, 0)),
      limit_rows_(std::exchange(other.limit_rows_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      asked_bytes_(std::exchange(other.asked_bytes_, 0)),
      options_(other.options_) {}

Arena::~Arena() {
  if (mapped_bytes_ > 0) {
    if (asked_bytes_ > 0) options_.prefault->forget(base_, asked_bytes_);
    ::munmap(base_, mapped_bytes_);
  } else {
    std::free(base_);
  }
}

void Arena::ensure_slowly(uint64_t rows) {
  DP_CHECK(reserve(rows), "out of memory for table rows", rows, stride_);
  limit_rows_ = capacity_rows_;
  if (options_.prefault != nullptr && mapped_bytes_ >= kReserveFromBytes) look_ahead(rows);
}

// Requests the next range when a quarter of the last one is used up. The rest is time for making it
// present.
void Arena::look_ahead(uint64_t rows) {
  const size_t row_bytes = stride_ * sizeof(float);
  const size_t used_bytes = rows * row_bytes;
  const size_t ahead = ahead_bytes(used_bytes);
  const bool huge = used_bytes >= kHugeFromBytes;
  const size_t step = huge ? kHugePageBytes : kSmallStepBytes;
  const size_t wanted_bytes = std::min(mapped_bytes_, (used_bytes + ahead) / step * step);
  // Skip the page that is being filled and the next one: a write to a page that is being made
  // present waits for the whole page.
  const size_t begin_bytes = std::max(asked_bytes_, (used_bytes / step + 2) * step);
  if (wanted_bytes > begin_bytes) {
    options_.prefault->ask(reinterpret_cast<uint8_t*>(base_) + begin_bytes,
                           wanted_bytes - begin_bytes, huge && options_.reserves);
    asked_bytes_ = wanted_bytes;
  }
  limit_rows_ = std::min(capacity_rows_, (used_bytes + ahead / 4) / row_bytes + 1);
}

bool Arena::grow(uint64_t rows) {
  const size_t row_bytes = stride_ * sizeof(float);
  const size_t used_bytes = capacity_rows_ * row_bytes;
  const size_t needed_bytes = rows * row_bytes;
  const size_t wanted_bytes = std::max(needed_bytes, used_bytes + used_bytes / 2);
  if (wanted_bytes < kMapFromBytes) return grow_on_heap(wanted_bytes);
  // Take the largest size that the system grants.
  if (options_.reserves) {
    const size_t doubled = std::bit_ceil(wanted_bytes);
    const size_t ahead = doubled < kReserveBytes ? kReserveBytes : doubled * kReserveTimes;
    if (doubled >= kReserveFromBytes && move_to_mapping(ahead)) return true;
    if (move_to_mapping(doubled)) return true;
  }
  for (const size_t bytes : {needed_bytes + needed_bytes / kTightShare, needed_bytes}) {
    const size_t rounded = round_up(bytes, kMapFromBytes);
    if (resize_mapping(rounded) || move_to_mapping(rounded)) return true;
  }
  return false;
}

bool Arena::grow_on_heap(size_t wanted_bytes) {
  const size_t bytes = round_up(wanted_bytes, kLineBytes);
  auto* const grown = static_cast<float*>(std::aligned_alloc(kLineBytes, bytes));
  if (grown == nullptr) return false;
  const size_t row_bytes = stride_ * sizeof(float);
  if (capacity_rows_ > 0) std::memcpy(grown, base_, capacity_rows_ * row_bytes);
  std::free(base_);
  base_ = grown;
  capacity_rows_ = bytes / row_bytes;
  return true;
}

/// Needs address space for the old mapping and the new one at the same time.
bool Arena::move_to_mapping(size_t bytes) {
  void* const place = map(bytes);
  if (place == nullptr) return false;
  if (mapped_bytes_ > 0) {
    if (asked_bytes_ > 0) options_.prefault->forget(base_, asked_bytes_);
    move_pages(reinterpret_cast<uint8_t*>(base_), static_cast<uint8_t*>(place), mapped_bytes_);
  } else if (capacity_rows_ > 0) {
    std::memcpy(place, base_, capacity_rows_ * stride_ * sizeof(float));
    std::free(base_);
  }
  use_mapping(place, bytes);
  return true;
}

/// Needs address space for the new size only. Without reservations, advice always covers a mapping
/// as a whole, so that the kernel can resize it in one piece.
bool Arena::resize_mapping(size_t bytes) {
  if (mapped_bytes_ == 0 || options_.reserves) return false;
  if (asked_bytes_ > 0) options_.prefault->forget(base_, asked_bytes_);
  void* const place = ::mremap(base_, mapped_bytes_, bytes, MREMAP_MAYMOVE);
  if (place == MAP_FAILED) return false;
  use_mapping(place, bytes);
  return true;
}

/// The kernel may refuse the advice. A reservation gets it only from kHugeFromBytes on, and only if
/// no prefault requests huge pages. With a prefault, a row that is written before the prefault
/// reaches it waits only for a small page.
void Arena::use_mapping(void* place, size_t bytes) {
  base_ = static_cast<float*>(place);
  mapped_bytes_ = bytes;
  capacity_rows_ = bytes / (stride_ * sizeof(float));
  if (bytes <= kHugeFromBytes || (options_.reserves && options_.prefault != nullptr)) return;
  const size_t begin = options_.reserves ? kHugeFromBytes : 0;
  ::madvise(reinterpret_cast<uint8_t*>(base_) + begin, bytes - begin, MADV_HUGEPAGE);
}

}  // namespace downpour::ps
