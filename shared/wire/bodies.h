// Bodies: between plain structs and generated Cap'n Proto types. Inside shared/wire only; may throw
// kj::Exception.
#pragma once

#include <capnp/message.h>

#include "shared/base/result.h"
#include "shared/wire/frame.h"
#include "shared/wire/messages.h"

namespace downpour::wire {

void write_body(const Body& body, capnp::MessageBuilder& builder);

/// Reads and checks each field: enum ranges, list sizes, required fields.
Result<Body> read_body(Kind kind, capnp::MessageReader& reader);

}  // namespace downpour::wire
