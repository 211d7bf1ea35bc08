// Operations that combine values of the same records and have no variables. Each is a struct with
// its inputs and its two kernels; execute.cc finds their memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/model/kernels.h"

namespace downpour::model {

using ValueId = uint32_t;

/// An input of a combination.
struct Part {
  ValueId value = 0;
  uint32_t column = 0;  // concatenation: first column in the output
  bool accumulate_gradient = false;
};

/// An input in memory: [rows of a chunk, width].
struct PartView {
  ConstMatrix values;
  size_t width = 0;
  uint32_t column = 0;  // as in Part
};

// A combination has these kernels. `forward` sets `out` from the inputs. `backward` sets, or with
// `accumulate` adds to, the gradient of input `i` from the gradient `d` of the output.

/// Adds inputs of equal width.
struct AddOp {
  std::vector<Part> parts;
  ValueId output = 0;

  static void forward(std::span<const PartView> inputs, size_t rows, Matrix out) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      copy(inputs[i].values, out, rows, inputs[i].width, i > 0);
    }
  }
  static void backward(std::span<const PartView> inputs, size_t i, size_t rows, ConstMatrix d,
                       Matrix gradient, bool accumulate) {
    copy(d, gradient, rows, inputs[i].width, accumulate);
  }
};

/// Copies the parts that are not already placed in the output's buffer.
struct ConcatOp {
  std::vector<Part> parts;
  ValueId output = 0;

  static void forward(std::span<const PartView> inputs, size_t rows, Matrix out) {
    for (const PartView& input : inputs) {
      copy(input.values, {out.data + input.column, out.stride}, rows, input.width, false);
    }
  }
  static void backward(std::span<const PartView> inputs, size_t i, size_t rows, ConstMatrix d,
                       Matrix gradient, bool accumulate) {
    const PartView& input = inputs[i];
    copy({d.data + input.column, d.stride}, gradient, rows, input.width, accumulate);
  }
};

}  // namespace downpour::model
