// lay_out: assigns memory to values, decides the first writer of each gradient, and sets the number
// of records per chunk.
#pragma once

#include <vector>

#include "shared/model/program.h"

namespace downpour::model {

/// What compile() knows about a value in addition to the program.
struct ValueUse {
  uint32_t uses = 0;        // number of operations, concatenations and outputs that read it
  std::vector<Part> parts;  // of a concatenation; empty for other values
};

/// Completes a program whose values and operations are known.
void lay_out(Program& program, const std::vector<ValueUse>& uses);

}  // namespace downpour::model
