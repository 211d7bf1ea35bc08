// Clicks of `downpour synth`, a job for them, and the loss of a worker while it trains.
#pragma once

#include <csignal>
#include <string>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/program.h"

namespace downpour::testing {

/// Writes records with 4 numbers and 6 categories into train.svm. Their labels depend on them.
inline void write_clicks(const ScratchDir& dir, int rows) {
  const std::vector<std::string> synth = {
      "synth", dir / "train.svm", "--rows", std::to_string(rows), "--ids",
      "50",    "--numeric",       "4",      "--categorical",      "6"};
  REQUIRE(Program("downpour", synth, dir.path()).wait(120).status == 0);
}

/// Returns a job for them.
inline std::string clicks_job(int epochs) {
  return "data = { source = \"train.svm\", format = \"libsvm\", shard_records = 500 }\n"
         "model = { preset = \"logistic_regression\" }\n"
         "optimizer = { type = \"ftrl\", learning_rate = 0.1 }\n"
         "train = { epochs = " +
         std::to_string(epochs) + ", batch_size = 100, reduction = \"sum\" }\n";
}

/// Waits until each of the two workers of `train`, whose run is runs/job, has received a lease: a
/// worker without one has nothing to lose. Then kills one.
inline void kill_worker_with_lease(const Program& train, const ScratchDir& dir) {
  const auto leased = [&](const char* worker) {
    return read_text(dir / "runs/job/events.jsonl").find(std::string("\"worker\":") + worker) !=
           std::string::npos;
  };
  for (int i = 0; i < 6000 && !(leased("0") && leased("1")); ++i) usleep(5000);
  const std::vector<pid_t> workers = train.children("downpour-worker");
  REQUIRE(workers.size() == 2);
  kill(workers[0], SIGKILL);
}

}  // namespace downpour::testing
