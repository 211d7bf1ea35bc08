#include "shared/env/signals.h"

#include <chrono>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace downpour {
namespace {

using std::chrono::milliseconds;

constexpr int kWentOn = 7;

/// The status of a process that gets SIGINT, and one more once it was seen and `pause` is over.
int interrupted_twice(milliseconds pause) {
  const pid_t child = ::fork();
  if (child == 0) {
    const SignalWatcher signals([] {});
    ::kill(::getpid(), SIGINT);
    while (signals.signal() == 0) std::this_thread::yield();
    std::this_thread::sleep_for(pause);
    ::kill(::getpid(), SIGINT);
    std::this_thread::sleep_for(milliseconds(500));
    ::_exit(signals.signal() == SIGINT ? kWentOn : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("a second signal ends the process, one sent twice is the first", "[env]") {
  CHECK(interrupted_twice(milliseconds(0)) == kWentOn);
  CHECK(interrupted_twice(milliseconds(400)) == 130);
}

}  // namespace
}  // namespace downpour
