#include "shared/wire/codec.h"

#include <capnp/serialize.h>
#include <cstring>
#include <kj/io.h>

#include "shared/wire/bodies.h"
#include "shared/wire/malformed.h"

namespace downpour::wire {
namespace {

constexpr size_t kFirstSegmentWords = 4096;  // 32 KiB; a push of 256 partitions needs 5 KiB

uint64_t key_count(const std::vector<Section>& sections) {
  uint64_t keys = 0;
  for (const Section& section : sections) keys += section.keys;
  return keys;
}

/// Checks that the message has the payloads that its body requires.
Result<void> check_payloads(const Message& message) {
  const uint64_t keys = message.keys.size() / 8;
  if (const auto* pull = std::get_if<Pull>(&message.body)) {
    if (key_count(pull->sections) != keys) {
      return malformed("sections of ", key_count(pull->sections), " keys, keys frame of ", keys);
    }
    if (!message.values.empty()) return malformed("an unexpected values frame");
  } else if (const auto* push = std::get_if<Push>(&message.body)) {
    const uint64_t named = key_count(push->sections);
    const bool by_handle = push->handle != RequestId{} && keys == 0;
    if (by_handle ? named > kKeysMax : named != keys) {
      return malformed("sections of ", named, " keys, keys frame of ", keys);
    }
  } else {
    const bool has_values = std::holds_alternative<PullReply>(message.body) ||
                            std::holds_alternative<PredictReport>(message.body) ||
                            std::holds_alternative<Frozen>(message.body) ||
                            std::holds_alternative<Committed>(message.body) ||
                            std::holds_alternative<Adopt>(message.body) ||
                            std::holds_alternative<ReadBatch>(message.body);
    if (keys > 0) return malformed("an unexpected keys frame");
    if (!has_values && !message.values.empty()) return malformed("an unexpected values frame");
  }
  if (std::holds_alternative<ReadBatch>(message.body) && message.values.empty())
    return malformed("the bytes of the batch are missing");
  if (message.envelope.request == RequestId{} &&
      (std::holds_alternative<Pull>(message.body) || std::holds_alternative<Push>(message.body))) {
    return malformed("the request id is missing");
  }
  return {};
}

/// The sizes depend on input of users and peers. Therefore a payload that does not fit into a frame
/// is an error, not a bug.
Result<void> check_payload_sizes(Kind kind, const Message& message) {
  const auto check = [&](std::string_view name, uint64_t bytes, uint64_t element) -> Result<void> {
    if (bytes <= kFrameBytesMax && bytes % element == 0) return {};
    return Error{.code = ErrorCode::kUnsupported,
                 .what = str(kind_name(kind), " with a ", name, " frame of ", bytes,
                             " bytes; a frame may have at most ", kFrameBytesMax,
                             " bytes and contains only whole elements")};
  };
  DP_TRY_VOID(check("keys", message.keys.size(), 8));
  return check("values", message.values.size(), 4);
}

}  // namespace

struct Codec::Scratch {
  // zeroed between calls
  std::vector<capnp::word> segment = std::vector<capnp::word>(kFirstSegmentWords);
  std::vector<uint8_t> frame;        // the last encoded one
  std::vector<capnp::word> aligned;  // copy of the body that is being decoded
};

Codec::Codec() : scratch_(std::make_unique<Scratch>()) {}
Codec::~Codec() = default;
Codec::Codec(Codec&&) noexcept = default;
Codec& Codec::operator=(Codec&&) noexcept = default;

Result<std::span<const uint8_t>> Codec::encode(const Message& message) try {
  const Kind kind = kind_of(message.body);
  capnp::MallocMessageBuilder builder(
      kj::arrayPtr(scratch_->segment.data(), scratch_->segment.size()));
  write_body(message.body, builder);
  DP_TRY_VOID(check_payload_sizes(kind, message));
  const size_t body_bytes = capnp::computeSerializedSizeInWords(builder) * sizeof(capnp::word);
  if (body_bytes > kHeaderBytesMax - kEnvelopeBytes) {
    return Error{.code = ErrorCode::kUnsupported,
                 .what = str(kind_name(kind), " of ", body_bytes,
                             " bytes does not fit in a header frame (", kHeaderBytesMax, ")"),
                 .hint = "use fewer data files or fewer partitions"};
  }
  std::vector<uint8_t>& frame = scratch_->frame;
  frame.resize(kEnvelopeBytes + body_bytes);
  kj::ArrayOutputStream out(kj::arrayPtr(frame.data() + kEnvelopeBytes, body_bytes));
  capnp::writeMessage(out, builder);
  seal_frame({.kind = kind,
              .envelope = message.envelope,
              .keys_bytes = uint32_t(message.keys.size()),
              .values_bytes = uint32_t(message.values.size())},
             frame);
  return std::span<const uint8_t>(frame);
} catch (const kj::Exception& exception) {
  return Error{.code = ErrorCode::kUnsupported,
               .what = str("can't encode: ", exception.getDescription().cStr())};
}

Result<Message> Codec::decode(std::span<const uint8_t> header, std::span<Bytes> payloads) try {
  DP_TRY(const FrameHeader frame, open_frame(header));
  const size_t expected = (frame.keys_bytes > 0 ? 1 : 0) + (frame.values_bytes > 0 ? 1 : 0);
  if (payloads.size() != expected) {
    return malformed(payloads.size(), " payload frames, but the header declares ", expected);
  }
  if (frame.keys_bytes > 0 && payloads.front().size() != frame.keys_bytes) {
    return malformed("keys frame of ", payloads.front().size(), " bytes, but the header declares ",
                     frame.keys_bytes);
  }
  if (frame.values_bytes > 0 && payloads.back().size() != frame.values_bytes) {
    return malformed("values frame of ", payloads.back().size(), " bytes, but the header declares ",
                     frame.values_bytes);
  }
  // Cap'n Proto needs 8-byte alignment, which received frames seldom have.
  const size_t words = (header.size() - kEnvelopeBytes) / sizeof(capnp::word);
  if (words == 0) return malformed("an envelope without a message");
  if (scratch_->aligned.size() < words) scratch_->aligned.resize(words);
  std::memcpy(static_cast<void*>(scratch_->aligned.data()), header.data() + kEnvelopeBytes,
              words * sizeof(capnp::word));
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 8 * words + 64;
  options.nestingLimit = 16;
  capnp::FlatArrayMessageReader reader(kj::arrayPtr(scratch_->aligned.data(), words), options);
  DP_TRY(Body body, read_body(frame.kind, reader));
  Message message{.envelope = frame.envelope, .body = std::move(body)};
  if (frame.keys_bytes > 0) message.keys = payloads.front();
  if (frame.values_bytes > 0) message.values = payloads.back();
  DP_TRY_VOID(check_payloads(message).context(kind_name(frame.kind)));
  for (Bytes& payload : payloads) payload = {};
  return message;
} catch (const kj::Exception& exception) {
  return malformed("unreadable body: ", exception.getDescription().cStr());
}

}  // namespace downpour::wire
