#include "chief/runtime/slice_figures.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "chief/core/work/evaluation.h"
#include "chief/runtime/report_figures.h"
#include "chief/runtime/report_text.h"
#include "shared/base/error_text.h"
#include "shared/base/str.h"
#include "shared/metrics/metrics.h"

namespace downpour::chief {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kRowsShown = 10;     // of a table
constexpr size_t kValueColumns = 24;  // longer values are cut off

/// One row of one slice, of all outputs.
struct Row {
  const Evaluation& evaluation;
  size_t first = 0;  // index of its first output in Evaluation::slices

  double weight(size_t output) const { return evaluation.slices[first + output].sums.weight; }
  MetricValue value_of(size_t output, const std::string& name) const {
    MetricValue metric = compute_metric(name, evaluation.slices[first + output]);
    if (const RankingMetric* const ranking = find_ranking_metric(name))
      metric.value = evaluation.slice_rankings[first + output].*ranking->value;
    return metric;
  }
};

/// Calls `visit(slice, value, row)` for each row with records. `value` is null for the others.
template <typename Visit>
void visit_rows(const Job& job, const Evaluation& evaluation, Visit visit) {
  const size_t outputs = job.model.outputs.size();
  if (evaluation.slices.size() != slice_count(job) ||
      evaluation.slice_rankings.size() != evaluation.slices.size())
    return;
  size_t first = 0;
  for (const SliceSpec& slice : job.eval.slices) {
    for (size_t value = 1; value <= slice.rows(); ++value) {
      const bool others = value == slice.rows();  // row 0
      const Row row{evaluation, (first + (others ? 0 : value)) * outputs};
      bool weighs = false;  // outputs may have different weights
      for (size_t o = 0; o < outputs; ++o) weighs = weighs || row.weight(o) > 0;
      if (weighs && (others || value <= slice.values.size()))
        visit(slice, others ? nullptr : &slice.values[value - 1], row);
    }
    first += slice.rows();
  }
}

/// Returns how bad a value is: the higher, the worse.
double badness(const MetricValue& metric) {
  if (!std::isfinite(metric.value)) return -INFINITY;
  if (metric.name == "calibration") return std::abs(metric.value - 1);
  return metric.higher_is_better ? -metric.value : metric.value;
}

std::string shown_value(const std::string* value) {
  if (value == nullptr) return "(others)";
  std::string text = printable_line(*value);
  size_t columns = 0, bytes = 0;
  for (; bytes < text.size(); ++bytes) {
    if ((uint8_t(text[bytes]) & 0xc0) != 0x80 && ++columns > kValueColumns) break;
  }
  return text.substr(0, bytes);
}

/// Pads a text of UTF-8 to the width of the first column.
std::string padded(std::string text) {
  const auto columns =
      size_t(std::ranges::count_if(text, [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
  text.append(kValueColumns + 2 - std::min(columns, kValueColumns + 2), ' ');
  return text;
}

struct TableRow {
  double badness = 0;
  std::string text;
};

/// Returns the rows of one field and output.
std::vector<TableRow> table_of(const Job& job, const Evaluation& evaluation,
                               const SliceSpec& wanted, size_t output,
                               const std::vector<std::string>& metrics) {
  std::vector<TableRow> rows;
  visit_rows(job, evaluation,
             [&](const SliceSpec& slice, const std::string* value, const Row& row) {
               if (&slice != &wanted) return;
               TableRow one{badness(row.value_of(output, metrics[0])),
                            str(padded(shown_value(value)), format("%12.0f", row.weight(output)))};
               for (const std::string& name : metrics)
                 one.text += format("  %12s", number(row.value_of(output, name).value).c_str());
               rows.push_back(std::move(one));
             });
  std::ranges::stable_sort(rows, std::greater<>(), &TableRow::badness);
  return rows;
}

}  // namespace

std::vector<SliceFigures> slice_figures(const Job& job, const Evaluation& evaluation) {
  std::vector<SliceFigures> slices;
  visit_rows(job, evaluation,
             [&](const SliceSpec& slice, const std::string* value, const Row& row) {
               SliceFigures& figures = slices.emplace_back();
               figures.field = slice.field;
               if (value != nullptr) figures.value = *value;
               figures.weight = row.weight(0);
               for (size_t o = 0; o < job.model.outputs.size(); ++o) {
                 const OutputSpec& output = job.model.outputs[o];
                 const std::string prefix = job.model.outputs.size() > 1 ? output.name + "/" : "";
                 for (const std::string& name : known_metrics(job, output)) {
                   const double metric = row.value_of(o, name).value;
                   if (std::isfinite(metric)) figures.figures.emplace_back(prefix + name, metric);
                 }
               }
             });
  return slices;
}

nlohmann::ordered_json slices_json(const std::vector<SliceFigures>& slices) {
  Json json = Json::object();
  for (const SliceFigures& slice : slices) {
    Json row = {{"value", slice.value ? Json(*slice.value) : Json(nullptr)},
                {"weight", slice.weight}};
    for (const auto& [name, value] : slice.figures) row[name] = value;
    json[slice.field].push_back(std::move(row));
  }
  return json;
}

std::vector<SliceFigures> slices_from(const nlohmann::ordered_json& json) {
  std::vector<SliceFigures> slices;
  for (const auto& [field, rows] : json.items()) {
    for (const Json& row : rows) {
      SliceFigures& slice = slices.emplace_back();
      slice.field = field;
      if (row.at("value").is_string()) slice.value = row["value"].get<std::string>();
      slice.weight = row.value("weight", 0.0);
      for (const auto& [name, value] : row.items()) {
        if (value.is_number() && name != "weight")
          slice.figures.emplace_back(name, value.get<double>());
      }
    }
  }
  return slices;
}

std::vector<std::string> slice_tables(const Job& job, const Evaluation& evaluation) {
  std::vector<std::string> lines;
  for (const SliceSpec& slice : job.eval.slices) {
    for (size_t o = 0; o < job.model.outputs.size(); ++o) {
      const OutputSpec& output = job.model.outputs[o];
      std::vector<std::string> metrics = shown_metrics(job, output);
      std::erase_if(metrics, [](const std::string& m) { return m == "gauc" || m == "ndcg"; });
      if (metrics.empty()) metrics.emplace_back(loss_name(output));  // of groups, not of slices
      const std::vector<TableRow> rows = table_of(job, evaluation, slice, o, metrics);
      if (rows.empty()) continue;
      const std::string of_output = job.model.outputs.size() > 1 ? " of " + output.name : "";
      const std::string title =
          shown_value(&slice.field) + (slice.field.size() < 12 ? of_output : "");
      std::string head =
          padded(title) + format("%12s", output.weights.empty() ? "records" : "weight");
      for (const std::string& name : metrics) head += format("  %12s", name.c_str());
      lines.push_back(std::move(head));
      for (size_t i = 0; i < std::min(rows.size(), kRowsShown); ++i) lines.push_back(rows[i].text);
      if (rows.size() > kRowsShown)
        lines.push_back(str("and ", rows.size() - kRowsShown, " more: --log-format json"));
    }
  }
  return lines;
}

}  // namespace downpour::chief
