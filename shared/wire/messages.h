// Messages: every message between roles as a plain struct. Cores use only these structs; they use
// neither sockets nor Cap'n Proto. docs/protocol.md specifies the protocol.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "shared/base/bytes.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/wire/control_messages.h"
#include "shared/wire/lease_messages.h"
#include "shared/wire/member_messages.h"
#include "shared/wire/push_messages.h"
#include "shared/wire/read_messages.h"

namespace downpour::wire {

/// Any receiver -> sender: the message could not be understood or served.
struct Reject {
  ErrorCode code = ErrorCode::kMalformed;
  std::string what;
  bool operator==(const Reject&) const = default;
};

using AnyBody =
    std::variant<Hello, Welcome, Refused, View, Adopt, Adopted, Heartbeat, LeaseRequest, LeaseGrant,
                 ShardProgress, ShardFailed, LeaseRevoked, EvalReport, PredictReport, StatusRequest,
                 StatusReply, Save, Saved, Sealed, Stop, Goodbye, Pull, PullReply, Push, PushReply,
                 Reject, Freeze, Frozen, Leave, InputList, ReadShard, ReadMore, ReadBatch, ReadEnd,
                 ReadFailed, Clock, Floor, Staged, Commit, Committed, Expect>;

/// The body of a message: one of these structs. A class of its own, so that copying, moving and
/// destroying 40 alternatives are compiled once, in messages.cc, and not in every file that passes
/// a message on.
struct Body : AnyBody {
  using AnyBody::AnyBody;
  Body() noexcept;
  Body(const Body& other);
  Body(Body&& other) noexcept;
  Body& operator=(const Body& other);
  Body& operator=(Body&& other) noexcept;
  ~Body();
};

/// The fields that fence every message.
struct Envelope {
  uint64_t run = 0;     // 0 until welcomed
  ViewId view;          // newest that the sender knows; an outdated chief is recognized by its term
  RequestId request{};  // a reply carries the id of its request
  bool operator==(const Envelope&) const = default;
};

/// A message: envelope, body, and at most two raw little-endian payloads of at most kFrameBytesMax
/// bytes each.
struct Message {
  Envelope envelope;
  Body body;
  Bytes keys;    // elements are uint64
  Bytes values;  // float32; some messages have images or predictions here
};

}  // namespace downpour::wire
