// Top weights: the weights of a saved model with the largest absolute values, and the rows of its
// embeddings with the largest norms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/manifest.h"
#include "shared/env/storage.h"

namespace downpour::tools {

struct TopRow {
  std::string name;   // the key of a row, or the number of a linear layer
  std::string words;  // of the key, in the vocabularies of the fields
  double value = 0;   // the weight if the variable has one per row, otherwise the L2 norm
};

struct TopRows {
  std::string variable;
  bool norm = false;  // value is the norm of several weights
  uint64_t rows = 0;  // of which these are the largest
  std::vector<TopRow> top;
};

/// Returns the `count` largest rows of each variable of embeddings, and of the kernel of each
/// linear layer, whose rows belong to numbers. Equal values are in the order of their keys. Errors:
/// those of reading the checkpoint and the vocabularies.
Result<std::vector<TopRows>> top_weights(Storage& storage, const std::string& run_dir,
                                         const checkpoint::Manifest& manifest, size_t count);

}  // namespace downpour::tools
