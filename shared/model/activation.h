// Activation: the functions that a dense layer or an activation layer applies to each element.
#pragma once

#include <cstdint>

namespace downpour::model {

enum class Activation : uint8_t { kNone, kRelu, kSigmoid };

}  // namespace downpour::model
