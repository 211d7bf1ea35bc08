// The job file: TOML text to a Job, with environment and overrides, and back.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour {

/// A job's text with the name that messages give it. Relative paths start at the name's folder.
struct JobSource {
  std::string path;
  std::string text;
};

/// One key set from outside the file; later ones win. `key` is dotted: "optimizer.learning_rate",
/// "model.layers[1].units", "data.fields.\"a b\".type". `value` is TOML, or a bare word for a
/// string.
struct Override {
  std::string key;
  std::string value;
  std::string origin;  // "--set", "--workers", "environment DOWNPOUR_TRAIN__EPOCHS": for messages
                       // and --dry-run
};

/// Where a key's value came from, by the key's full path. Keys that are absent have their default.
struct Origin {
  std::string from;   // "job.toml:12", "--set", "environment DAY"
  std::string where;  // "job.toml:12:9", "--set train.epochs": for an error
};
using Origins = std::map<std::string, Origin>;

struct LoadedJob {
  Job job;
  Origins origins;
};

/// Looks up one environment variable.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads a job file. In this order: parse; ${NAME} and ${NAME:-default} in strings ($${ is a plain
/// ${); overrides in their order. The job is not complete yet: fill what the data file says, then
/// call complete_job(). Errors: kNoInput; kConfig with file:line:column (or the override), the
/// nearest right name in the hint.
Result<LoadedJob> load_job(const std::string& path, std::span<const Override> overrides,
                           const Environment& environment);
Result<LoadedJob> load_job(const JobSource& source, std::span<const Override> overrides,
                           const Environment& environment);

/// DOWNPOUR_TRAIN__EPOCHS=3 -> train.epochs; DOWNPOUR__SEED=3 -> seed. `entries` as in environ
/// ("NAME=value"); names without "__" are none of the job's. Sorted by name.
std::vector<Override> overrides_from_environment(std::span<const std::string> entries);

/// The whole job as TOML that loads back to the same job; with `origins`, each key says where its
/// value is from.
std::string job_to_toml(const Job& job, const Origins* origins = nullptr);

/// A complete job as job_to_toml wrote it (from the run folder or the chief): the environment is
/// not looked at, everything is checked. Relative paths start at the text's own base_dir, or
/// `base_dir` where it has none.
Result<Job> job_from_toml(std::string_view text, const std::string& base_dir);

/// An error whose `where` is a key ("model.layers[1].inputs") gets that key's place in the file.
Error located(Error error, const Origins& origins);

/// The origin of a key, or of the nearest table around it; null: the default.
const Origin* find_origin(const Origins& origins, std::string_view key);

}  // namespace downpour
