// Errors of the C interface: the last one of each thread.
#pragma once

#include "shared/base/result.h"

namespace downpour::capi {

/// Stores the error for dp_last_error(), and returns its exit status.
int32_t fail(Error error);

}  // namespace downpour::capi
