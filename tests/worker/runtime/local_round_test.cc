// LocalRound: what a replica changes when it trains the batches of a round alone.
#include "worker/runtime/local_round.h"

#include "tests/shared/model/support.h"

namespace downpour::worker {
namespace {

using Floats = std::vector<std::vector<float>>;

/// Returns a job y = w x + sum of rows with a squared loss, which trains rounds of `steps` batches.
Job local_job(uint32_t batch_size, uint32_t steps, const OptimizerSpec& optimizer) {
  Job job = model::make_job(
      {model::number_field("x"), model::bag_field("f"), model::number_field("label")},
      {{.name = "w", .type = "linear", .inputs = {"x", "f"}, .bias = false}},
      {{.name = "y", .input = "w", .loss = "squared", .target = "label"}});
  job.optimizer = optimizer;
  job.train.mode = TrainMode::kLocal;
  job.train.replicas = 1;
  job.train.batch_size = batch_size;
  job.train.sync_every = steps;
  return job;
}

OptimizerSpec sgd(float rate) {
  OptimizerSpec spec = optimizer_defaults(OptimizerType::kSgd);
  spec.learning_rate = rate;
  return spec;
}

struct Replica {
  explicit Replica(const Job& job) {
    auto built = model::Graph::build(job);
    REQUIRE(built);
    graph = *std::move(built);
    workspace = graph->make_workspace();
  }
  /// Returns the changes of the variables, times the records, and keeps the metrics.
  const Floats& train(const Batch& batch, const Floats& pulled, LocalRound::Place place = {},
                      int threads = 1) {
    round.train(*graph, batch, place, pulled, *workspace, threads, changes, metrics);
    return changes;
  }
  std::unique_ptr<model::Graph> graph;
  std::unique_ptr<model::Workspace, void (*)(model::Workspace*)> workspace{nullptr, nullptr};
  LocalRound round;
  Floats changes;
  model::BatchMetrics metrics;
};

/// Returns records with these x and labels, and the keys of one bag per record.
Batch records_of(std::vector<float> x, std::vector<float> labels,
                 const std::vector<std::vector<uint32_t>>& bags, size_t keys) {
  Batch batch;
  batch.records = uint32_t(x.size());
  batch.floats = {{1, std::move(x)}, {1, std::move(labels)}};
  batch.tables = {{TableId{0}, {}}};
  for (size_t k = 0; k < keys; ++k) batch.tables[0].keys.push_back(70 + k);
  BagColumn bag{.offsets = {0}};
  for (const std::vector<uint32_t>& of_record : bags) {
    bag.keys.insert(bag.keys.end(), of_record.begin(), of_record.end());
    bag.offsets.push_back(uint32_t(bag.keys.size()));
  }
  batch.bags = {bag};
  return batch;
}

TEST_CASE("each batch of a round begins with the variables that the batch before has changed",
          "[worker]") {
  Replica replica(local_job(1, 2, sgd(0.25F)));
  REQUIRE(replica.graph->local());
  // Row 0 is used by the second record only. The first step is 0.25 * 2 (0 - 1) for x = 1: w = 0.5.
  // Then the prediction is 1 and the gradient 2 (1 - 3) = -4, for x = 2: w = 0.5 + 2, row 0 is 1.
  const Batch batch = records_of({1, 2}, {1, 3}, {{}, {0}}, 1);
  const Floats& changes = replica.train(batch, {{0.0F}, {0.0F}});
  REQUIRE(changes.size() == 2);
  CHECK(changes[0] == std::vector<float>{-2 * 1.0F});  // times two records
  CHECK(changes[1] == std::vector<float>{-2 * 2.5F});
  CHECK(replica.metrics[0].sums.weight == 2);
  CHECK(replica.metrics[0].sums.loss == 1 + 4);
}

TEST_CASE("a replica divides by the records of each batch unless the reduction is sum",
          "[worker]") {
  const Batch batch = records_of({1, 1, 1}, {1, 1, 1}, {{}, {}, {}}, 0);
  Job job = local_job(2, 2, sgd(0.25F));
  // Two records, w = 0.5; then one record, w = 0.75.
  CHECK(Replica(job).train(batch, {{}, {0.0F}})[1] == std::vector<float>{-3 * 0.75F});
  job.train.reduction = "sum";
  // w = 1, and then the gradient is 0.
  CHECK(Replica(job).train(batch, {{}, {0.0F}})[1] == std::vector<float>{-3 * 1.0F});
}

TEST_CASE("the slots of a replica begin anew in each round", "[worker]") {
  Replica replica(local_job(1, 4, optimizer_defaults(OptimizerType::kAdagrad)));
  const Batch batch = records_of({1, 2, 3}, {1, 3, 5}, {{0}, {1}, {0, 1}}, 2);
  const Floats first = replica.train(batch, {{0.5F, -1.0F}, {0.25F}});
  CHECK(first[0][0] != 0.0F);
  CHECK(replica.train(batch, {{0.5F, -1.0F}, {0.25F}}) == first);
}

TEST_CASE("the schedule counts the batches of all rounds, and Adam those of the round",
          "[worker]") {
  OptimizerSpec optimizer = sgd(0.25F);
  optimizer.schedule = {.type = ScheduleType::kStep, .decay_steps = 2, .decay_rate = 0.5F};
  const Batch batch = records_of({1}, {1}, {{}}, 0);
  Replica replica(local_job(1, 2, optimizer));
  CHECK(replica.train(batch, {{}, {0.0F}}, {.round = 1})[1] == std::vector<float>{-0.5F});
  CHECK(replica.train(batch, {{}, {0.0F}}, {.round = 2})[1] == std::vector<float>{-0.25F});
  CHECK(replica.train(batch, {{}, {0.0F}}, {.round = 3})[1] == std::vector<float>{-0.125F});
  Replica adam(local_job(1, 2, optimizer_defaults(OptimizerType::kAdam)));
  const Floats first = adam.train(batch, {{}, {0.0F}}, {.round = 1});
  CHECK(adam.train(batch, {{}, {0.0F}}, {.round = 9}) == first);
  CHECK(first[1][0] == Approx(-0.001));  // the first step of Adam is its rate
}

TEST_CASE("a replica that trains whole epochs counts each as long as the one that it trains",
          "[worker]") {
  OptimizerSpec optimizer = sgd(0.25F);
  // The rate halves with every second step.
  optimizer.schedule = {.type = ScheduleType::kStep, .decay_steps = 2, .decay_rate = 0.5F};
  Job job = local_job(1, 0, optimizer);
  REQUIRE(job.train.whole_epochs());
  Replica replica(job);
  const Batch one = records_of({1}, {1}, {{}}, 0);
  CHECK(replica.train(one, {{}, {0.0F}}, {.round = 1})[1] == std::vector<float>{-0.5F});
  CHECK(replica.train(one, {{}, {0.0F}}, {.round = 3})[1] == std::vector<float>{-0.25F});
  // In a share of two batches, round 3 begins with step 5. With the rate 1/16, w is 1/8 and then
  // 1/8 + 2/16 (1 - 1/8), times two records.
  const Batch two = records_of({1, 1}, {1, 1}, {{}, {}}, 0);
  const float w = 0.125F + 0.125F * 0.875F;
  CHECK(replica.train(two, {{}, {0.0F}}, {.round = 3})[1] == std::vector<float>{-2 * w});
}

TEST_CASE("the result of a round does not depend on the threads or on the order of its keys",
          "[worker]") {
  Replica replica(local_job(3, 4, optimizer_defaults(OptimizerType::kAdam)));
  const Batch batch = records_of({1, 2, 3, 4, 5, 6, 7}, {1, 3, 5, 2, 4, 6, 8},
                                 {{0}, {1}, {0, 1}, {2}, {}, {2, 0}, {1}}, 3);
  const Floats one = replica.train(batch, {{0.5F, -1.0F, 0.1F}, {0.25F}});
  CHECK(replica.train(batch, {{0.5F, -1.0F, 0.1F}, {0.25F}}, {}, 4) == one);
  const Batch other = records_of({1, 2, 3, 4, 5, 6, 7}, {1, 3, 5, 2, 4, 6, 8},
                                 {{2}, {0}, {2, 0}, {1}, {}, {1, 2}, {0}}, 3);
  const Floats reordered = replica.train(other, {{-1.0F, 0.1F, 0.5F}, {0.25F}});
  CHECK(reordered[1] == one[1]);
  CHECK(reordered[0] == std::vector<float>{one[0][1], one[0][2], one[0][0]});
}

}  // namespace
}  // namespace downpour::worker
