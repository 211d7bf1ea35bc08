// The command line of the program `downpour`, with a verb for each task.
#pragma once

namespace downpour::tools {

/// Runs the verb that the arguments name. Returns the exit status.
int run_command_line(int argc, char** argv);

}  // namespace downpour::tools
