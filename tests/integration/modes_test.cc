// Training modes with real processes, one of which is stopped for a while. The weights of the
// counter model show how often each row was applied.
#include <chrono>
#include <csignal>
#include <map>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/counter_rows.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;
constexpr int kRows = 6400;  // 400 batches of 16
constexpr int kEpochs = 30;
constexpr int kWorkers = 3;

/// Trains while one worker is stopped for 4 s, longer than its leases last. Returns the summary.
Json train_with_a_pause(const ScratchDir& dir, const std::string& mode) {
  dir.write("rows.svm", counter_rows(kRows));
  dir.write("job.toml",
            "run_dir = \"run\"\npartitions = 16\n"
            "data = { source = \"rows.svm\", format = \"libsvm\", shard_records = 320 }\n" +
                counter_model() + "train = { " + mode + ", in_flight = 4, epochs = " +
                std::to_string(kEpochs) + ", batch_size = 16, reduction = \"sum\" }\n" +
                "cluster = { ps = 2, workers = " + std::to_string(kWorkers) + " }\n");
  Program train("downpour", {"train", dir / "job.toml", "--log-format", "json", "--quiet"},
                dir.path());
  const auto has_leases = [&](int worker) {
    return read_text(dir / "run/events.jsonl").find("\"worker\":" + std::to_string(worker)) !=
           std::string::npos;
  };
  for (int worker = 0; worker < kWorkers; ++worker) {
    for (int i = 0; i < 6000 && !has_leases(worker); ++i) usleep(5000);
  }
  const std::vector<pid_t> workers = train.children("downpour-worker");
  REQUIRE(workers.size() == kWorkers);
  kill(workers[0], SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(4));
  kill(workers[0], SIGCONT);
  const Ended ended = train.wait(180);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  CHECK(rows_by_count(dir, {"rows.svm"}) == std::map<int, int>{{kEpochs, kRows}});
  return Json::parse(ended.out);
}

/// Returns the number of parts that were staler than `batches`.
uint64_t staler_than(const Json& summary, size_t batches) {
  const std::vector<uint64_t> parts = summary["staleness"];
  uint64_t count = 0;
  for (size_t i = batches + 1; i < parts.size(); ++i) count += parts[i];
  return count;
}

}  // namespace

TEST_CASE("with bounded staleness no part is staler than the bound allows", "[integration]") {
  constexpr int kBound = 1;
  // From the pull of a batch to its application, each other worker applies at most the batches from
  // `bound` below to `bound` above the batch's number, and the worker itself those in flight.
  constexpr size_t kStalest = (kWorkers - 1) * (2 * kBound + 1) + kBound;
  const ScratchDir bounded;
  const Json summary = train_with_a_pause(bounded, "mode = \"bounded\", staleness = 1");
  CHECK(staler_than(summary, kStalest) == 0);
  // The same test finds stale parts where nothing bounds them.
  const ScratchDir unbounded;
  CHECK(staler_than(train_with_a_pause(unbounded, "mode = \"async\""), kStalest) > 0);
}

}  // namespace downpour::testing
