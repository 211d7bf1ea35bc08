// Negatives of implicit feedback: how they are drawn, and the losses that compare a record with
// them.
#include "shared/model/negatives.h"

#include <cmath>
#include <map>
#include <set>

#include "shared/model/losses.h"
#include "tests/shared/model/support.h"

namespace downpour::model {
namespace {

struct LossCase {
  const char* loss;
  double wanted;                         // sum of the losses
  std::vector<double> wanted_gradients;  // of the scores
};

#include "tests/shared/model/negatives_golden.inc"

TEST_CASE("bpr and sampled_softmax have the losses and gradients of a reference in NumPy",
          "[model][numeric]") {
  const std::vector<float> scores(kScores.begin(), kScores.end());
  const std::vector<float> weights(kWeights.begin(), kWeights.end());
  for (const LossCase& one : kLossCases) {
    CAPTURE(one.loss);
    std::vector<float> gradients(scores.size(), 1.0F), scratch(scores.size());
    OutputSums sums;
    LossChunk chunk;
    chunk.rows = scores.size();
    chunk.group = 4;
    chunk.x = {scores.data(), 1};
    chunk.weights = weights.data();
    chunk.scale = 2.0F;
    chunk.gradient = {gradients.data(), 1};
    chunk.accumulate = true;
    chunk.scratch = scratch.data();
    chunk.sums = &sums;
    loss_and_gradient(find_loss(one.loss)->loss, chunk);
    CHECK(sums.loss == Approx(one.wanted).epsilon(1e-6));
    CHECK(sums.weight == 3.5);
    for (size_t i = 0; i < gradients.size(); ++i)
      CHECK(double(gradients[i]) == Approx(1 + 2 * one.wanted_gradients[i]).margin(1e-6));
  }
}

/// Two fields of a user, three of an item, and weights. All of them make the score.
Job implicit_job(const char* loss, uint32_t per_record, bool weighted = false) {
  Job job = make_job({key_field("user"), number_field("age"), key_field("item"), bag_field("tags"),
                      number_field("price", 2), number_field("label"), number_field("w")},
                     {{.name = "linear", .type = "linear", .inputs = {"age", "price", "item"}},
                      {.name = "fm", .type = "fm", .inputs = {"user", "item", "tags"}, .dim = 3},
                      {.name = "score", .type = "add", .inputs = {"linear", "fm"}}},
                     {{.name = "rank", .input = "score", .loss = loss, .target = "label"}});
  if (weighted) job.model.outputs[0].weights = "w";
  job.data.negatives = {.fields = {"item", "tags", "price"}, .per_record = per_record};
  return job;
}

TEST_CASE("gradients of losses with negatives", "[model][numeric]") {
  const char* const loss = GENERATE("bpr", "sampled_softmax", "logistic");
  const bool weighted = GENERATE(false, true);
  CAPTURE(loss, weighted);
  Job job = implicit_job(loss, 3, weighted);
  Trial trial(job, 9, 7);
  check_gradients(trial);
  job.train.reduction = "sum";
  Trial sum(job, 9, 7);
  check_gradients(sum);
}

TEST_CASE("a loss that compares counts records, and others count rows", "[model]") {
  for (const char* const loss : {"bpr", "sampled_softmax", "logistic", "hinge"}) {
    CAPTURE(loss);
    const bool compares = find_loss(loss)->compares;
    Trial trial(implicit_job(loss, 3), 8, 3);
    const OutputMetrics metrics = trial.train(1, /*want_auc=*/true)[0];
    CHECK(metrics.sums.weight == (compares ? 8 : 32));
    CHECK(metrics.sums.label == 8);
    uint32_t positives = 0, negatives = 0;
    for (const AucBucket& bucket : metrics.auc)
      positives += bucket.positives, negatives += bucket.negatives;
    CHECK(positives == 8);
    CHECK(negatives == 24);
  }
}

TEST_CASE("a record that is alone in its batch has no negatives and the loss 0", "[model]") {
  for (const char* const loss : {"bpr", "sampled_softmax"}) {
    Trial trial(implicit_job(loss, 3), 1, 3);
    const OutputSums sums = trial.train()[0].sums;
    CHECK(sums.loss == Approx(0.0).margin(1e-6));
    CHECK(sums.weight == 1);
    for (const auto& gradient : trial.gradients)
      for (const float element : gradient) CHECK(double(element) == Approx(0.0).margin(1e-6));
  }
}

TEST_CASE("a step with negatives has the same bits for any number of threads", "[model]") {
  Trial trial(implicit_job("bpr", 6), 700, 11);
  const BatchMetrics one = trial.train(1, true);
  const auto gradients = trial.gradients;
  CHECK(trial.train(3, true) == one);
  CHECK(trial.gradients == gradients);
}

TEST_CASE("an evaluation predicts each record once, as a prediction without negatives does",
          "[model]") {
  Trial trial(implicit_job("bpr", 5), 600, 2);
  BatchMetrics metrics;
  std::vector<std::vector<float>> predictions;
  trial.graph->forward(trial.batch, trial.views, *trial.workspace, 2, predictions, &metrics);
  CHECK(predictions[0] == predictions_of(trial));
  CHECK(metrics[0].sums.weight == 600);
}

TEST_CASE("the rows of a record count in its slice and its group", "[model]") {
  Job job = implicit_job("bpr", 3, true);
  job.eval.slices = {{.field = "user", .values = {"a", "b"}}};
  job.eval.group_by = "user";
  Trial trial(job, 300, 9);
  const Batch plain = trial.batch;
  FloatColumn slice{1, {}};
  for (uint32_t r = 0; r < 300; ++r) slice.values.push_back(float(r % 3));
  trial.batch.floats.push_back(slice);
  trial.batch.floats.push_back(slice);
  trial.batch.floats.push_back(slice);
  BatchMetrics whole;
  std::vector<OutputMetrics> slices;
  std::vector<float> grouped;
  std::vector<std::vector<float>> predictions;
  trial.graph->forward(trial.batch, trial.views, *trial.workspace, 1, predictions, &whole, &slices,
                       &grouped);
  REQUIRE(slices.size() == 3);
  OutputSums sum;
  for (const OutputMetrics& of_slice : slices) sum += of_slice.sums;
  CHECK(sum.weight == Approx(whole[0].sums.weight));
  CHECK(sum.loss == Approx(whole[0].sums.loss));
  REQUIRE(grouped.size() == 300 * 4 * 4);
  for (size_t row = 0; row < 1200; ++row) {
    CHECK(grouped[4 * row] == float(row / 4 % 3));
    const float label = grouped[4 * row + 3];
    CHECK((label == -1.0F || label == (row % 4 == 0 ? 1.0F : 0.0F)));  // -1: a weight of 0
  }
  // A batch without the columns of slices has none.
  trial.graph->forward(plain, trial.views, *trial.workspace, 1, predictions, &whole, &slices,
                       &grouped);
  CHECK(whole[0].sums.loss == Approx(sum.loss));
}

/// A batch whose items and users can be told apart: record r has the keys r of both tables.
Batch numbered_batch(uint32_t records) {
  Batch batch;
  batch.id = {.epoch = 2, .shard = 3, .batch = 5};
  batch.records = records;
  batch.tables = {{TableId{0}, {}}};
  batch.floats = {{1, {}}, {2, {}}};
  batch.bags.resize(3);
  batch.bags[2].offsets = {0};
  for (uint32_t r = 0; r < records; ++r) {
    batch.tables[0].keys.push_back(100 + r);
    batch.floats[0].values.push_back(float(r));
    for (const float x : {0.25F, 0.5F}) batch.floats[1].values.push_back(float(r) + x);
    batch.bags[0].keys.push_back(r);
    batch.bags[1].keys.push_back(r);
    for (uint32_t k = 0; k < r % 3; ++k) {
      batch.bags[2].keys.push_back(r);
      batch.bags[2].values.push_back(float(k));
    }
    batch.bags[2].offsets.push_back(uint32_t(batch.bags[2].keys.size()));
  }
  return batch;
}

Negatives numbered_negatives(uint32_t per_record) {
  return {
      .per_record = per_record, .seed = 7, .floats = {false, true}, .bags = {false, true, true}};
}

TEST_CASE("a negative is the record with the item of another one, whose columns stay together",
          "[model]") {
  const Batch batch = numbered_batch(50);
  Batch memory;
  const auto [rows, group] = rows_of(numbered_negatives(6), batch, true, memory);
  REQUIRE(group == 7);
  REQUIRE(rows.records == 350);
  CHECK(rows.tables[0].keys == batch.tables[0].keys);
  REQUIRE(rows.floats.size() == 3);
  for (uint32_t row = 0; row < rows.records; ++row) {
    const uint32_t record = row / 7, item = rows.bags[1].keys[row];
    CHECK((item == record) == (row % 7 == 0));
    CHECK(rows.floats[0].values[row] == float(record));
    CHECK(rows.bags[0].keys[row] == record);
    CHECK(rows.floats[1].values[2 * row] == float(item) + 0.25F);
    CHECK(rows.floats[1].values[2 * row + 1] == float(item) + 0.5F);
    const uint32_t begin = rows.bags[2].offsets[row], end = rows.bags[2].offsets[row + 1];
    REQUIRE(end - begin == item % 3);
    for (uint32_t k = begin; k < end; ++k) {
      CHECK(rows.bags[2].keys[k] == item);
      CHECK(rows.bags[2].values[k] == float(k - begin));
    }
    CHECK(rows.floats[2].values[row] == (row % 7 == 0 ? 1.0F : 0.0F));
  }
}

TEST_CASE("negatives are drawn uniformly, and independently for each record", "[model]") {
  constexpr uint32_t kRecords = 11, kBatches = 4000, kDraws = 3;
  Batch batch = numbered_batch(kRecords), memory;
  std::map<std::pair<uint32_t, uint32_t>, double> counts;
  double equal = 0;
  for (uint32_t b = 0; b < kBatches; ++b) {
    batch.id.batch = b;
    const Batch& rows = rows_of(numbered_negatives(kDraws), batch, true, memory).batch;
    for (uint32_t row = 0; row < rows.records; ++row) {
      const uint32_t record = row / (1 + kDraws);
      if (row % (1 + kDraws) != 0) ++counts[{record, rows.bags[1].keys[row]}];
    }
    equal += rows.bags[1].keys[1] == rows.bags[1].keys[2] ? 1 : 0;
  }
  CHECK(counts.size() == kRecords * (kRecords - 1));
  // The expected count is 1200, its standard deviation 33. The largest of 110 stays below 5 of
  // them.
  for (const auto& [pair, count] : counts) CHECK(std::abs(count - 1200) < 165);
  CHECK(std::abs(equal / kBatches - 0.1) < 0.025);  // with replacement
}

TEST_CASE("the seed and the batch decide the negatives, and in evaluations the epoch does not",
          "[model]") {
  Batch batch = numbered_batch(40);
  const auto items = [&](bool training, uint64_t seed = 7) {
    Negatives negatives = numbered_negatives(2);
    negatives.seed = seed;
    Batch memory;
    return rows_of(negatives, batch, training, memory).batch.bags[1].keys;
  };
  const auto trained = items(true), evaluated = items(false);
  CHECK(items(true) == trained);
  CHECK(items(true, 8) != trained);
  batch.id.epoch = 4;
  CHECK(items(true) != trained);
  CHECK(items(false) == evaluated);
  batch.id.epoch = 2;
  batch.id.shard = 4;
  CHECK(items(true) != trained);
  CHECK(items(false) != evaluated);
  batch.id.shard = 3;
  batch.id.batch = 6;
  CHECK(items(true) != trained);
}

TEST_CASE("a batch whose rows would have too many values gets fewer negatives", "[model]") {
  const Batch batch = numbered_batch(30);  // 30 keys in the bag, about 30 for each row of negatives
  Negatives negatives = numbered_negatives(8);
  negatives.values_max = 180;
  Batch memory;
  const auto [rows, group] = rows_of(negatives, batch, true, memory);
  CHECK(group == 3);
  CHECK(rows.bags[2].keys.size() <= 180);
  for (const FloatColumn& column : rows.floats) CHECK(column.values.size() <= 180);
  negatives.values_max = 10;
  CHECK(rows_of(negatives, batch, true, memory).group == 1);
}

TEST_CASE("a cross of fields of the item follows them", "[model]") {
  Job job = implicit_job("bpr", 2);
  FieldSpec cross = key_field("item_tags");
  cross.transform = {ops::Cross{.fields = {"item", "tags"}}};
  job.data.fields.push_back(cross);
  InputLayout layout;
  layout.bags = {{.field = "user"}, {.field = "item_tags"}, {.field = "tags"}};
  layout.floats = {{.field = "age"}, {.field = "price"}};
  const Negatives negatives = negatives_of(job, layout);
  CHECK(negatives.bags == std::vector<bool>{false, true, true});
  CHECK(negatives.floats == std::vector<bool>{false, true});
}

}  // namespace
}  // namespace downpour::model
