// The error that says what is wrong with the bytes of a message.
#pragma once

#include "shared/base/result.h"
#include "shared/base/str.h"

namespace downpour::wire {

template <typename... Parts>
Error malformed(const Parts&... parts) {
  return {.code = ErrorCode::kMalformed, .what = str(parts...)};
}

}  // namespace downpour::wire
