// Workers that read through input processes, under every kind of fault.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "chief/runtime/job_setup.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/paths.h"
#include "shared/env/storage.h"
#include "shared/job/job_file.h"
#include "tests/support/scratch_dir.h"
#include "tests/support/seeds.h"
#include "tests/tools/sim/simulator_of.h"
#include "tools/sim/counter.h"
#include "tools/sim/simulator.h"

namespace downpour::sim {
namespace {

Simulator make_simulator(const char* faults, uint32_t inputs, const JobSize& size = {},
                         uint32_t workers = 8) {
  const Profile profile{.size = size, .faults = faults, .inputs = inputs};
  return simulator_of(profile, [workers](SimulatorOptions& options) {
    options.workers = workers;
    if (!options.faults.empty() && !options.faults.swarm) options.batch_ns = 150 * kMillisecond;
  });
}

uint64_t count_of(const Outcome& outcome, const char* name) {
  const auto at = outcome.counts.find(name);
  return at == outcome.counts.end() ? 0 : at->second;
}

TEST_CASE("without faults input processes read every batch, and nothing is repeated", "[sim]") {
  const Simulator simulator = make_simulator("none", 2);
  const Outcome outcome = simulator.run(1, {});
  INFO(outcome.violation);
  CHECK(outcome.violation.empty());
  REQUIRE(outcome.finish);
  const auto& summary = outcome.finish->summary;
  CHECK(summary.epochs_sealed == 3);
  CHECK(count_of(outcome, "batch read by an input process") == summary.steps);
  CHECK(count_of(outcome, "worker reads for itself") == 0);
  CHECK(count_of(outcome, "duplicate part") == 0);
  CHECK(count_of(outcome, "repeated lease") == 0);
}

TEST_CASE("chaos loses and repeats nothing, whichever input processes die or stall", "[sim]") {
  const uint64_t seeds = testing::seeds(60);
  std::map<std::string, uint64_t> seeds_with;
  for (const uint32_t inputs : {1, 3}) {
    const Simulator simulator = make_simulator("chaos", inputs);
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      const Outcome outcome = simulator.run(seed, {});
      INFO("downpour sim --counter --faults chaos --inputs " << inputs << " --seed " << seed << ": "
                                                             << outcome.violation);
      REQUIRE(outcome.violation.empty());
      for (const auto& [name, n] : outcome.counts) ++seeds_with[name];
    }
  }
  if (testing::kSanitized) return;  // too few seeds
  for (const char* name : {"batch read by an input process", "worker reads for itself",
                           "input does not answer", "kill-input", "pause-input", "zombie-input",
                           "slow-input", "duplicate part", "repeated lease"}) {
    INFO(name);
    CHECK(seeds_with[name] >= 1);
  }
}

TEST_CASE(
    "one input process runs a program of unknown length for all workers, whichever process dies",
    "[sim]") {
  const JobSize program{.program = true};
  const Outcome quiet = make_simulator("none", 1, program).run(1, {});
  INFO(quiet.violation);
  REQUIRE(quiet.violation.empty());
  REQUIRE(quiet.finish);
  CHECK(count_of(quiet, "batch read by an input process") == quiet.finish->summary.steps);
  CHECK(count_of(quiet, "worker reads for itself") == 0);
  const Simulator simulator = make_simulator("chaos", 1, program);
  for (uint64_t seed = 1; seed <= testing::seeds(40); ++seed) {
    const Outcome outcome = simulator.run(seed, {});
    INFO("seed " << seed << ": " << outcome.violation);
    REQUIRE(outcome.violation.empty());
  }
}

TEST_CASE("with input processes the same seed gives the same run, event for event", "[sim]") {
  const Simulator simulator = make_simulator("chaos", 2);
  for (const uint64_t seed : {7, 100}) {
    const Outcome first = simulator.run(seed, {}), second = simulator.run(seed, {});
    CHECK(first.hash == second.hash);
    CHECK(first.steps == second.steps);
  }
}

TEST_CASE("a worker keeps its lease while another input process takes over the reading", "[sim]") {
  const Simulator simulator = make_simulator("kill-input,zombie-input", 2, {}, 1);
  uint64_t killed = 0;
  for (uint64_t seed = 1; seed <= testing::seeds(20); ++seed) {
    const Outcome outcome = simulator.run(seed, {});
    INFO("seed " << seed << ": " << outcome.violation);
    REQUIRE(outcome.violation.empty());
    CHECK(count_of(outcome, "repeated lease") == 0);
    CHECK(count_of(outcome, "duplicate part") == 0);
    CHECK(count_of(outcome, "batch read by an input process") > 0);
    killed += count_of(outcome, "kill-input");
  }
  CHECK(killed > 0);
}

/// Trains with one worker, one batch at a time, and returns the tables of each partition.
std::vector<std::vector<checkpoint::TableImage>> trained(const testing::ScratchDir& dir,
                                                         uint32_t inputs) {
  const std::string run_dir = str(dir.path(), "/run-", inputs);
  const std::string toml =
      str("run_dir = \"", run_dir, "\"\npartitions = 4\n[data]\nsource = \"", dir / "a.svm",
          "\"\nformat = \"libsvm\"\nshard_records = 200\nparallelism = 1\n"
          "[model]\npreset = \"logistic_regression\"\n"
          "[optimizer]\ntype = \"adagrad\"\nlearning_rate = 0.1\n"
          "[train]\nepochs = 2\nbatch_size = 32\nin_flight = 1\n");
  auto loaded = load_job(JobSource{dir / "job.toml", toml}, {}, chief::process_environment());
  if (!loaded) FAIL(loaded.error().what);
  std::string sniffed;
  REQUIRE(chief::complete_from_data(loaded->job, sniffed));
  SimulatorOptions options;
  options.job = std::move(loaded->job);
  options.inputs = inputs;
  const auto simulator = Simulator::make(std::move(options));
  if (!simulator) FAIL(simulator.error().what);
  PosixStorage storage;
  const Outcome outcome = simulator->run(1, {.storage = &storage, .fresh = true});
  INFO(outcome.violation);
  REQUIRE(outcome.violation.empty());
  REQUIRE(outcome.finish);
  CHECK((count_of(outcome, "batch read by an input process") > 0) == (inputs > 0));
  const auto manifest = checkpoint::load_latest(storage, run_dir, nullptr);
  REQUIRE(manifest);
  std::vector<std::vector<checkpoint::TableImage>> tables;
  for (const auto& chain : checkpoint::chains_of(*manifest)) {
    auto image =
        checkpoint::read_partition(storage, checkpoint::checkpoint_folder(run_dir, manifest->id),
                                   chain, simulator->plan().tables);
    REQUIRE(image);
    tables.push_back(std::move(image->tables));
  }
  return tables;
}

TEST_CASE(
    "a model trained through input processes is bit for bit the same as one trained without them",
    "[sim]") {
  const testing::ScratchDir dir;
  std::string text;
  for (uint32_t i = 0; i < 2000; ++i)
    text += str(i * 7 % 3 == 0, ' ', i % 97, ":1 ", 100 + i % 31, ":0.5 ", 200 + i % 5, ":2\n");
  dir.write("a.svm", text);
  const auto here = trained(dir, 0), remote = trained(dir, 2);
  REQUIRE_FALSE(here.empty());
  CHECK(here == remote);
}

}  // namespace
}  // namespace downpour::sim
