#include "shared/transport/shared_memory.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/descriptor.h"
#include "shared/base/str.h"
#include "shared/base/units.h"
#include "shared/env/process.h"

namespace downpour::transport {
namespace {

// State of a block: 0 if free, else ticket * 4 + kPut or ticket * 4 + kTaken.
constexpr uint32_t kPut = 1;
constexpr uint32_t kTaken = 2;
constexpr uint32_t kTicketsMax = (1U << 30) - 1;
// a block that was not taken for longer belongs to a lost message
constexpr int64_t kLostNs = 30 * kSecond;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// The start of an arena.
struct ArenaHead {
  uint64_t token = 0;
  std::atomic<uint32_t> states[kArenaGranules];  // of the block that begins at the granule
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);
constexpr auto kHeadGranules =
    uint32_t((sizeof(ArenaHead) + kSharedBytesMin - 1) / kSharedBytesMin);

uint64_t class_bytes(uint32_t size_class) { return kSharedBytesMin << size_class; }

constexpr uint32_t kNoteMagic = 0x4d535044;  // "DPSM"
struct RawNote {
  uint32_t magic = kNoteMagic;
  uint32_t kind = 0;
  uint64_t token = 0;
  uint32_t pid = 0;
  int32_t fd = 0;
  uint32_t granule = 0;
  uint32_t ticket = 0;
  uint64_t bytes = 0;
  uint64_t zero = 0;
};
static_assert(sizeof(RawNote) == kSharedNoteBytes &&
              std::has_unique_object_representations_v<RawNote>);

/// Opens an arena. Checks that it is a regular file of the expected size, and sealed so that no
/// process can shrink it while it is mapped.
int open_arena(const ArenaName& name) {
  const std::string path = str("/proc/", name.pid, "/fd/", name.fd);
  // O_PATH neither touches a device nor waits for a pipe
  const int found = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (found < 0) return -1;
  struct stat is {};
  int fd = -1;
  if (::fstat(found, &is) == 0 && S_ISREG(is.st_mode) && uint64_t(is.st_size) == kArenaBytes)
    fd = ::open(str("/proc/self/fd/", found).c_str(), O_RDWR | O_CLOEXEC);
  ::close(found);
  if (fd < 0) return -1;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & kSeals) == kSeals) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

std::array<uint8_t, kSharedNoteBytes> encode_note(const SharedNote& note) {
  return std::bit_cast<std::array<uint8_t, kSharedNoteBytes>>(RawNote{.kind = uint32_t(note.kind),
                                                                      .token = note.arena.token,
                                                                      .pid = note.arena.pid,
                                                                      .fd = note.arena.fd,
                                                                      .granule = note.block.granule,
                                                                      .ticket = note.block.ticket,
                                                                      .bytes = note.block.bytes});
}

std::optional<SharedNote> decode_note(std::span<const uint8_t> bytes) {
  RawNote raw;
  if (bytes.size() != sizeof(raw)) return std::nullopt;
  std::memcpy(&raw, bytes.data(), sizeof(raw));
  if (raw.magic != kNoteMagic || raw.kind < 1 || raw.kind > 5 || raw.zero != 0) return std::nullopt;
  return SharedNote{.kind = SharedNote::Kind(raw.kind),
                    .arena = {raw.pid, raw.fd, raw.token},
                    .block = {raw.granule, raw.ticket, raw.bytes}};
}

class ArenaMapping {
 public:
  /// Maps an arena. Keeps the descriptor only if other processes must find it.
  static std::shared_ptr<ArenaMapping> map(int fd, bool keep) {
    void* memory = ::mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!keep || memory == MAP_FAILED) ::close(fd);
    if (memory == MAP_FAILED) return nullptr;
    return std::make_shared<ArenaMapping>(static_cast<uint8_t*>(memory), keep ? fd : -1);
  }
  ArenaMapping(uint8_t* memory, int fd) : memory_(memory), fd_(fd) {}
  ~ArenaMapping() { ::munmap(memory_, kArenaBytes); }
  ArenaMapping(const ArenaMapping&) = delete;
  ArenaMapping& operator=(const ArenaMapping&) = delete;

  ArenaHead& head() { return *reinterpret_cast<ArenaHead*>(memory_); }
  std::atomic<uint32_t>& state(uint32_t granule) { return head().states[granule]; }
  uint8_t* block(uint32_t granule) { return memory_ + uint64_t(granule) * kSharedBytesMin; }
  int fd() const { return fd_.get(); }

