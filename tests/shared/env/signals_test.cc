#include "shared/env/signals.h"

#include <atomic>
#include <chrono>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "shared/base/units.h"

namespace downpour {
namespace {

using std::chrono::milliseconds;

constexpr int kWentOn = 7;

/// Returns the exit status of a child process that receives SIGINT twice, the second one `pause`
/// after it has seen the first.
int interrupted_twice(milliseconds pause) {
  const pid_t child = ::fork();
  if (child == 0) {
    const SignalWatcher signals([](int) {});
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

/// Returns the exit status of a child process that runs `act`.
template <typename Act>
int status_of(Act&& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    act();
    ::_exit(1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

void exit_when_seen(const SignalWatcher& signals, int wanted) {
  for (int i = 0; i < 1000 && signals.signal() == 0; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  ::_exit(signals.signal() == wanted ? kWentOn : 1);
}

TEST_CASE("the watcher receives a signal that arrived while it was blocked", "[env]") {
  CHECK(status_of([] {
          block_stop_signals();
          ::kill(::getpid(), SIGTERM);
          std::atomic<int> passed{0};
          const SignalWatcher signals([&](int signal) { passed = signal; });
          exit_when_seen(signals, SIGTERM);
        }) == kWentOn);
}

TEST_CASE("before a watcher exists, a stop signal ends the process with 128 plus its number",
          "[env]") {
  for (const int signal : {SIGINT, SIGTERM}) {
    CHECK(status_of([&] {
            exit_on_stop_signals();
            ::kill(::getpid(), signal);
          }) == 128 + signal);
    CHECK(status_of([&] {
            exit_on_stop_signals();
            const SignalWatcher signals([](int) {});
            ::kill(::getpid(), signal);
            exit_when_seen(signals, signal);
          }) == kWentOn);
  }
}

TEST_CASE("a stop signal ends a sleep, and the process", "[env]") {
  for (const int signal : {SIGINT, SIGTERM}) {
    CHECK(status_of([&] {
            block_stop_signals();
            ::kill(::getpid(), signal);
            sleep_unless_stopped(60 * kSecond);
          }) == 128 + signal);
  }
  CHECK(status_of([] {
          block_stop_signals();
          sleep_unless_stopped(kMillisecond);
          ::_exit(kWentOn);
        }) == kWentOn);
}

TEST_CASE("a signal that the parent process ignores stays ignored", "[env]") {
  CHECK(status_of([] {
          ::signal(SIGINT, SIG_IGN);
          exit_on_stop_signals();
          ::kill(::getpid(), SIGINT);
          ::_exit(kWentOn);
        }) == kWentOn);
}

TEST_CASE("a second signal ends the process, unless it comes within 200 ms of the first", "[env]") {
  CHECK(interrupted_twice(milliseconds(0)) == kWentOn);
  CHECK(interrupted_twice(milliseconds(400)) == 130);
}

}  // namespace
}  // namespace downpour
