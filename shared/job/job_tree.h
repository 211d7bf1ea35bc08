// Conversion between the tree of a job file and its structs. Only job_file.cc and resume.cc use it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/job/origins.h"
#include "shared/job/toml_tree.h"

namespace downpour {

/// Reads the keys of the tree into `job`. Checks only types, ranges and names of keys. `origins`
/// gets an entry per key. Errors: kConfig with the place of the key or value.
Result<void> read_job(const TomlNode& root, Job& job, Origins& origins);

/// A table in printed form: `path` as in "data.fields.I1" or "model.layers[0]", values as TOML
/// text. `header` differs from `path` if one table stands for a run of fields
/// ("data.fields.\"I1..I13\"").
struct PrintedTable {
  std::string path;
  std::string header;
  std::vector<std::pair<std::string, std::string>> values;
};

/// Returns every key of a job with its value, in the order of keys.h. Of fields, layers and outputs
/// only the values that differ from the default. With `compress`, adjacent equal fields share one
/// table (with the header "I1..I13").
std::vector<PrintedTable> print_tables(const Job& job, bool compress);

}  // namespace downpour
