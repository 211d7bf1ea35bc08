#include "tools/cli/restart_policy.h"

#include <csignal>

#include <catch2/catch.hpp>

#include "shared/base/units.h"

namespace downpour::tools {
namespace {

/// Returns what waitpid() reports for a process that exited with `status`.
int exited(int status) { return status << 8; }

TEST_CASE("a process is restarted at once, then after growing pauses", "[cli]") {
  RestartPolicy policy(5);
  const int64_t t = 100 * kSecond;
  uint64_t progress = 0;
  CHECK(policy.on_ended(t, ++progress) == t);
  CHECK(policy.on_ended(t, ++progress) == t + 250 * kMillisecond);
  CHECK(policy.on_ended(t, ++progress) == t + 500 * kMillisecond);
  CHECK(policy.on_ended(t, ++progress) == t + kSecond);
  for (int i = 0; i < 10; ++i) policy.on_ended(t, ++progress);
  CHECK(policy.on_ended(t, ++progress) == t + 8 * kSecond);
  CHECK(policy.on_ended(t + 61 * kSecond, ++progress) == t + 61 * kSecond);
}

TEST_CASE(
    "three restarts in a row without progress of the job are a crash loop, however long each "
    "process lived",
    "[cli]") {
  for (const int64_t life_ns : {kSecond, 12 * kSecond, 300 * kSecond}) {
    RestartPolicy policy(3);
    int64_t t = 0;
    constexpr uint64_t kProgress = 41;
    for (int i = 0; i < 3; ++i) CHECK(policy.on_ended(t += life_ns, kProgress));
    CHECK(!policy.on_ended(t += life_ns, kProgress));
  }
}

TEST_CASE("progress of the job resets the number of restarts", "[cli]") {
  RestartPolicy policy(2);
  int64_t t = 0;
  for (uint64_t progress = 0; progress < 100; ++progress) {
    CHECK(policy.on_ended(++t, progress));
    CHECK(policy.on_ended(++t, progress));
  }
}

TEST_CASE("a limit of zero means no restart", "[cli]") { CHECK(!RestartPolicy(0).on_ended(0, 1)); }

TEST_CASE(
    "a process is restarted after kill -9, a crash or lost peers, but not after bad data, a wrong "
    "job or a full disk",
    "[cli]") {
  for (const int signal : {SIGKILL, SIGSEGV, SIGABRT}) CHECK(restart_mends(signal));
  for (const int status : {69, 70, 180}) CHECK(restart_mends(exited(status)));
  for (const int status : {0, 64, 65, 66, 73, 74, 77, 78, 127})
    CHECK(!restart_mends(exited(status)));
}

TEST_CASE("the exit status shows an error that no restart resolves", "[cli]") {
  CHECK(permanent_error(exited(78)) == ErrorCode::kConfig);
  CHECK(permanent_error(exited(73)) == ErrorCode::kCannotCreate);
  for (const int status : {exited(0), exited(70), exited(127), exited(180), SIGKILL})
    CHECK(!permanent_error(status));
}

}  // namespace
}  // namespace downpour::tools
