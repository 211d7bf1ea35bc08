// Small jobs and random batches for the tests of the model.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"
#include "shared/model/graph.h"
#include "shared/model/workspace.h"

namespace downpour::model {

inline FieldSpec number_field(const std::string& name, int64_t width = 0) {
  FieldSpec field;
  field.name = name;
  if (width > 0) field.shape = {width};
  return field;
}

inline FieldSpec key_field(const std::string& name) {
  FieldSpec field = number_field(name);
  field.type = FieldType::kString;
  return field;
}

inline FieldSpec bag_field(const std::string& name) {
  FieldSpec field = number_field(name);
  field.shape = {-1};
  return field;
}

inline Job make_job(std::vector<FieldSpec> fields, std::vector<LayerSpec> layers,
                    std::vector<OutputSpec> outputs) {
  Job job;
  job.data.fields = std::move(fields);
  job.model.layers = std::move(layers);
  job.model.outputs = std::move(outputs);
  return job;
}

/// A graph with one random batch, and variables with their gradients.
struct Trial {
  std::unique_ptr<Graph> graph;
  std::unique_ptr<Workspace, void (*)(Workspace*)> workspace{nullptr, nullptr};
  bool mean = true;
  Batch batch;
  std::vector<std::vector<float>> values, gradients;
  std::vector<VariableView> views;

  Trial(const Job& job, uint32_t records, uint64_t seed, uint32_t keys = 12)
      : mean(job.train.reduction == "mean") {
    auto built = Graph::build(job);
    INFO((built ? "" : built.error().where + ": " + built.error().what));
    REQUIRE(built);
    graph = *std::move(built);
    workspace = graph->make_workspace();
    Rng rng(seed);
    fill_batch(job, records, keys, rng);
    for (const TableSpec& table : graph->tables()) {
      for (const VariableSpec& variable : table.table_variables) {
        const bool dense = table.kind == TableKind::kDense;
        values.emplace_back(dense ? variable.elements() : uint64_t{variable.dim} * keys);
        for (float& v : values.back()) v = 0.6F * float(rng.normal());
      }
    }
    gradients = values;  // arbitrary values that train() must overwrite
    for (size_t v = 0; v < values.size(); ++v) {
      views.push_back({values[v].data(), gradients[v].data()});
    }
  }

  void fill_batch(const Job& job, uint32_t records, uint32_t keys, Rng& rng) {
    batch.records = records;
    for (const FloatInput& input : graph->inputs().floats) {
      FloatColumn column{input.width, {}};
      for (uint32_t i = 0; i < records * input.width; ++i) {
        column.values.push_back(float(rng.normal()));
      }
      batch.floats.push_back(std::move(column));
    }
    for (size_t t = 0; t < graph->inputs().tables.size(); ++t) {
      batch.tables.push_back({graph->inputs().tables[t], {}});
      for (uint32_t k = 0; k < keys; ++k) batch.tables.back().keys.push_back(1000 + k);
    }
    for (const BagInput& input : graph->inputs().bags) {
      BagColumn bag;
      bag.table_index = input.table_index;
      const bool any_length = job.data.find_field(input.field)->is_bag();
      if (any_length) bag.offsets.push_back(0);
      for (uint32_t r = 0; r < records; ++r) {
        const uint64_t count = any_length ? rng.below(4) : 1;  // 0: an empty bag
        for (uint64_t k = 0; k < count; ++k) {
          bag.keys.push_back(uint32_t(rng.below(keys)));
          if (any_length) bag.values.push_back(0.5F + rng.uniform());
        }
        if (any_length) bag.offsets.push_back(uint32_t(bag.keys.size()));
      }
      batch.bags.push_back(std::move(bag));
    }
    for (size_t o = 0; o < graph->outputs().size(); ++o) {
      const OutputSpec& output = graph->outputs()[o];
      const uint32_t classes = graph->output_widths()[o];
      for (float& t : column(output.target).values) {
        if (output.loss == "logistic") t = t > 0.3F ? 1.0F : 0.0F;
        if (output.loss == "softmax_cross_entropy") t = float(rng.below(classes));
      }
      if (output.weights.empty()) continue;
      for (float& w : column(output.weights).values) w = w < -0.5F ? 0.0F : w * w;
    }
  }

  FloatColumn& column(const std::string& field) {
    const auto& floats = graph->inputs().floats;
    for (size_t i = 0; i < floats.size(); ++i) {
      if (floats[i].field == field) return batch.floats[i];
    }
    FAIL("no column " << field);
    return batch.floats[0];
  }

  BatchMetrics train(int threads = 1, bool want_auc = false) {
    BatchMetrics metrics;
    graph->train(batch, views, *workspace, threads, want_auc, metrics);
    return metrics;
  }

