// Clipping: limits the gradients of a batch.
#pragma once

#include <span>

#include "shared/model/program.h"

namespace downpour::model {

/// One variable's gradient, in the order of Program::variables.
using GradientView = std::span<float>;

/// Limits gradients as `clip` says, in this order: the magnitude of each element to clip.value; the
/// L2 norm of each variable's gradient to clip.norm; the L2 norm of all of them together to
/// clip.global_norm (Pascanu, Mikolov, Bengio 2013). The gradient of an embedding has the rows of
/// the batch. A norm that is not finite changes nothing. The sums are in double, in the order of
/// the elements, so the result does not depend on the threads.
void clip_gradients(const ClipSpec& clip, std::span<const GradientView> gradients);

}  // namespace downpour::model
