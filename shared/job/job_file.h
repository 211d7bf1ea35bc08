// The job file: reads TOML text, the environment and overrides into a Job, and prints it back.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/job/origins.h"

namespace downpour {

/// The text of a job, with its name for messages. Relative paths start at the folder of `path`.
struct JobSource {
  std::string path;
  std::string text;
};

/// One key set outside the file. Later overrides win; one with `if_absent` sets only a key that
/// neither the file nor an earlier override has set. `key` is dotted: "optimizer.learning_rate",
/// "model.layers[1].units", "data.fields.\"a b\".type". `value` is TOML, or a bare word for a
/// string.
struct Override {
  std::string key;
  std::string value;
  // For messages and --dry-run: "--set", "--workers", "environment DOWNPOUR_TRAIN__EPOCHS".
  std::string origin;
  bool if_absent = false;
};

struct LoadedJob {
  Job job;
  Origins origins;
};

/// Returns the value of an environment variable, or nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads a job file. It parses the text, then expands ${NAME} and ${NAME:-default} in strings ($${
/// is a plain ${), then applies the overrides in their order. The job is not complete yet: add what
/// the data file determines, then call complete_job(). Errors: kNoInput; kConfig with
/// file:line:column (or the override), and the nearest valid name in the hint.
Result<LoadedJob> load_job(const std::string& path, std::span<const Override> overrides,
                           const Environment& environment);
Result<LoadedJob> load_job(const JobSource& source, std::span<const Override> overrides,
                           const Environment& environment);

/// Returns the overrides in the environment: DOWNPOUR_TRAIN__EPOCHS=3 sets train.epochs,
/// DOWNPOUR__SEED=3 sets seed. `entries` are as in environ ("NAME=value"). Names without "__" are
/// ignored. Sorted by name.
std::vector<Override> overrides_from_environment(std::span<const std::string> entries);

/// Returns the whole job as TOML, which loads back to the same job: `${` in a string is printed as
/// `$${`. With `origins`, a comment per key says where its value is from.
std::string job_to_toml(const Job& job, const Origins* origins = nullptr);

/// Reads a complete job that job_to_toml() wrote, from the run folder or from the chief. It ignores
/// the environment and checks everything. Relative paths start at the text's own base_dir, or at
/// `base_dir` if the text has none.
Result<Job> job_from_toml(std::string_view text, const std::string& base_dir);

}  // namespace downpour
