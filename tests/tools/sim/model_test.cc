// The model job on a whole simulated cluster: Adam's state, two tables, dense variables, fragments,
// and metrics.
#include <catch2/catch.hpp>

#include "tests/support/seeds.h"
#include "tests/tools/sim/chaos_seeds.h"
#include "tests/tools/sim/simulator_of.h"
#include "tools/sim/model_job.h"
#include "tools/sim/simulator.h"

namespace downpour::sim {
namespace {

void run_seeds(const Simulator& simulator, uint64_t seeds, const std::string& what) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const Outcome outcome = simulator.run(seed, {});
    INFO(what << ", seed " << seed << ": " << outcome.violation);
    REQUIRE(outcome.violation.empty());
  }
}

TEST_CASE("without faults every row, slot and metric of the model job has the precomputed value",
          "[sim]") {
  const Outcome outcome = simulator_of({.model = true, .faults = "none"}).run(1, {});
  INFO(outcome.violation);
  CHECK(outcome.violation.empty());
  REQUIRE(outcome.finish);
  CHECK(outcome.finish->summary.epochs_sealed == 3);
  CHECK(outcome.finish->summary.evaluations.size() == 3);
  CHECK(outcome.counts.at("part in fragments") > 100);
}

TEST_CASE("under chaos no row, slot or metric of the model job is wrong", "[sim]") {
  check_chaos(simulator_of({.model = true, .faults = "chaos"}), testing::seeds(100), "--model",
              {"duplicate part", "gap", "view mismatch", "repeated lease", "round void",
               "part in fragments", "unknown pull"});
}

TEST_CASE("the model job's rows and metrics are right under every sharding and source", "[sim]") {
  for (const JobSize& size :
       {JobSize{.files = 4, .sharding = "file"}, JobSize{.files = 4, .sharding = "data"},
        JobSize{.files = 4, .sharding = "off"}, JobSize{.files = 4, .mix = true},
        JobSize{.files = 4, .cycle = 3, .window = 10}, JobSize{.program = true},
        JobSize{.steps = 30}, JobSize{.steps = 70}}) {
    run_seeds(simulator_of({.model = true, .size = size, .faults = "chaos"}), testing::seeds(10),
              str(size.sharding, size.mix ? " mix" : "", size.program ? " program" : "", " steps ",
                  size.steps));
  }
}

TEST_CASE("the oracle rejects a job whose gradients depend on the weights", "[sim]") {
  SimulatorOptions options;
  options.job = *make_model_job({});
  options.check_values = true;
  options.job.train.reduction = "mean";
  const auto simulator = Simulator::make(std::move(options));
  REQUIRE_FALSE(simulator);
  CHECK(simulator.error().what.find("means over a batch") != std::string::npos);
}

TEST_CASE("the oracle detects one wrong, missing or repeated step of a row", "[sim]") {
  const auto plan = chief::plan_run(*make_model_job({}), wire::Purpose::kTrain);
  REQUIRE(plan);
  const auto oracle = Oracle::make(*plan);
  REQUIRE(oracle);
  CHECK(oracle->order_matters());
  CHECK(oracle->records() == 12 * 4 * 8);
  // Every batch uses the bias.
  const Oracle::Row* bias = nullptr;
  for (const auto& partition : oracle->by_partition()) {
    for (const Oracle::Row& row : partition) {
      if (oracle->table_name(row.table) == "base/bias") bias = &row;
    }
  }
  REQUIRE(bias != nullptr);
  CHECK(bias->uses.size() == oracle->batches().size());
  const auto state = [&](const StepOf& step_of) {
    std::vector<double> out;
    CHECK(oracle->state(*bias, step_of, out));
    REQUIRE(out.size() == 3 * 8);
    return out;
  };
  const auto differ = [](const std::vector<double>& a, const std::vector<double>& b) {
    size_t n = 0;
    for (size_t i = 0; i < a.size(); ++i) n += agrees(float(a[i]), b[i]) ? 0 : 1;
    return n;
  };
  const std::vector<double> all = state([](uint32_t b) { return b + 1; });
  CHECK(differ(all, all) == 0);
  // A batch in the middle is missing. The weights still differ; the moments no longer do.
  CHECK(differ(all, state([](uint32_t b) { return b == 70 ? 0 : b + 1; })) >= 8);
  // The last two batches are swapped: moments and weights differ.
  const auto last = uint32_t(oracle->batches().size() - 1);
  const auto swapped = state([&](uint32_t b) -> uint64_t {
    return b == last ? last : b == last - 1 ? last + 1 : b + 1;
  });
  CHECK(differ(all, swapped) >= 8);
}

}  // namespace
}  // namespace downpour::sim
