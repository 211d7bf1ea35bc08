// Codec: messages as plain structs <-> header frames. Payloads (keys, values) pass by; they are
// never copied.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/base/result.h"
#include "shared/wire/frame.h"
#include "shared/wire/messages.h"

namespace downpour::wire {

/// Upper bounds of what one message may list. A reader refuses more before it allocates for them.
constexpr uint32_t kPartitionsMax = 65536;
constexpr uint32_t kSectionsMax = 65536;
constexpr uint32_t kOwnersMax = 65536;
constexpr uint32_t kFilesMax = 65536;
constexpr uint32_t kShardsMax = 1U << 24;  // that the files of a Welcome are cut to
constexpr uint32_t kLeasesMax = 4096;
constexpr uint32_t kOutputsMax = 1024;
constexpr uint32_t kBucketsMax = 65536;  // of an AUC histogram, of a staleness histogram
constexpr uint32_t kClassesMax = 65536;
constexpr uint32_t kShardsListedMax = 131072;
constexpr uint32_t kLinesMax = 16384;  // batches given up, in unsealed epochs
constexpr uint32_t kFragmentsMax = 65536;
constexpr uint32_t kInputsMax = 4096;  // processes in an InputList
constexpr uint32_t kPiecesMax = 256;   // of a batch
constexpr uint64_t kKeysMax = kFrameBytesMax / 8;

/// Encodes and decodes with memory of its own, kept between calls. One thread at a time.
class Codec {
 public:
  Codec();
  ~Codec();
  Codec(Codec&&) noexcept;
  Codec& operator=(Codec&&) noexcept;

  /// The header frame, valid until the next call. The payload frames are message.keys and
  /// message.values, each left out where it is empty. Errors: kUnsupported where the header would
  /// pass kHeaderBytesMax or a payload kFrameBytesMax; that names the kind.
  Result<std::span<const uint8_t>> encode(const Message& message);

  /// A message from its frames; `payloads` are those that followed the header, in order, moved from
  /// on success. Whatever the bytes are, this returns a message that keeps messages.h's promises,
  /// or an Error: kMalformed, or kUnsupported for another protocol version or kind. Memory stays
  /// within a small multiple of the frame.
  Result<Message> decode(std::span<const uint8_t> header, std::span<Bytes> payloads);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace downpour::wire
