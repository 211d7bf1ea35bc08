// travel: encodes and decodes a message, so that tests of a core use the message that arrives
// instead of the one that was sent.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "shared/wire/codec.h"

namespace downpour::testing {

/// Returns the message as a peer in another process receives it: encoded and decoded. Fails if the
/// message cannot be encoded, violates a rule of messages.h, or differs after decoding.
inline Result<wire::Message> travel(const wire::Message& message) {
  wire::Codec sender, receiver;
  DP_TRY(const auto header, sender.encode(message));
  std::vector<Bytes> payloads;
  for (const Bytes& payload : {message.keys, message.values})
    if (!payload.empty()) payloads.push_back(payload);
  DP_TRY(wire::Message arrived, receiver.decode(header, payloads));
  const auto same = [](const Bytes& a, const Bytes& b) {
    return std::ranges::equal(a.span(), b.span());
  };
  bool same_body = arrived.body == message.body;
  if (!same_body) {  // a NaN is not equal to itself, but has the same bytes
    wire::Codec onward;
    DP_TRY(const auto again, onward.encode(arrived));
    same_body = std::ranges::equal(again, header);
  }
  if (arrived.envelope != message.envelope || !same_body || !same(arrived.keys, message.keys) ||
      !same(arrived.values, message.values)) {
    return Error{ErrorCode::kBug, "it arrives as another"};
  }
  return arrived;
}

/// Returns the error of travel(), or an empty text if there is none.
inline std::string travel_fault(const wire::Message& message) {
  const auto arrived = travel(message);
  return arrived ? "" : arrived.error().what;
}

}  // namespace downpour::testing
