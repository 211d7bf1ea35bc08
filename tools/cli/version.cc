#include "shared/base/version.h"

#include <cstdio>
#include <memory>

#include "shared/wire/member_messages.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {

void add_version(CLI::App& app, int& status) {
  CLI::App* verb = app.add_subcommand("version", "Version of this build and of its protocol");
  verb->callback([&status] {
    std::printf("downpour %s, protocol %u\n", kBuildVersion, unsigned{wire::kProtocolVersion});
    status = 0;
  });
}

}  // namespace downpour::tools
