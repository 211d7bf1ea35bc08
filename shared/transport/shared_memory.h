// Shared memory between two processes of one machine: large payloads travel through it, and the
// socket carries only their location. The sender owns an arena (a sealed memfd) for each peer. The
// receiver maps it, reads in place, and returns the blocks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shared/base/bytes.h"

namespace downpour::transport {

// address range of an arena; memory is allocated when it is used
constexpr uint64_t kArenaBytes = 64ULL << 20;
constexpr uint64_t kSharedBytesMin = 8ULL << 10;  // smaller payloads travel through the socket
constexpr uint32_t kArenaClasses = 8;             // blocks of 8 KiB, 16 KiB ... 1 MiB
constexpr uint32_t kArenaGranules = uint32_t(kArenaBytes / kSharedBytesMin);

/// Identifies an arena: /proc/<pid>/fd/<fd>, which only the same user may open, and the random
/// number stored at its start.
struct ArenaName {
  uint32_t pid = 0;
  int32_t fd = -1;
  uint64_t token = 0;
  bool operator==(const ArenaName&) const = default;
};

/// The location of a payload. `ticket` numbers the use of the block: an old reference does not open
/// a block that was taken back or reused.
struct BlockRef {
  uint32_t granule = 0;
  uint32_t ticket = 0;
  uint64_t bytes = 0;
};

/// A note in front of the header frame of a message, on a link that may share memory. Notes about
/// the arena itself travel alone.
struct SharedNote {
  enum class Kind : uint32_t {
    kOffer = 1,    // here is my arena: open it
    kAccept = 2,   // I have opened it
    kDecline = 3,  // I cannot open it: use the socket
    // I cannot open this payload (for example after a restart): its message is lost, offer again
    kUnknown = 4,
    kPayload = 5,  // the values of the message that follows
  };
  Kind kind = Kind::kOffer;
  ArenaName arena;  // kAccept and later kinds: only the token, and the pid of the answering process
  BlockRef block;   // kPayload
};
constexpr size_t kSharedNoteBytes = 48;
/// Returns the bytes of a note.
std::array<uint8_t, kSharedNoteBytes> encode_note(const SharedNote& note);
/// Returns nothing if the bytes are not a note.
std::optional<SharedNote> decode_note(std::span<const uint8_t> bytes);

/// One mapping of an arena, used by either side.
class ArenaMapping;

/// The sender's side. Used by one thread.
class SharedArena {
 public:
  /// Returns null if the system has no sealable memory.
  static std::unique_ptr<SharedArena> create();

  ArenaName name() const;
  /// Copies `bytes` into a free block for the peer. Returns nothing if there is no room, or if
  /// `bytes` is larger than a block.
  std::optional<BlockRef> put(int64_t now_ns, std::span<const uint8_t> bytes);
  /// Frees a block that was filled and not sent.
  void take_back(const BlockRef& ref);

 private:
  struct InUse {
    uint32_t granule = 0;
    uint32_t size_class = 0;
    uint32_t ticket = 0;
    int64_t put_ns = 0;
  };
  explicit SharedArena(std::shared_ptr<ArenaMapping> mapping) : mapping_(std::move(mapping)) {}
  std::optional<uint32_t> allocate(int64_t now_ns, uint32_t size_class);
  void reclaim(int64_t now_ns);

  std::shared_ptr<ArenaMapping> mapping_;
  std::vector<InUse> in_use_;
  // granules; the most recently freed one is used first
  std::vector<uint32_t> free_[kArenaClasses];
  uint32_t fresh_;  // first granule that was never used
  uint32_t last_ticket_ = 0;
};

/// The receiver's side. Used by one thread, but the Bytes that it returns may be destroyed by any
/// thread.
class SharedView {
 public:
  /// Returns null if there is no such arena, for example if the process belongs to another machine,
  /// user or container.
  static std::unique_ptr<SharedView> open(const ArenaName& name);

  const ArenaName& name() const { return name_; }
  /// Returns the payload in place. The block returns to the sender when the last copy of the Bytes
  /// is destroyed. Returns nothing if the reference is invalid or the sender has taken the block
  /// back.
  std::optional<Bytes> take(const BlockRef& ref);

 private:
  SharedView(ArenaName name, std::shared_ptr<ArenaMapping> mapping)
      : name_(name), mapping_(std::move(mapping)) {}

  ArenaName name_;
  std::shared_ptr<ArenaMapping> mapping_;
};

}  // namespace downpour::transport
