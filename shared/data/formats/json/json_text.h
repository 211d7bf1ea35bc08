// JSON text: writes strings and field values as JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "shared/data/formats/field_values.h"

namespace downpour::data {

/// Returns the number of bytes of the well-formed UTF-8 sequence that begins at `p`; 0 if there is
/// none.
size_t utf8_bytes(const char* p, const char* end);
bool is_utf8(std::string_view text);

/// Appends a string with its quotes. An invalid byte is written as if it were Latin-1.
void append_json_text(std::string& out, std::string_view text);
/// Appends a field's values; null if the field is missing.
void append_json_value(std::string& out, const FieldValues& values, bool scalar);

}  // namespace downpour::data
