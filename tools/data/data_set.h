// DataSet: the data that a command line names, either files whose format is detected or a job file.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/reading/dataset.h"
#include "shared/job/job_file.h"
#include "shared/plan/shard.h"

namespace downpour::tools {

struct DataSet {
  Job job;                // for data files: only `data` is set, as detected
  bool from_job = false;  // a job file was named; `job` is complete
  bool declared = false;  // the job file declares the fields
  std::string found;      // what detection found, as text for the user; may be empty
  std::vector<plan::FileInfo> files;
  /// Programs that are started to read the data. stop_programs() also ends the reading.
  std::shared_ptr<data::ProgramPool> programs = data::make_program_pool();

  const DataSpec& data() const { return job.data; }
  /// The name under which the user can pass the data to another command.
  std::string name;
};

struct DataSetOptions {
  DataFormat format = DataFormat::kAuto;  // of data files; kAuto: detected
  std::span<const Override> overrides;
};

/// Opens `names`: one job file, or data files, folders of arrays and globs in the given order. If
/// the format is recognized but the fields can't be detected (tensors, for example), the data set
/// has no fields. Errors: as load_given_job(), list_files() and sniff().
Result<DataSet> open_data_set(const std::vector<std::string>& names, const DataSetOptions& options);

/// Returns "csv", "tfrecord", ...
const char* format_name(DataFormat format);
/// Returns the format with that name, the inverse of format_name(); none if there is no such
/// format.
std::optional<DataFormat> format_named(std::string_view name);

}  // namespace downpour::tools
