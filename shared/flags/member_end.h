// The end of a program that is a member of a cluster.
#pragma once

#include <string>
#include <string_view>

namespace downpour {

/// The end of the reason of a member that has never heard of the chief.
constexpr std::string_view kNoAnswer = "does not answer";

/// Prints why a member ends with `code`, and returns the code. `endpoint` is that of the chief. If
/// the chief has never answered, the error says whether its name is known, and what to check.
int report_end(int code, const std::string& reason, const std::string& endpoint);

}  // namespace downpour
