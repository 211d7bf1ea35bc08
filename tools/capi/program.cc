#include "tools/capi/program.h"

#include <string_view>

#include "chief/program.h"
#include "ps/program.h"
#include "tools/cli/command_line.h"
#include "worker/program.h"

int dp_run_program(int argc, char** argv) {
  const std::string_view path = argc > 0 ? argv[0] : "";
  const std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  if (name == "downpour-ps") return downpour::ps::run_program(argc, argv);
  if (name == "downpour-worker")
    return downpour::worker::run_program(argc, argv, downpour::ps::start_ps);
  if (name == "downpour-chief") return downpour::chief::run_program(argc, argv);
  return downpour::tools::run_command_line(argc, argv);
}