  /// Returns the loss of the step, from a forward pass.
  double loss() {
    BatchMetrics metrics;
    std::vector<std::vector<float>> predictions;
    graph->forward(batch, views, *workspace, 1, predictions, &metrics);
    return total_loss(metrics);
  }

  /// Returns the loss of the step itself, with its dropout.
  double training_loss() { return total_loss(train()); }

  double total_loss(const BatchMetrics& metrics) const {
    double total = 0;
    for (size_t o = 0; o < metrics.size(); ++o) {
      const OutputSums& sums = metrics[o].sums;
      total += double(graph->outputs()[o].weight) * sums.loss / (mean ? sums.weight : 1.0);
    }
    return total;
  }
};

/// Compares all gradients with central differences of the loss, of a forward pass or with
/// `training` of a training step. The step is 4e-3. The truncation error is of the order of 1e-5.
/// The float32 rounding error of the loss (1e-7 per record, summed in double) divided by the step
/// is below 1e-4. The seeds are chosen so that no relu changes its sign within a step.
inline void check_gradients(Trial& trial, bool training = false) {
  constexpr float kStep = 4e-3F;
  constexpr double kTolerance = 1e-3;
  trial.train();
  const auto gradients = trial.gradients;
  const auto loss = [&] { return training ? trial.training_loss() : trial.loss(); };
  double largest = 0;
  for (size_t v = 0; v < trial.values.size(); ++v) {
    for (size_t i = 0; i < trial.values[v].size(); ++i) {
      float& x = trial.values[v][i];
      const float before = x;
      x = before + kStep;
      const double above = loss();
      x = before - kStep;
      const double below = loss();
      x = before;
      const double numeric = (above - below) / (2.0 * double(kStep));
      const double analytic = double(gradients[v][i]);
      largest = std::max(largest, std::abs(numeric));
      CAPTURE(v, i, numeric, analytic);
      CHECK(std::abs(numeric - analytic) < kTolerance * std::max(1.0, std::abs(numeric)));
    }
  }
  CHECK(largest > 0.05);  // some gradients are not negligible
}

/// Returns the predictions of the first output.
inline std::vector<float> predictions_of(Trial& trial, int threads = 1) {
  std::vector<std::vector<float>> predictions;
  trial.graph->forward(trial.batch, trial.views, *trial.workspace, threads, predictions, nullptr);
  return predictions[0];
}

/// Returns records [begin, end) of a batch.
inline Batch slice(const Batch& batch, uint32_t begin, uint32_t end) {
  Batch part;
  part.records = end - begin;
  part.tables = batch.tables;
  for (const FloatColumn& column : batch.floats) {
    const auto first = column.values.begin();
    part.floats.push_back(
        {column.width, {first + begin * column.width, first + end * column.width}});
  }
  for (const BagColumn& bag : batch.bags) {
    BagColumn b;
    b.table_index = bag.table_index;
    const uint32_t k0 = bag.offsets.empty() ? begin : bag.offsets[begin];
    const uint32_t k1 = bag.offsets.empty() ? end : bag.offsets[end];
    b.keys = {bag.keys.begin() + k0, bag.keys.begin() + k1};
    if (!bag.values.empty()) b.values = {bag.values.begin() + k0, bag.values.begin() + k1};
    for (uint32_t r = begin; !bag.offsets.empty() && r <= end; ++r) {
      b.offsets.push_back(bag.offsets[r] - k0);
    }
    part.bags.push_back(std::move(b));
  }
  return part;
}

/// Wide & Deep for the target `label`, over the embeddings `emb` and over numbers.
inline Job wide_deep_job(std::vector<FieldSpec> fields, LayerSpec emb,
                         const std::vector<std::string>& numbers, std::vector<uint32_t> units) {
  emb.name = "emb";
  emb.type = "embedding";
  std::vector<std::string> wide = emb.inputs, deep = {"emb"};
  wide.insert(wide.end(), numbers.begin(), numbers.end());
  deep.insert(deep.end(), numbers.begin(), numbers.end());
  return make_job(
      std::move(fields),
      {{.name = "wide", .type = "linear", .inputs = wide},
       emb,
       {.name = "tower", .type = "dense", .inputs = deep, .units = units, .activation = "relu"},
       {.name = "logit", .type = "add", .inputs = {"wide", "tower"}}},
      {{.name = "click", .input = "logit", .loss = "logistic", .target = "label"}});
}

/// Wide & Deep over two key fields and three numbers.
inline Job wide_deep_job() {
  return wide_deep_job({key_field("a"), key_field("b"), number_field("x"), number_field("y", 2),
                        number_field("label"), number_field("w")},
                       {.inputs = {"a", "b"}, .dim = 4, .table = "shared"}, {"x", "y"}, {5, 3, 1});
}

}  // namespace downpour::model
