// Values of text cells: which texts are integers and which are numbers.
#pragma once

#include <cstdint>
#include <string_view>

#include "shared/data/values/fields.h"

namespace downpour::data {

/// Sets `fault` to a line that can't be decoded. Returns false.
bool bad_line(const char* reason, std::string_view line, Fault& fault);

/// Parses "12" but rejects "007", which is more likely an identifier than a number.
bool integer_of(std::string_view text, int64_t& value);

/// Parses "1.5" and "1e3". Rejects digits that integer_of() rejects: "007", or too many digits.
bool real_of(std::string_view text, double& value);

}  // namespace downpour::data
