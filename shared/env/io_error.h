// The errors of the system's file calls: one code and one piece of advice for each errno.
#pragma once

#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace downpour {

/// The purpose of a failed call: it decides the code of its error.
enum class Intent { kRead, kCreate };

/// Returns the error of a call that failed with `number` (errno). `what` says in words what could
/// not be done, such as "can't write the predictions"; the reason follows it. Codes: kPermission;
/// if a folder or file of the path is missing or not of the right kind, kNoInput (kRead) or
/// kCannotCreate (kCreate); otherwise kIo. The hint is empty if the errno alone gives no advice.
Error system_error(std::string_view what, const std::string& path, int number, Intent intent);

/// The same for a call with a name, such as "rename".
Error io_error(const char* call, const std::string& path, int number, Intent intent);

}  // namespace downpour
