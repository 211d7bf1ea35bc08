// downpour inspect: what stands in a saved model. Reads, and so verifies, every byte of its newest
// checkpoint.
#pragma once

#include <ostream>
#include <string>

#include "shared/base/result.h"
#include "shared/checkpoint/summary.h"

namespace downpour::tools {

struct InspectOptions {
  bool json = false;
};

/// The verb: prints a run folder's newest whole checkpoint, or the one of a manifest file, to
/// `out`; what goes wrong, to stderr. Returns the exit status: 66 where there is no checkpoint, 65
/// where one is damaged.
int run_inspect(const std::string& path, const InspectOptions& options, std::ostream& out);

/// The same without a terminal: nothing is printed unless all of it was read.
Result<void> inspect(const std::string& path, const InspectOptions& options, std::ostream& out);

std::string summary_text(const checkpoint::Summary& summary);
std::string summary_json(const checkpoint::Summary& summary);

}  // namespace downpour::tools
