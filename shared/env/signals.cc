#include "shared/env/signals.h"

#include <chrono>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <utility>

#include "shared/base/units.h"

namespace downpour {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction now {};
    // A signal that the parent process set to be ignored stays ignored.
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
    sigaddset(&set, signal);
  }
  return set;
}

constexpr auto kSameStop = std::chrono::milliseconds(200);

void exit_now(int signal) { _exit(128 + signal); }

}  // namespace

void block_stop_signals() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void exit_on_stop_signals() {
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = exit_now;
    sigaction(signal, &action, nullptr);
  }
}

void sleep_unless_stopped(int64_t ns) {
  const sigset_t set = stop_signals();
  const timespec time{.tv_sec = ns / kSecond, .tv_nsec = ns % kSecond};
  const int signal = sigtimedwait(&set, nullptr, &time);
  if (signal > 0) exit_now(signal);
}

SignalWatcher::SignalWatcher(std::function<void(int)> on_signal)
    : on_signal_(std::move(on_signal)) {
  block_stop_signals();
  thread_ = std::thread([this] {
    const sigset_t set = stop_signals();
    std::chrono::steady_clock::time_point first;
    for (;;) {
      const timespec period{.tv_sec = 0, .tv_nsec = 100'000'000};
      const int signal = sigtimedwait(&set, nullptr, &period);
      if (closing_.load()) return;
      if (signal < 0) continue;
      const auto now = std::chrono::steady_clock::now();
      if (signal_.load() != 0) {
        if (now - first < kSameStop) continue;
        _exit(128 + signal);
      }
      first = now;
      signal_ = signal;
      on_signal_(signal);
    }
  });
}

SignalWatcher::~SignalWatcher() {
  closing_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // ends the wait
  thread_.join();
}

}  // namespace downpour
