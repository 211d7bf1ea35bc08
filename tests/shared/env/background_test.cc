#include "shared/env/background.h"

#include <atomic>
#include <vector>

#include <catch2/catch.hpp>

namespace downpour {
namespace {

TEST_CASE("tasks run in order on another thread, their completions on the caller's thread",
          "[env]") {
  std::atomic<int> wakes{0};
  BackgroundThread background([&] { ++wakes; });
  const auto here = std::this_thread::get_id();
  std::vector<int> completed;
  bool elsewhere = true;
  for (int i = 0; i < 3; ++i) {
    background.start([&, i]() -> Background::Completion {
      elsewhere = elsewhere && std::this_thread::get_id() != here;
      return [&completed, i, here] {
        CHECK(std::this_thread::get_id() == here);
        completed.push_back(i);
      };
    });
  }
  while (wakes < 3) std::this_thread::yield();
  CHECK(completed.empty());
  CHECK(background.run_completions());
  CHECK(elsewhere);
  CHECK(completed == std::vector{0, 1, 2});
  CHECK_FALSE(background.run_completions());
}

TEST_CASE("destruction waits for the task that runs", "[env]") {
  std::atomic<bool> begun{false};
  std::atomic<int> done{0};
  {
    BackgroundThread background([] {});
    background.start([&]() -> Background::Completion {
      begun = true;
      ++done;
      return [] {};
    });
    while (!begun) std::this_thread::yield();
  }
  CHECK(done == 1);
}

}  // namespace
}  // namespace downpour
