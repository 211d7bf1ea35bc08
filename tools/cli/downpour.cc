// The program `downpour`.
#include "tools/cli/command_line.h"

int main(int argc, char** argv) { return downpour::tools::run_command_line(argc, argv); }
