// All programs of Downpour as one function, so that they can share the code of libdownpour.so.
#pragma once

#include "tools/capi/downpour.h"

/// Runs the program that argv[0] names: downpour-ps, downpour-worker, downpour-chief; any other
/// name is `downpour`. Returns the exit status. Not part of the interface for other languages: it
/// ends the process on a second signal, and it may only be called once.
DP_API int dp_run_program(int argc, char** argv);
