// Codec: converts messages between plain structs and header frames. Payloads (keys, values) are
// passed along without a copy.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/base/result.h"
#include "shared/wire/frame.h"
#include "shared/wire/messages.h"

namespace downpour::wire {

/// Upper bounds of the lists in one message. A reader rejects a longer list before it allocates
/// memory for it.
constexpr uint32_t kPartitionsMax = 65536;
constexpr uint32_t kSectionsMax = 65536;
constexpr uint32_t kOwnersMax = 65536;
constexpr uint32_t kFilesMax = 65536;
constexpr uint32_t kShardsMax = 1U << 24;  // shards that the files of a Welcome are cut into
constexpr uint32_t kLeasesMax = 4096;
constexpr uint32_t kStepPartsMax = 1024;  // replicas
constexpr uint32_t kFactorsMax = 65536;   // variables
constexpr uint32_t kOutputsMax = 1024;
constexpr uint32_t kBucketsMax = 65536;  // of an AUC histogram or a staleness histogram
constexpr uint32_t kClassesMax = 65536;
constexpr uint32_t kShardsListedMax = 131072;
constexpr uint32_t kMarkersMax = 16384;  // quarantine markers of unsealed epochs
constexpr uint32_t kFragmentsMax = 65536;
constexpr uint64_t kBatchesMax = uint64_t{1} << 53;  // that one worker trains
constexpr uint32_t kInputsMax = 4096;                // processes in an InputList
constexpr uint32_t kPiecesMax = 256;                 // of a batch
constexpr uint64_t kKeysMax = kFrameBytesMax / 8;

/// Encodes and decodes messages, and keeps scratch memory between calls. Used by one thread at a
/// time.
class Codec {
 public:
  Codec();
  ~Codec();
  Codec(Codec&&) noexcept;
  Codec& operator=(Codec&&) noexcept;

  /// Returns the header frame, which is valid until the next call. The payload frames are
  /// message.keys and message.values; an empty one is not sent. Error: kUnsupported if the header
  /// exceeds kHeaderBytesMax or a payload exceeds kFrameBytesMax; the error names the kind.
  Result<std::span<const uint8_t>> encode(const Message& message);

  /// Returns the message of these frames. `payloads` are the frames after the header, in order;
  /// they are moved from on success. Any bytes give either a message that satisfies the constraints
  /// of messages.h, or an Error: kMalformed, or kUnsupported for another protocol version or an
  /// unknown kind. Uses memory of at most a small multiple of the frame's size.
  Result<Message> decode(std::span<const uint8_t> header, std::span<Bytes> payloads);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace downpour::wire
