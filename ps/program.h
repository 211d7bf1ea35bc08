// The program `downpour-ps` as a function, which its own executable and that of tools/capi call.
#pragma once

#include <memory>

#include "shared/flags/ps_process.h"

namespace downpour::ps {

/// Starts the threads of a ps in this process. See StartPs.
Result<std::unique_ptr<PsProcess>> start_ps(const PsProcessOptions& options);

/// Runs the program with the arguments of main(). Returns the exit status.
int run_program(int argc, char** argv);

}  // namespace downpour::ps
