// Errors of the C interface: the last one of each thread.
#pragma once

#include <exception>

#include "shared/base/result.h"

namespace downpour::capi {

/// Stores the error for dp_last_error(), and returns its exit status.
int32_t fail(Error error);

/// Returns what `call` returns. Turns an exception of a library, such as one for too little memory
/// or too many threads, into an error.
template <typename Call>
int32_t guarded(Call&& call) {
  try {
    return call();
  } catch (const std::exception& exception) {
    return fail({ErrorCode::kUnavailable, str("out of memory or threads: ", exception.what()), "",
                 "use fewer threads or smaller data"});
  }
}

}  // namespace downpour::capi
