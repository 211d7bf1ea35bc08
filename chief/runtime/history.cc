#include "chief/runtime/history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "chief/runtime/reliability_figures.h"

namespace downpour::chief {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const OutputSums& sums) {
  Json out;
  for (const NamedSum& sum : kOutputSums) out[sum.name] = sums.*sum.value;
  return out;
}

/// `j` may be of an older version, which counted fewer sums.
OutputSums sums_from(const Json& j, const std::vector<OutputSpec>& outputs, size_t output) {
  OutputSums sums;
  for (const NamedSum& sum : kOutputSums) sums.*sum.value = j.value(sum.name, 0.0);
  const bool absolute = output < outputs.size() && outputs[output].loss == "absolute";
  if (absolute && !j.contains("absolute_error")) sums.absolute_error = sums.loss;
  return sums;
}

/// Returns the names of the numbers of each slice.
Json slice_columns() {
  Json names = Json::array();
  for (const NamedSum& sum : kOutputSums) names.push_back(sum.name);
  for (const RankingMetric& metric : kRankingMetrics) names.push_back(metric.name);
  return names;
}

/// Returns the numbers alone, because there may be many slices: those of slice_columns(). A ranking
/// metric without a value is null.
Json slice_to_json(const OutputSums& sums, const RankingMetrics& ranking) {
  Json out = Json::array();
  for (const NamedSum& sum : kOutputSums) out.push_back(sums.*sum.value);
  for (const RankingMetric& metric : kRankingMetrics) {
    const double value = ranking.*metric.value;
    out.push_back(std::isfinite(value) ? Json(value) : Json(nullptr));
  }
  return out;
}

/// `columns`: slice_columns() of the version that wrote the slice.
void slice_from(const Json& j, const Json& columns, Evaluation& evaluation) {
  OutputSums& sums = evaluation.slices.emplace_back().sums;
  RankingMetrics& ranking = evaluation.slice_rankings.emplace_back();
  for (size_t i = 0; i < columns.size(); ++i) {
    const Json& value = j.at(i);
    if (!value.is_number()) continue;
    const auto name = columns[i].get<std::string>();
    const auto sum = std::ranges::find(kOutputSums, name, &NamedSum::name);
    if (sum != std::end(kOutputSums)) sums.*sum->value = value.get<double>();
    if (const RankingMetric* const metric = find_ranking_metric(name))
      ranking.*metric->value = value.get<double>();
  }
}

Json to_json(const Evaluation& evaluation) {
  Json out = {{"id", evaluation.id},
              {"epochs_trained", evaluation.epochs_trained},
              {"records", evaluation.counts.applied},
              {"wall_ns", evaluation.wall_ns},
              {"data", evaluation.data},
              {"trained_on", evaluation.trained_on},
              {"outputs", Json::array()}};
  for (size_t o = 0; o < evaluation.outputs.size(); ++o) {
    Json output = {{"sums", to_json(evaluation.outputs[o].sums)},
                   {"class_counts", evaluation.outputs[o].class_counts}};
    for (const RankingMetric& metric : kRankingMetrics) {
      if (o >= evaluation.rankings.size()) break;
      const double value = evaluation.rankings[o].*metric.value;
      if (std::isfinite(value)) output[metric.name] = value;
    }
    if (o < evaluation.reliability.size() && !evaluation.reliability[o].empty())
      output["reliability"] = bins_json(evaluation.reliability[o]);
    out["outputs"].push_back(std::move(output));
  }
  if (!evaluation.slices.empty()) out["slice_columns"] = slice_columns();
  for (size_t i = 0; i < evaluation.slices.size(); ++i)
    out["slices"].push_back(slice_to_json(evaluation.slices[i].sums, evaluation.slice_rankings[i]));
  return out;
}

