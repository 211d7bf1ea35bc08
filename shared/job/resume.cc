#include "shared/job/resume.h"

#include <algorithm>
#include <map>

#include "shared/base/str.h"
#include "shared/job/job_tree.h"

namespace downpour {
namespace {

enum class Frozen : uint8_t { kNever, kInEpoch, kForRun };

Frozen frozen(const std::string& key) {
  const auto is = [&](const char* name) { return key == name; };
  if (is("seed") || is("partitions") || is("optimizer.type")) return Frozen::kForRun;
  if (key.starts_with("optimizer.rules[")) {
    const bool kind = key.ends_with("].type") || key.ends_with("].variables");
    return kind ? Frozen::kForRun : Frozen::kNever;
  }
  if (key.starts_with("model.")) {
    const bool shown =
        is("model.preset") || (key.starts_with("model.outputs[") && key.ends_with("].metrics"));
    return shown ? Frozen::kNever : Frozen::kForRun;
  }
  if (key.starts_with("data.")) {
    // A run that met a bad record may resume with "skip": no batch after that record was applied.
    const bool free = is("data.prefetch") || is("data.parallelism") || is("data.cache") ||
                      is("data.memory") || is("data.bad_records") || is("data.bad_records_max");
    return free ? Frozen::kNever : Frozen::kInEpoch;
  }
  const bool in_epoch = is("train.batch_size") || is("train.drop_remainder") ||
                        is("train.reduction") || is("train.steps_per_epoch") || is("train.mode") ||
                        is("eval.holdout");
  return in_epoch ? Frozen::kInEpoch : Frozen::kNever;
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

std::vector<FrozenDifference> frozen_differences(const Job& saved, const Job& now,
                                                 bool epoch_open) {
  std::vector<FrozenDifference> differences;
  const Flat was_flat = flatten(saved), now_flat = flatten(now);
  const std::map<std::string, std::string> was(was_flat.begin(), was_flat.end());
  const std::map<std::string, std::string> is(now_flat.begin(), now_flat.end());
  const auto consider = [&](const std::string& key, const std::string& before,
                            const std::string& after) {
    const Frozen kind = frozen(key);
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
  return Error{
      ErrorCode::kConfig, str("the run in this folder can't continue with another job: ", what),
      run_dir,
      str("put ", differences.size() == 1 ? "it" : "them", " back",
          epoch ? ", or start a new epoch with it (--epochs N, after the open epoch has finished)"
                : "",
          ", choose another run_dir, or start anew with --fresh"),
      "DP-2110"};
}

}  // namespace downpour
