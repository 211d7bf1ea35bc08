// `downpour inspect`: shows the contents of a saved model. It reads, and so verifies, every byte of
// the newest checkpoint, and of the one that eval and predict use.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/summary.h"
#include "tools/export/top_weights.h"

namespace downpour::tools {

struct InspectOptions {
  bool json = false;
  uint32_t top = 0;  // largest rows of each variable to show
};

/// Runs the verb: prints the newest whole checkpoint of a run folder, or the checkpoint of a
/// manifest file, to `out`. Errors go to stderr. Returns the exit status: 66 if there is no
/// checkpoint, 65 if one is damaged.
int run_inspect(const std::string& path, const InspectOptions& options, std::ostream& out);

/// Prints the same, but returns errors. It prints nothing unless it could read the whole
/// checkpoint. Damage of another checkpoint that is the best one is an error after the output.
Result<void> inspect(const std::string& path, const InspectOptions& options, std::ostream& out);

std::string summary_text(const checkpoint::Summary& summary);
std::string summary_json(const checkpoint::Summary& summary, const std::vector<TopRows>& top = {});

}  // namespace downpour::tools
