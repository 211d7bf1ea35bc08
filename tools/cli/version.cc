#include "shared/base/version.h"

#include <cstdio>

#include "shared/wire/member_messages.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {

void declare_version(CLI::App* verb, int& status) {
  verb->callback([&status] {
    std::printf("downpour %s, protocol %u\n", kBuildVersion, unsigned{wire::kProtocolVersion});
    status = 0;
  });
}

}  // namespace downpour::tools