 private:
  uint8_t* memory_;
  const Descriptor fd_;
};

// ---- sender

std::unique_ptr<SharedArena> SharedArena::create() {
  const int fd = ::memfd_create("downpour", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return nullptr;
  if (::ftruncate(fd, off_t(kArenaBytes)) != 0 || ::fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    ::close(fd);
    return nullptr;
  }
  std::shared_ptr<ArenaMapping> mapping = ArenaMapping::map(fd, true);
  if (mapping == nullptr) return nullptr;
  mapping->head().token = random_id();
  std::unique_ptr<SharedArena> arena(new SharedArena(std::move(mapping)));
  arena->fresh_ = kHeadGranules;
  return arena;
}

ArenaName SharedArena::name() const {
  return {.pid = uint32_t(::getpid()), .fd = mapping_->fd(), .token = mapping_->head().token};
}

std::optional<BlockRef> SharedArena::put(int64_t now_ns, std::span<const uint8_t> bytes) {
  const auto size_class =
      uint32_t(std::bit_width((std::max<uint64_t>(bytes.size(), 1) - 1) / kSharedBytesMin));
  if (size_class >= kArenaClasses) return std::nullopt;
  const std::optional<uint32_t> granule = allocate(now_ns, size_class);
  if (!granule) return std::nullopt;
  last_ticket_ = last_ticket_ % kTicketsMax + 1;
  std::memcpy(mapping_->block(*granule), bytes.data(), bytes.size());
  in_use_.push_back({*granule, size_class, last_ticket_, now_ns});
  mapping_->state(*granule).store(last_ticket_ * 4 + kPut, std::memory_order_release);
  return BlockRef{*granule, last_ticket_, bytes.size()};
}

void SharedArena::take_back(const BlockRef& ref) {
  uint32_t state = ref.ticket * 4 + kPut;
  mapping_->state(ref.granule).compare_exchange_strong(state, 0);
}

std::optional<uint32_t> SharedArena::allocate(int64_t now_ns, uint32_t size_class) {
  if (free_[size_class].empty()) reclaim(now_ns);
  if (!free_[size_class].empty()) {
    const uint32_t granule = free_[size_class].back();
    free_[size_class].pop_back();
    return granule;
  }
  const uint32_t granules = 1U << size_class;
  if (kArenaGranules - fresh_ < granules) return std::nullopt;
  fresh_ += granules;
  return fresh_ - granules;
}

void SharedArena::reclaim(int64_t now_ns) {
  std::erase_if(in_use_, [&](const InUse& block) {
    std::atomic<uint32_t>& state = mapping_->state(block.granule);
    uint32_t seen = state.load(std::memory_order_acquire);
    if (seen == block.ticket * 4 + kPut && now_ns - block.put_ns > kLostNs &&
        state.compare_exchange_strong(seen, 0))
      seen = 0;
    if (seen != 0) return false;
    free_[block.size_class].push_back(block.granule);
    return true;
  });
}

// ---- receiver

std::unique_ptr<SharedView> SharedView::open(const ArenaName& name) {
  const int fd = open_arena(name);
  if (fd < 0) return nullptr;
  std::shared_ptr<ArenaMapping> mapping = ArenaMapping::map(fd, false);
  if (mapping == nullptr || mapping->head().token != name.token) return nullptr;
  return std::unique_ptr<SharedView>(new SharedView(name, std::move(mapping)));
}

std::optional<Bytes> SharedView::take(const BlockRef& ref) {
  const uint64_t offset = uint64_t(ref.granule) * kSharedBytesMin;
  if (ref.granule < kHeadGranules || ref.granule >= kArenaGranules ||
      ref.bytes > class_bytes(kArenaClasses - 1) || ref.bytes > kArenaBytes - offset)
    return std::nullopt;
  std::atomic<uint32_t>& state = mapping_->state(ref.granule);
  uint32_t expected = ref.ticket * 4 + kPut;
  if (!state.compare_exchange_strong(expected, ref.ticket * 4 + kTaken, std::memory_order_acquire))
    return std::nullopt;
  // Its deleter returns the block. The mapping lives as long as any of its payloads.
  const std::shared_ptr<ArenaMapping> mapping = mapping_;
  std::shared_ptr<const void> owner(mapping->block(ref.granule), [mapping, ref](const void*) {
    mapping->state(ref.granule).store(0, std::memory_order_release);
  });
  return Bytes(std::move(owner), mapping_->block(ref.granule), ref.bytes);
}

}  // namespace downpour::transport
