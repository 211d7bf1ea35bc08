// Endpoints as users write them.
#pragma once

#include <string>

#include "shared/base/result.h"

namespace downpour::transport {

/// "HOST:PORT" becomes "tcp://HOST:PORT"; tcp://, ipc:// and inproc:// stay. Errors: kUsage.
Result<std::string> normalize_endpoint(const std::string& text);

/// Binding beyond loopback needs an explicit --insecure: traffic is neither encrypted nor authenticated. kPermission.
Result<void> check_exposure(const std::string& endpoint, bool insecure);

}  // namespace downpour::transport
