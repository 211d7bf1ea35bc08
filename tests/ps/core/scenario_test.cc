// Runs tests/scenarios/ps_*.txt. With DP_REGENERATE=1 in the environment it rewrites these files;
// review the diff.
#include "tests/ps/core/ps_script.h"
#include "tests/support/scenarios.h"

namespace downpour::ps {
namespace {

TEST_CASE("every ps scenario has the recorded output", "[ps][scenario]") {
  testing::check_scenarios<PsScript>("ps_");
}

}  // namespace
}  // namespace downpour::ps
