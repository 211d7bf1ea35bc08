// The program `downpour-worker` as a function, which its own executable and that of tools/capi
// call.
#pragma once

namespace downpour::worker {

/// Runs the program with the arguments of main(). Returns the exit status.
int run_program(int argc, char** argv);

}  // namespace downpour::worker
