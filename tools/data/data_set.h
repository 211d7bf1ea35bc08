// DataSet: what a command line names as data: files whose format is found out, or a job file.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/dataset.h"
#include "shared/job/job_file.h"
#include "shared/plan/shard.h"

namespace downpour::tools {

struct DataSet {
  Job job;                // of files: one whose `data` says what was found out
  bool from_job = false;  // a job file was named; `job` is complete
  bool declared = false;  // the job file itself says what the fields are
  std::string found;      // what a look at the data told, for the user; may be empty
  std::vector<plan::FileInfo> files;
  /// That are started to read it: stop_programs() ends the reading too.
  std::shared_ptr<data::ProgramPool> programs = data::make_program_pool();

  const DataSpec& data() const { return job.data; }
  /// How the user would name it in another command.
  std::string name;
};

struct DataSetOptions {
  DataFormat format = DataFormat::kAuto;  // of files; kAuto: found out
  std::span<const Override> overrides;
};

/// Opens what `names` are: one job file, or data files, folders of arrays and globs in their order.
/// A file that is known by its first bytes but says nothing of its fields (tensors, say) has none.
/// Errors: as load_given_job(), list_files() and sniff().
Result<DataSet> open_data_set(const std::vector<std::string>& names, const DataSetOptions& options);

/// "csv", "tfrecord", ...
const char* format_name(DataFormat format);
/// What format_name() gives that name to; none: no such format.
std::optional<DataFormat> format_named(std::string_view name);

/// Whether the data are rows of arrays.
bool is_arrays(const DataSpec& data);
/// Whether a record is a line.
bool is_lines(const DataSpec& data);

}  // namespace downpour::tools