Evaluation evaluation_from(const Json& j, const std::vector<OutputSpec>& outputs) {
  Evaluation evaluation{.id = j.value("id", 0U), .epochs_trained = j.value("epochs_trained", 0U)};
  evaluation.counts.applied = j.value("records", uint64_t{0});
  evaluation.wall_ns = j.value("wall_ns", int64_t{0});
  evaluation.data = j.value("data", uint64_t{0});
  evaluation.trained_on = j.value("trained_on", false);
  for (const Json& output : j.at("outputs")) {
    OutputMetrics metrics;
    metrics.sums = sums_from(output.at("sums"), outputs, evaluation.outputs.size());
    metrics.class_counts = output.value("class_counts", std::vector<uint64_t>{});
    evaluation.outputs.push_back(std::move(metrics));
    RankingMetrics& ranking = evaluation.rankings.emplace_back();
    for (const RankingMetric& metric : kRankingMetrics)
      ranking.*metric.value = output.value(metric.name, RankingMetrics::kNone);
    std::vector<ReliabilityBin>& bins = evaluation.reliability.emplace_back();
    if (output.contains("reliability")) bins = bins_from(output["reliability"]);
  }
  if (j.contains("slice_columns"))
    for (const Json& slice : j.at("slices")) slice_from(slice, j["slice_columns"], evaluation);
  return evaluation;
}

}  // namespace

std::vector<checkpoint::EpochRecord> to_records(const std::vector<EpochAccount>& epochs,
                                                const std::vector<Evaluation>& evaluations) {
  std::vector<checkpoint::EpochRecord> records;
  for (const EpochAccount& account : epochs) {
    Json summary = {{"input_bytes", account.input_bytes},
                    {"duplicate_parts", account.duplicate_parts},
                    {"gaps", account.gaps},
                    {"attempts_repeated", account.attempts_repeated},
                    {"wall_ns", account.wall_ns},
                    {"shards_left", account.shards_left},
                    {"version", account.version},
                    {"unread_bytes", account.unread_bytes},
                    {"metrics", Json::array()},
                    {"evaluations", Json::array()}};
    if (account.learning_rate) summary["learning_rate"] = *account.learning_rate;
    if (account.steps_counted) summary["steps_counted"] = *account.steps_counted;
    for (const OutputSums& sums : account.metrics) summary["metrics"].push_back(to_json(sums));
    for (const Evaluation& evaluation : evaluations) {
      if (evaluation.epochs_trained == account.epoch + 1)
        summary["evaluations"].push_back(to_json(evaluation));
    }
    records.push_back({account.epoch, account.shards, account.counts, summary.dump()});
  }
  return records;
}

void from_records(const std::vector<checkpoint::EpochRecord>& records,
                  const std::vector<OutputSpec>& outputs, std::vector<EpochAccount>& epochs,
                  std::vector<Evaluation>& evaluations) {
  for (const checkpoint::EpochRecord& record : records) {
    EpochAccount account{.epoch = record.epoch, .shards = record.shards, .counts = record.counts};
    try {
      const Json summary = Json::parse(record.summary);
      account.input_bytes = summary.value("input_bytes", uint64_t{0});
      const uint64_t had_it = summary.value("had_it", uint64_t{0});  // its name in older manifests
      account.duplicate_parts = summary.value("duplicate_parts", had_it);
      account.gaps = summary.value("gaps", uint64_t{0});
      account.attempts_repeated = summary.value("attempts_repeated", 0U);
      account.wall_ns = summary.value("wall_ns", int64_t{0});
      account.unread_bytes = summary.value("unread_bytes", std::vector<uint64_t>{});
      account.shards_left = summary.value("shards_left", 0U);
      account.version = summary.value("version", uint64_t{0});
      if (summary.contains("learning_rate")) account.learning_rate = summary["learning_rate"];
      if (summary.contains("steps_counted")) account.steps_counted = summary["steps_counted"];
      for (const Json& sums : summary.at("metrics"))
        account.metrics.push_back(sums_from(sums, outputs, account.metrics.size()));
      for (const Json& evaluation : summary.at("evaluations"))
        evaluations.push_back(evaluation_from(evaluation, outputs));
    } catch (const Json::exception&) {
      // The record itself holds the counts. Only the additional figures are lost.
    }
    epochs.push_back(std::move(account));
  }
}

}  // namespace downpour::chief
