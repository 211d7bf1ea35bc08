// malformed(): the error for a message with invalid bytes.
#pragma once

#include "shared/base/result.h"
#include "shared/base/str.h"

namespace downpour::wire {

template <typename... Parts>
Error malformed(const Parts&... parts) {
  return {.code = ErrorCode::kMalformed, .what = str(parts...)};
}

}  // namespace downpour::wire
