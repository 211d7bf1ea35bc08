#include "tools/cli/restart_policy.h"

#include <csignal>

#include <catch2/catch.hpp>

#include "shared/base/units.h"

namespace downpour::tools {
namespace {

/// What waitpid() reports.
int exited(int status) { return status << 8; }

TEST_CASE("a process is started again at once, then after growing pauses, then not any more",
          "[cli]") {
  RestartPolicy policy(5);
  const int64_t t = 100 * kSecond;
  CHECK(policy.on_ended(t) == t);
  CHECK(policy.on_ended(t) == t + 250 * kMillisecond);
  CHECK(policy.on_ended(t) == t + 500 * kMillisecond);
  CHECK(policy.on_ended(t) == t + kSecond);
  CHECK(policy.on_ended(t) == t + 2 * kSecond);
  CHECK(!policy.on_ended(t + 10 * kSecond));
}

TEST_CASE("one that dies seldom is started again for ever", "[cli]") {
  RestartPolicy policy(2);
  for (int64_t t = 0; t < 100 * 60 * kSecond; t += 60 * kSecond) {
    CHECK(policy.on_ended(t) == t);
  }
}

TEST_CASE("zero restarts a minute means none", "[cli]") { CHECK(!RestartPolicy(0).on_ended(0)); }

TEST_CASE(
    "kill -9, a crash and lost peers are worth a restart; bad data, a wrong job and a full disk "
    "are not",
    "[cli]") {
  for (const int signal : {SIGKILL, SIGSEGV, SIGABRT}) CHECK(restart_mends(signal));
  for (const int status : {69, 70, 180}) CHECK(restart_mends(exited(status)));
  for (const int status : {0, 64, 65, 66, 73, 74, 77, 78, 127})
    CHECK(!restart_mends(exited(status)));
}

TEST_CASE("an error that no restart mends is known by its exit status", "[cli]") {
  CHECK(permanent_error(exited(78)) == ErrorCode::kConfig);
  CHECK(permanent_error(exited(73)) == ErrorCode::kCannotCreate);
  for (const int status : {exited(0), exited(70), exited(127), exited(180), SIGKILL})
    CHECK(!permanent_error(status));
}

}  // namespace
}  // namespace downpour::tools
