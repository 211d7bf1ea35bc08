// Checks that encoders share: whether values match their field, and errors that say why they don't.
#pragma once

#include <string>

#include "shared/base/result.h"
#include "shared/data/formats/field_values.h"
#include "shared/data/values/fields.h"

namespace downpour::data {

/// Returns the error for a field that the format can't represent.
Error cannot_encode(DataFormat format, const ValueField& field, const std::string& why,
                    const std::string& hint);

/// Sets `fault` to a value that can't be encoded. Returns false.
bool refuse_value(const char* reason, const ValueField& field, Fault& fault);

/// Returns whether the values match the kind and shape of the field.
bool fits_field(const ValueField& field, const FieldValues& values, Fault& fault);

/// Converts a number to a float. Returns false if it is beyond the largest float.
bool to_float(double value, float& to);
constexpr const char* kBeyondFloat = "has a number that exceeds a 32-bit float";

}  // namespace downpour::data
