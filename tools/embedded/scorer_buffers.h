// Scorer::Buffers: the scratch memory of a thread that predicts.
#pragma once

#include <memory>
#include <vector>

#include "shared/model/graph.h"
#include "shared/model/variable_view.h"
#include "tools/embedded/model.h"

namespace downpour::tools {

struct Scorer::Buffers {
  explicit Buffers(const Scorer& scorer) : workspace(scorer.graph_->make_workspace()) {}

  std::unique_ptr<model::Workspace, void (*)(model::Workspace*)> workspace;
  std::vector<std::vector<float>> gathered, predictions;  // by variable; by output
  std::vector<model::VariableView> views;
};

}  // namespace downpour::tools
