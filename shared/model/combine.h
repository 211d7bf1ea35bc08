// Operations that combine values of the same records and have no variables. Each is a struct with
// its inputs and its two kernels; execute.cc finds their memory.
#pragma once

#include <algorithm>
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

/// One layer of a cross network: x0 * z + x, elementwise. The inputs are x0, z and x.
struct CrossOp {
  std::vector<Part> parts;
  ValueId output = 0;

  static void forward(std::span<const PartView> inputs, size_t rows, Matrix out) {
    for (size_t r = 0; r < rows; ++r) {
      const float* x0 = row(inputs[0], r);
      const float* z = row(inputs[1], r);
      const float* x = row(inputs[2], r);
      float* to = out.data + r * out.stride;
      for (size_t j = 0; j < inputs[0].width; ++j) to[j] = x0[j] * z[j] + x[j];
    }
  }
  static void backward(std::span<const PartView> inputs, size_t i, size_t rows, ConstMatrix d,
                       Matrix gradient, bool accumulate) {
    const size_t width = inputs[0].width;
    if (i == 2) return copy(d, gradient, rows, width, accumulate);
    for (size_t r = 0; r < rows; ++r) {
      const float* factor = row(inputs[1 - i], r);
      const float* from = d.data + r * d.stride;
      float* to = gradient.data + r * gradient.stride;
      if (accumulate) {
        for (size_t j = 0; j < width; ++j) to[j] += from[j] * factor[j];
      } else {
        for (size_t j = 0; j < width; ++j) to[j] = from[j] * factor[j];
      }
    }
  }

 private:
  static const float* row(const PartView& input, size_t r) {
    return input.values.data + r * input.values.stride;
  }
};

/// Adds the columns of one input.
struct SumOp {
  std::vector<Part> parts;
  ValueId output = 0;

  static void forward(std::span<const PartView> inputs, size_t rows, Matrix out) {
    const PartView& input = inputs[0];
    for (size_t r = 0; r < rows; ++r) {
      const float* x = input.values.data + r * input.values.stride;
      float sum = 0.0F;
      for (size_t j = 0; j < input.width; ++j) sum += x[j];
      out.data[r * out.stride] = sum;
    }
  }
  static void backward(std::span<const PartView> inputs, size_t i, size_t rows, ConstMatrix d,
                       Matrix gradient, bool accumulate) {
    for (size_t r = 0; r < rows; ++r) {
      float* to = gradient.data + r * gradient.stride;
      for (size_t j = 0; j < inputs[i].width; ++j)
        to[j] = d.data[r * d.stride] + (accumulate ? to[j] : 0.0F);
    }
  }
};

/// Piecewise-linear encoding of numbers in [0, 1] (Gorishniy, Rubachev and Babenko, "On Embeddings
/// for Numerical Features in Tabular Deep Learning", NeurIPS 2022): element t of the `bins` numbers
/// for x is x * bins - t, limited to [0, 1].
struct PiecewiseOp {
  std::vector<Part> parts;
  ValueId output = 0;
  uint32_t bins = 1;

  void forward(std::span<const PartView> inputs, size_t rows, Matrix out) const {
    for (const PartView& input : inputs) {
      for (size_t r = 0; r < rows; ++r) {
        const float* x = input.values.data + r * input.values.stride;
        float* to = out.data + r * out.stride + input.column;
        for (size_t j = 0; j < input.width; ++j, to += bins) {
          const float at = x[j] * float(bins);
          for (uint32_t t = 0; t < bins; ++t) to[t] = std::clamp(at - float(t), 0.0F, 1.0F);
        }
      }
    }
  }
  void backward(std::span<const PartView> inputs, size_t i, size_t rows, ConstMatrix d,
                Matrix gradient, bool accumulate) const {
    const PartView& input = inputs[i];
    for (size_t r = 0; r < rows; ++r) {
      const float* x = input.values.data + r * input.values.stride;
      const float* from = d.data + r * d.stride + input.column;
      float* to = gradient.data + r * gradient.stride;
      for (size_t j = 0; j < input.width; ++j, from += bins) {
        const float at = x[j] * float(bins);
        const bool inside = at > 0.0F && at < float(bins);
        const float slope = inside ? float(bins) * from[size_t(at)] : 0.0F;
        to[j] = slope + (accumulate ? to[j] : 0.0F);
      }
    }
  }
};

}  // namespace downpour::model
