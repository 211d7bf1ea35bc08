// Shared memory between two processes of one machine: what is large goes through here, and the
// socket carries only where it lies. The sender owns an arena (a sealed memfd) for each peer; the
// receiver maps it, reads in place and gives blocks back.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shared/base/bytes.h"

namespace downpour::transport {

constexpr uint64_t kArenaBytes = 64ULL << 20;     // of addresses; memory is taken as it is used
constexpr uint64_t kSharedBytesMin = 8ULL << 10;  // smaller payloads travel in the socket
constexpr uint32_t kArenaClasses = 8;             // blocks of 8 KiB, 16 KiB ... 1 MiB
constexpr uint32_t kArenaGranules = uint32_t(kArenaBytes / kSharedBytesMin);

/// How a peer finds an arena: /proc/<pid>/fd/<fd>, which only the same user may open, and a random
/// number at its start that says that it is the one meant.
struct ArenaName {
  uint32_t pid = 0;
  int32_t fd = -1;
  uint64_t token = 0;
  bool operator==(const ArenaName&) const = default;
};

/// Where a payload lies. `ticket` is the block's use: a block that was taken back or used anew does
/// not open with an old one.
struct BlockRef {
  uint32_t granule = 0;
  uint32_t ticket = 0;
  uint64_t bytes = 0;
};

/// What stands before the header frame of a message on a link that may share memory; never alone
/// but where it speaks of the arena itself.
struct SharedNote {
  enum class Kind : uint32_t {
    kOffer = 1,    // here is my arena: open it
    kAccept = 2,   // I have it open
    kDecline = 3,  // I can not: use the socket
    kUnknown =
        4,  // a payload that I can not open (I am new here): its message is lost, offer again
    kPayload = 5,  // the values of the message that follows
  };
  Kind kind = Kind::kOffer;
  ArenaName arena;  // kAccept and after: the token alone, and whose process answers
  BlockRef block;   // kPayload
};
constexpr size_t kSharedNoteBytes = 48;
std::array<uint8_t, kSharedNoteBytes> encode_note(const SharedNote& note);
/// None where the bytes are no note.
std::optional<SharedNote> decode_note(std::span<const uint8_t> bytes);

/// One mapping of an arena, by either side.
class ArenaMapping;

/// The sender's side. One thread.
class SharedArena {
 public:
  /// None where the system gives no sealable memory.
  static std::unique_ptr<SharedArena> create();

  ArenaName name() const;
  /// Copies `bytes` into a free block, for the peer to take. None where there is no room, or
  /// `bytes` is larger than a block.
  std::optional<BlockRef> put(int64_t now_ns, std::span<const uint8_t> bytes);
  /// Takes a block back that was put and not sent.
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
  std::vector<uint32_t> free_[kArenaClasses];  // granules; the last given back is used first
  uint32_t fresh_;                             // first granule that was never used
  uint32_t last_ticket_ = 0;
};

/// The receiver's side. One thread, but the Bytes that it gives may die on any.
class SharedView {
 public:
  /// None where there is no such arena: another machine's or user's process, another container.
  static std::unique_ptr<SharedView> open(const ArenaName& name);

  const ArenaName& name() const { return name_; }
  /// The payload, where it lies; the block is the sender's again when the last copy of the Bytes
  /// dies. None where the reference is wrong or the sender has taken the block back.
  std::optional<Bytes> take(const BlockRef& ref);

 private:
  SharedView(ArenaName name, std::shared_ptr<ArenaMapping> mapping)
      : name_(name), mapping_(std::move(mapping)) {}

  ArenaName name_;
  std::shared_ptr<ArenaMapping> mapping_;
};

}  // namespace downpour::transport
