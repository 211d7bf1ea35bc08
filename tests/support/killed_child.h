// Kills a process of a running job.
#pragma once

#include <csignal>
#include <string>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/program.h"

namespace downpour::testing {

/// Kills the first child of `parent` whose command line contains `name`.
inline void kill_child(const Program& parent, const std::string& name) {
  const std::vector<pid_t> children = parent.children(name);
  REQUIRE_FALSE(children.empty());
  kill(children[0], SIGKILL);
}

/// Waits until `train` has succeeded. `kills`: the child to kill once `run_dir` has a checkpoint.
inline Ended finish_training(Program& train, const std::string& run_dir, const std::string& kills) {
  const auto has_event = [file = run_dir + "/events.jsonl"](const char* event) {
    return read_text(file).find(event) != std::string::npos;
  };
  if (!kills.empty()) {
    for (int i = 0; i < 6000 && !has_event("\"published\""); ++i) usleep(2000);
    kill_child(train, kills);
  }
  const Ended ended = train.wait(180);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  if (kills == "downpour-ps") CHECK(has_event("\"ps_lost\""));
  if (kills == "downpour-worker") CHECK(has_event("\"process_ended\""));
  return ended;
}

}  // namespace downpour::testing
