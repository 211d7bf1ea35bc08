// lay_out: where values lie, who writes a gradient first, and how many records go through at once.
#pragma once

#include <vector>

#include "shared/model/program.h"

namespace downpour::model {

/// What compile() knows of a value beside the program.
struct ValueUse {
  uint32_t uses = 0;        // by operations, concatenations and outputs
  std::vector<Part> parts;  // of a concatenation
};

/// Completes a program whose values and operations are known.
void lay_out(Program& program, const std::vector<ValueUse>& uses);

}  // namespace downpour::model
