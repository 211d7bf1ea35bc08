#include "tools/cli/inspect.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <vector>

#include <nlohmann/json.hpp>

#include "shared/base/error_text.h"
#include "shared/base/human.h"
#include "shared/base/str.h"
#include "shared/checkpoint/paths.h"
#include "shared/env/storage.h"

namespace downpour::tools {
namespace {

using checkpoint::Manifest;
using checkpoint::Summary;
using checkpoint::VariableSummary;
using Json = nlohmann::ordered_json;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

std::string percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100.0 * double(part) / double(whole));
  return text;
}

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string utc(int64_t unix_s) {
  const std::time_t time = unix_s;
  std::tm parts{};
  char text[32];
  if (::gmtime_r(&time, &parts) == nullptr ||
      std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
    return str(unix_s, " s");
  }
  return text;
}

/// Replaces control characters of a name, because names come from a file and could control the
/// terminal.
std::string printable(const std::string& name) {
  std::string text = name;
  for (char& c : text) {
    if (uint8_t(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

std::string shape_text(const VariableSummary& variable) {
  if (variable.kind == TableKind::kEmbedding) return str("key x ", variable.spec.dim);
  std::string text;
  for (const uint32_t d : variable.spec.shape) text += str(text.empty() ? "" : " x ", d);
  return text.empty() ? "scalar" : text;
}

uint64_t accounted(const wire::ShardCounts& counts) {
  return counts.applied + counts.filtered + counts.skipped + counts.dropped + counts.quarantined;
}

std::string variables_text(const Summary& summary) {
  std::vector<std::vector<std::string>> rows = {{"variable", "optimizer", "shape", "rows",
                                                 "weights", "slots", "l2 norm", "min", "max",
                                                 "zeros"}};
  std::string warnings;
  for (const VariableSummary& v : summary.variables) {
    const bool embedding = v.kind == TableKind::kEmbedding;
    rows.push_back({printable(v.spec.name), std::string(name_of(v.spec.optimizer.type)),
                    shape_text(v), embedding ? grouped(v.rows) : "-", human_bytes(v.weight_bytes),
                    human_bytes(v.slot_bytes), number(v.l2_norm), number(v.min), number(v.max),
                    percent(v.zeros, v.elements)});
    if (v.non_finite > 0) {
      warnings += str("warning: ", printable(v.spec.name), " holds ", grouped(v.non_finite),
                      " weights that are not finite\n");
    }
    if (!embedding && v.elements < v.spec.elements()) {
      warnings +=
          str("note: ", printable(v.spec.name), " stores ", grouped(v.elements), " of ",
              grouped(v.spec.elements()), " weights; the others have their initial values\n");
    }
  }
  return "variables\n" + table_text(rows, /*left_columns=*/2) + warnings;
}

/// Returns the number of shards that a partial epoch does not cover; 0 for a whole epoch.
uint64_t shards_left(const checkpoint::EpochRecord& epoch) {
  const Json summary = Json::parse(epoch.summary, nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object() || !summary.contains("shards_left")) return 0;
  const Json& left = summary["shards_left"];
  return left.is_number_unsigned() ? left.get<uint64_t>() : 0;
}

std::string account_text(const Manifest& manifest) {
  if (manifest.epochs.empty()) return {};
  std::vector<std::vector<std::string>> rows = {{"epoch", "state", "shards", "batches", "read",
                                                 "applied", "filtered", "skipped", "dropped",
                                                 "quarantined"}};
  std::string warnings;
  for (const checkpoint::EpochRecord& epoch : manifest.epochs) {
    const wire::ShardCounts& c = epoch.counts;
    const uint64_t left = shards_left(epoch);
    const std::string state = epoch.epoch < manifest.sealed_epochs      ? "sealed"
                              : epoch.epoch < manifest.completed_epochs ? "complete"
                              : left > 0 ? str("partial: ", grouped(left), " shards not read")
                                         : "open";
    rows.push_back({str(epoch.epoch + 1), state, grouped(epoch.shards), grouped(c.batches),
                    grouped(c.read), grouped(c.applied), grouped(c.filtered), grouped(c.skipped),
                    grouped(c.dropped), grouped(c.quarantined)});
    if (c.read != accounted(c)) {
      warnings += str("warning: the account of epoch ", epoch.epoch + 1,
                      " does not balance: ", grouped(c.read), " records read, ",
                      grouped(accounted(c)), " accounted for\n");
    }
  }
  return "account\n" + table_text(rows, /*left_columns=*/2) + warnings;
}

/// Returns "3-1, 3-2 and 3-4".
std::string list_text(const std::vector<ViewId>& ids) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    text += str(i == 0 ? "" : i + 1 == ids.size() ? " and " : ", ", ids[i]);
  }
  return text;
}

Json counts_json(const wire::ShardCounts& c) {
  return {{"batches", c.batches},        {"read", c.read},       {"applied", c.applied},
          {"filtered", c.filtered},      {"skipped", c.skipped}, {"dropped", c.dropped},
          {"quarantined", c.quarantined}};
}

Json variable_json(const VariableSummary& v) {
  Json json = {{"name", v.spec.name},
               {"table", v.table},
               {"kind", v.kind == TableKind::kEmbedding ? "embedding" : "dense"},
               {"optimizer", name_of(v.spec.optimizer.type)},
               {"learning_rate", v.spec.optimizer.learning_rate}};
  if (v.kind == TableKind::kEmbedding) {
    json["dim"] = v.spec.dim;
    json["rows"] = v.rows;
  } else {
    json["shape"] = v.spec.shape;
  }
  json.update({{"elements", v.elements},
               {"weight_bytes", v.weight_bytes},
               {"slot_bytes", v.slot_bytes},
               {"l2_norm", v.l2_norm},
               {"min", v.min},
               {"max", v.max},
               {"zeros", v.zeros},
               {"non_finite", v.non_finite}});
  return json;
}

Json epoch_json(const checkpoint::EpochRecord& epoch) {
  Json json = {
      {"epoch", epoch.epoch}, {"shards", epoch.shards}, {"counts", counts_json(epoch.counts)}};
  Json summary = Json::parse(epoch.summary, nullptr, /*allow_exceptions=*/false);
  json["summary"] = summary.is_discarded() ? Json(epoch.summary) : std::move(summary);
  return json;
}

std::string top_text(const std::vector<TopRows>& all) {
  std::string text;
  for (const TopRows& rows : all) {
    const bool words =
        std::ranges::any_of(rows.top, [](const TopRow& r) { return !r.words.empty(); });
    std::vector<std::vector<std::string>> table = {{"key"}};
    if (words) table[0].push_back("words");
    table[0].push_back(rows.norm ? "l2 norm" : "weight");
    for (const TopRow& row : rows.top) {
      table.push_back({printable(row.name)});
      if (words) table.back().push_back(printable(row.words));
      table.back().push_back(number(row.value));
    }
    text += str("largest of the ", grouped(rows.rows), rows.rows == 1 ? " row of " : " rows of ",
                printable(rows.variable), "\n", table_text(table, words ? 2 : 1));
  }
  return text;
}

/// Names the checkpoint of the best evaluation, which `eval` and `predict` use.
std::string best_text(const Summary& summary) {
  const ViewId best = summary.manifest.best;
  if (best == ViewId{}) return {};
  if (best == summary.manifest.id) {
    return "  this checkpoint has the best evaluation of the run; eval and predict use it\n";
  }
  return str("  checkpoint ", best, " has the best evaluation of the run; ",
             summary.best_damage ? "eval and predict can't use it: it is damaged ("
                                 : "eval and predict use it (",
             checkpoint::sibling_manifest_path(summary.manifest_path, best), ")\n");
}

/// Says after how many steps of earlier runs the partitions have begun, unless it is none.
std::string steps_before_text(const Summary& summary) {
  const uint64_t least = summary.steps_before_min, most = summary.steps_before_max;
  if (most == 0) return {};
  return str(", after ", grouped(least), least == most ? "" : " to " + grouped(most),
             " steps of earlier runs");
}

}  // namespace

std::string summary_text(const Summary& summary) {
  const Manifest& manifest = summary.manifest;
  std::string text = str("checkpoint ", manifest.id, " of run ", hex(manifest.run), ", written ",
                         utc(manifest.created_unix_s), " by downpour ", printable(manifest.build),
                         "\n  ", summary.manifest_path, "\n");
  for (const std::string& reason : summary.skipped)
    text += "warning: skipped " + printable(reason) + "\n";
  text += str("  epochs: ", manifest.completed_epochs, " complete, ", manifest.sealed_epochs,
              " sealed\n");
  text += best_text(summary);
  for (const checkpoint::OpenEpochSummary& epoch : summary.open_epochs) {
    if (epoch.epoch < manifest.sealed_epochs) continue;  // this manifest seals it
    text += str("  epoch ", epoch.epoch + 1, ", not sealed: ", grouped(epoch.shards_ended_min),
                " to ", grouped(epoch.shards_ended_max), " shards ended per partition\n");
  }
  text += str("  ", manifest.partitions, " partitions of ", grouped(summary.rows_min), " to ",
              grouped(summary.rows_max), " rows (median ", grouped(summary.rows_median), "), ",
              grouped(summary.rows), " in total; versions ", grouped(summary.version_min), " to ",
              grouped(summary.version_max), steps_before_text(summary), "\n  ",
              human_bytes(summary.bytes), " in ", summary.files,
              summary.files == 1 ? " file" : " files", ", all checksums verified\n");
  if (!summary.bases.empty()) {
    text += str("  contains only rows changed since checkpoint ", summary.bases.back(),
                "; builds on ", human_bytes(summary.base_bytes), " of ", list_text(summary.bases),
                ", at most ", summary.images_max, " images per partition\n");
  }
  text += variables_text(summary);
  text += account_text(manifest);
  return text;
}

std::string summary_json(const Summary& summary, const std::vector<TopRows>& top) {
  const Manifest& manifest = summary.manifest;
  Json json = {{"checkpoint", {{"term", manifest.id.term}, {"n", manifest.id.n}}},
               {"manifest", summary.manifest_path},
               {"run", hex(manifest.run)},
               {"plan", hex(manifest.plan_hash)},
               {"build", manifest.build},
               {"created_unix_s", manifest.created_unix_s},
               {"completed_epochs", manifest.completed_epochs},
               {"sealed_epochs", manifest.sealed_epochs},
               {"files", summary.files},
               {"bytes", summary.bytes},
               {"base_bytes", summary.base_bytes},
               {"builds_on", Json::array()},
               {"verified", true},
               {"skipped", summary.skipped},
               {"partitions",
                {{"count", manifest.partitions},
                 {"rows", summary.rows},
                 {"rows_min", summary.rows_min},
                 {"rows_median", summary.rows_median},
                 {"rows_max", summary.rows_max},
                 {"version_min", summary.version_min},
                 {"version_max", summary.version_max},
                 {"steps_before_min", summary.steps_before_min},
                 {"steps_before_max", summary.steps_before_max}}}};
  if (const ViewId best = manifest.best; best != ViewId{}) {
    json["best"] = {{"term", best.term},
                    {"n", best.n},
                    {"verified", !summary.best_damage},
                    {"manifest", checkpoint::sibling_manifest_path(summary.manifest_path, best)}};
  }
  for (const ViewId id : summary.bases)
    json["builds_on"].push_back({{"term", id.term}, {"n", id.n}});
  json["variables"] = Json::array();
  for (const VariableSummary& variable : summary.variables)
    json["variables"].push_back(variable_json(variable));
  json["epochs"] = Json::array();
  for (const checkpoint::EpochRecord& epoch : manifest.epochs)
    json["epochs"].push_back(epoch_json(epoch));
  json["open_epochs"] = Json::array();
  for (const checkpoint::OpenEpochSummary& epoch : summary.open_epochs) {
    json["open_epochs"].push_back({{"epoch", epoch.epoch},
                                   {"shards_ended_min", epoch.shards_ended_min},
                                   {"shards_ended_max", epoch.shards_ended_max}});
  }
  for (const TopRows& rows : top) {
    Json& list = json["top"][rows.variable];
    for (const TopRow& row : rows.top)
      list.push_back(
          {{"key", row.name}, {"words", row.words}, {rows.norm ? "norm" : "weight", row.value}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

struct Inspected {
  Summary summary;
  std::vector<TopRows> top;
};

Result<Inspected> read(Storage& storage, const std::string& path, uint32_t top) {
  Inspected read;
  DP_TRY(read.summary, checkpoint::summarize(storage, path));
  if (top == 0) return read;
  const std::filesystem::path run = std::filesystem::path(read.summary.manifest_path).parent_path();
  DP_TRY(read.top, top_weights(storage, run.parent_path(), read.summary.manifest, top));
  return read;
}

Result<void> inspect(const std::string& path, const InspectOptions& options, std::ostream& out) {
  PosixStorage storage;
  auto inspected = checkpoint::read_beside_training(storage, path, [&]() -> Result<Inspected> {
    DP_TRY(Inspected whole, read(storage, path, options.top));
    if (whole.summary.best_damage) return *whole.summary.best_damage;
    return whole;
  });
  if (!inspected) inspected = read(storage, path, options.top);
  if (!inspected) return inspected.error();
  const auto& [summary, top] = *inspected;
  out << (options.json ? summary_json(summary, top) : summary_text(summary) + top_text(top));
  if (summary.best_damage) {
    Error damage = *summary.best_damage;
    damage.hint = str("eval and predict use the newest checkpoint, ", summary.manifest.id,
                      ", instead; restore the damaged one from a backup");
    return std::move(damage).with_context("the best checkpoint, ", summary.manifest.best);
  }
  return {};
}

int run_inspect(const std::string& path, const InspectOptions& options, std::ostream& out) {
  const auto inspected = inspect(path, options, out);
  if (inspected) return 0;
  std::cerr << format_error(inspected.error(), /*color=*/false);
  return exit_code(inspected.error().code);
}

}  // namespace downpour::tools
