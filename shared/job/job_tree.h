// Between the tree of a job file and its structs: what job_file.h is made of.
#pragma once

#include <string>
#include <vector>

#include "shared/job/job_file.h"
#include "shared/job/toml_tree.h"

namespace downpour {

/// Reads the keys that are there into `job`; types, ranges and names of keys are checked, nothing
/// else is. `origins` gets an entry a key. Errors: kConfig with the key's or value's place.
Result<void> read_job(const TomlNode& root, Job& job, Origins& origins);

/// A table as it is printed: `path` as in "data.fields.I1" or "model.layers[0]", values as TOML
/// text. `header` differs from `path` where one table speaks for a run of fields
/// ("data.fields.\"I1..I13\"").
struct PrintedTable {
  std::string path;
  std::string header;
  std::vector<std::pair<std::string, std::string>> values;
};

/// Every key of a job with its value, in the order of keys.h. Of fields, layers and outputs only
/// what differs from the default. `compress`: neighbouring fields alike share one table (headed
/// "I1..I13").
std::vector<PrintedTable> print_tables(const Job& job, bool compress);

}  // namespace downpour
