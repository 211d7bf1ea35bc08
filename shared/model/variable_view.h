// VariableView: where the values and the gradient of a variable are during one batch.
#pragma once

namespace downpour::model {

/// The memory of one variable for one batch. Embedding variable: [unique keys of the batch, dim].
/// Dense variable: all elements.
struct VariableView {
  const float* values = nullptr;
  /// Same shape as `values`; training only. Graph::train() clears it before it adds to it.
  float* gradient = nullptr;
};

}  // namespace downpour::model
