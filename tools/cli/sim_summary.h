// What `downpour sim` prints about one run.
#pragma once

#include "tools/sim/outcome.h"

namespace downpour::tools {

/// Prints the time, the events and the figures of a run to stdout.
void print_summary(const sim::Outcome& outcome, bool on_simulated_disk);

}  // namespace downpour::tools
