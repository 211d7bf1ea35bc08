// The keys in which jobs differ.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shared/job/job.h"

namespace downpour {

/// A key and its value in each job, as TOML; "-" where a job does not have the key.
struct KeyValues {
  std::string key;
  std::vector<std::string> values;
};

/// Returns every key of a job with its value as TOML, in the order of keys.h.
std::vector<std::pair<std::string, std::string>> keys_of(const Job& job);

/// Returns the keys in which the jobs differ, in the order of the jobs' keys. Leaves out `name`,
/// `run_dir` and `base_dir`, which differ between all runs.
std::vector<KeyValues> differing_keys(std::span<const Job* const> jobs);

}  // namespace downpour
