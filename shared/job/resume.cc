#include "shared/job/resume.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "shared/base/object_scheme.h"
#include "shared/base/str.h"
#include "shared/job/job_tree.h"

namespace downpour {
namespace {

/// When keys may change. `keys` is a key, with [] for any index, or the start of keys, up to a `*`.
struct Rule {
  std::string_view keys;
  Frozen frozen;
};

// The first rule that names a key counts. `data.*` and `model.*` freeze keys that are added later.
// An optimizer's settings besides its type may change. In the other tables every key has a rule.
constexpr Rule kRules[] = {
    {"name", Frozen::kNever},
    {"base_dir", Frozen::kNever},
    {"run_dir", Frozen::kNever},
    {"seed", Frozen::kForRun},
    {"partitions", Frozen::kForRun},
    {"data.prefetch", Frozen::kNever},
    {"data.parallelism", Frozen::kNever},
    {"data.cache", Frozen::kNever},
    {"data.memory", Frozen::kNever},
    // A run that met a bad record may resume with "skip": no batch after that record was applied.
    {"data.bad_records", Frozen::kNever},
    {"data.bad_records_max", Frozen::kNever},
    {"*.classes", Frozen::kForRun},   // they give the columns of an output their meaning
    {"*.positive", Frozen::kForRun},  // they decide which records are positive
    {"data.*", Frozen::kInEpoch},
    {"model.preset", Frozen::kNever},
    {"model.outputs[].metrics", Frozen::kNever},
    {"model.*", Frozen::kForRun},
    {"optimizer.type", Frozen::kForRun},
    {"optimizer.rules[].type", Frozen::kForRun},
    {"optimizer.rules[].variables", Frozen::kForRun},
    {"optimizer.ema", Frozen::kForRun},  // the rows store the averages
    // They decide how often the rate was reduced before the epoch.
    {"optimizer.schedule.patience", Frozen::kInEpoch},
    {"optimizer.schedule.min_delta", Frozen::kInEpoch},
    {"optimizer.rules[].schedule.patience", Frozen::kInEpoch},
    {"optimizer.rules[].schedule.min_delta", Frozen::kInEpoch},
    {"optimizer.*", Frozen::kNever},
    {"train.steps", Frozen::kNever},
    {"train.epochs", Frozen::kNever},
    {"train.steps_per_epoch", Frozen::kInEpoch},
    {"train.batch_size", Frozen::kInEpoch},
    {"train.global_batch_size", Frozen::kInEpoch},  // decides batch_size
    {"train.drop_remainder", Frozen::kInEpoch},
    {"train.reduction", Frozen::kInEpoch},
    {"train.mode", Frozen::kInEpoch},
    {"train.staleness", Frozen::kNever},
    {"train.replicas", Frozen::kInEpoch},
    {"train.backups", Frozen::kInEpoch},     // decides whether shards are dealt to replicas
    {"train.sync_every", Frozen::kInEpoch},  // decides the batches of a part
    {"train.average", Frozen::kInEpoch},
    {"train.outer.type", Frozen::kForRun},
    {"train.outer.*", Frozen::kInEpoch},
    {"train.in_flight", Frozen::kNever},
    {"train.quarantine", Frozen::kNever},
    {"train.on_nan", Frozen::kNever},
    {"train.checkpoint.*", Frozen::kNever},
    {"train.warm_start.*", Frozen::kNever},
    {"eval.source", Frozen::kNever},
    {"eval.holdout", Frozen::kInEpoch},
    {"eval.every", Frozen::kNever},
    {"eval.metrics", Frozen::kNever},
    {"eval.top_k", Frozen::kInEpoch},  // of the sums that the partitions keep
    {"eval.keep_best", Frozen::kNever},
    {"eval.unknown_labels", Frozen::kNever},
    {"eval.raw_predictions", Frozen::kNever},
    {"eval.early_stop.*", Frozen::kNever},
    {"eval.slices[].*", Frozen::kNever},
    {"eval.group_by", Frozen::kNever},
    {"eval.ndcg_at", Frozen::kNever},
    {"cluster.*", Frozen::kNever},
};

/// Returns the key without its indices: "model.layers[].dim".
std::string without_indices(std::string_view key) {
  std::string text;
  bool inside = false;
  for (const char c : key) {
    if (c == ']') inside = false;
    if (!inside) text += c;
    if (c == '[') inside = true;
  }
  return text;
}

/// True if a learning rate follows the number of steps.
bool counts_steps(const Job& job) {
  const auto counts = [](const ScheduleSpec& schedule) {
    return schedule.given() && schedule.type != ScheduleType::kPlateau;
  };
  return counts(job.optimizer.schedule) ||
         std::ranges::any_of(job.optimizer_rules, [&](const OptimizerRule& rule) {
           return counts(rule.optimizer.schedule);
         });
}

/// Returns the training source with absolute paths.
SourceSpec resolved(const Job& job) {
  SourceSpec source = job.data.source;
  for (std::string& path : source.paths) {
    if (!is_object_path(path))
      path = (std::filesystem::path(job.base_dir) / path).lexically_normal().string();
  }
  return source;
}

using Flat = std::vector<std::pair<std::string, std::string>>;

Flat flatten(const Job& job) {
  Flat flat;
  for (const PrintedTable& table : print_tables(job, /*compress=*/false)) {
    for (const auto& [key, value] : table.values) {
      flat.emplace_back(table.path.empty() ? key : str(table.path, ".", key), value);
    }
  }
  return flat;
}

}  // namespace

std::optional<Frozen> frozen(std::string_view key) {
  const std::string wanted = without_indices(key);
  for (const Rule& rule : kRules) {
    const bool named = rule.keys.starts_with('*') ? wanted.ends_with(rule.keys.substr(1))
                       : rule.keys.ends_with('*')
                           ? wanted.starts_with(rule.keys.substr(0, rule.keys.size() - 1))
                           : wanted == rule.keys;
    if (named) return rule.frozen;
  }
  return std::nullopt;
}

std::vector<FrozenDifference> frozen_differences(const Job& saved, const Job& now,
                                                 bool epoch_open) {
  std::vector<FrozenDifference> differences;
  const Flat was_flat = flatten(saved), now_flat = flatten(now);
  const std::map<std::string, std::string> was(was_flat.begin(), was_flat.end());
  const std::map<std::string, std::string> is(now_flat.begin(), now_flat.end());
  // In a mode with rounds the ps store the state of train.outer, otherwise that of the optimizer.
  // In a mode with groups other partitions hold the rows.
  const ModeTraits &old_mode = traits_of(saved.train.mode), &new_mode = traits_of(now.train.mode);
  const bool other_state =
      old_mode.has_rounds != new_mode.has_rounds || old_mode.has_groups != new_mode.has_groups;
  const bool same_source = resolved(saved) == resolved(now);
  const auto consider = [&](const std::string& key, const std::string& before,
                            const std::string& after) {
    if (key == "data.source" && same_source) return;
    // Earlier local rounds would count for the schedules as rounds of the new length.
    const bool recounts = key == "train.sync_every" && !other_state && counts_steps(now);
    const Frozen kind = (key == "train.mode" && other_state) || recounts
                            ? Frozen::kForRun
                            : frozen(key).value_or(Frozen::kForRun);
    if (kind == Frozen::kNever || (kind == Frozen::kInEpoch && !epoch_open) || before == after)
      return;
    differences.push_back({key, before, after, kind == Frozen::kForRun});
  };
  for (const auto& [key, value] : was_flat) {
    const auto found = is.find(key);
    consider(key, value, found == is.end() ? "(none)" : found->second);
  }
  for (const auto& [key, value] : now_flat) {
    if (!was.contains(key)) consider(key, "(none)", value);
  }
  return differences;
}

Error frozen_error(std::span<const FrozenDifference> differences, const std::string& run_dir) {
  constexpr size_t kShownMax = 5;
  std::string what;
  for (size_t i = 0; i < std::min(differences.size(), kShownMax); ++i) {
    const FrozenDifference& one = differences[i];
    what +=
        str(what.empty() ? "" : "; ", "`", one.key, "` was ", one.was, " and is ", one.now, " now");
  }
  if (differences.size() > kShownMax)
    what += str("; and ", differences.size() - kShownMax, " more");
  const bool epoch = std::none_of(differences.begin(), differences.end(),
                                  [](const FrozenDifference& one) { return one.for_the_run; });
  // Without a value in the job it follows the number of workers, so there is nothing to restore.
  const auto replicas = std::ranges::find(differences, "train.replicas", &FrozenDifference::key);
  const std::string set = replicas == differences.end() || replicas->was == "(none)"
                              ? ""
                              : str("set train.replicas = ", replicas->was,
                                    " (by default it follows the number of workers), ");
  return Error{
      ErrorCode::kConfig, str("the run in this folder can't continue with this job: ", what),
      run_dir,
      str(set, "restore ", differences.size() == 1 ? "it" : "them",
          epoch ? ", or start a new epoch with it (--epochs N, after the current one has finished)"
                : "",
          ", choose another run_dir, or start a new run with --fresh"),
      "DP-2110"};
}

}  // namespace downpour
