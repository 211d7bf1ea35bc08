// The header of an .npy file, written.
#pragma once

#include <cstdint>
#include <string>

#include "shared/data/formats/codec.h"

namespace downpour::data {

/// Returns the header of an .npy file of version 1 with `rows` rows.
std::string npy_header(const ArrayForm& form, uint64_t rows);

}  // namespace downpour::data
