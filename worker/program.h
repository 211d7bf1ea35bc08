// The program `downpour-worker` as a function, which its own executable and that of tools/capi
// call.
#pragma once

#include "shared/flags/ps_process.h"

namespace downpour::worker {

/// Runs the program with the arguments of main(). `start_ps` starts the ps of --with-ps. Returns
/// the exit status.
int run_program(int argc, char** argv, StartPs start_ps);

}  // namespace downpour::worker
