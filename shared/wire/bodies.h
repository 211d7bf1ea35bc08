// Bodies: conversion between plain structs and generated Cap'n Proto types. Private to shared/wire.
// The functions may throw kj::Exception.
#pragma once

#include <capnp/message.h>

#include "shared/base/result.h"
#include "shared/wire/frame.h"
#include "shared/wire/messages.h"

namespace downpour::wire {

/// Writes `body` as the root of the message.
void write_body(const Body& body, capnp::MessageBuilder& builder);

/// Reads the root of a message of kind `kind` and checks each field: enum ranges, list sizes,
/// required fields. Error: kMalformed.
Result<Body> read_body(Kind kind, capnp::MessageReader& reader);

}  // namespace downpour::wire
