// Job setup: from what the user typed (a job file, or a data file) to a complete job.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "chief/runtime/spool.h"
#include "shared/base/result.h"
#include "shared/env/file_lock.h"
#include "shared/job/job_file.h"

namespace downpour::chief {

struct GivenJob {
  LoadedJob loaded;             // complete
  bool from_data_file = false;  // no job file was given: this one was chosen
  std::string sniffed;  // "libsvm: 123 features, ..." where something was found out from the data
  FileLock lock;        // of the run folder, where sources had to be made: not held otherwise
  std::vector<std::string> notes;  // warnings
};

/// Why the job is wanted.
struct JobUse {
  bool begins = false;  // a run of it begins or goes on, in this process: sources that are no files
                        // are made such
  bool fresh = false;   // anew
  bool takeover = false;        // of a run folder whose chief hangs
  SpoolProgress progress = {};  // of sources that are kept for the run
};

/// Reads a job file, or makes a job for a data file (anything that does not end in .toml), looks at
/// the data for what the job leaves open, and completes it. run_dir is made absolute: relative to
/// the job file, or for a data file to the working folder. Sources that are no files are made such
/// (spool.h), by whoever begins the run, under its lock.
Result<GivenJob> load_given_job(const std::string& path, std::span<const Override> overrides,
                                const JobUse& use = {});

/// Fills what the job leaves open from the first data file: format, columns, header, fields. Then
/// complete_job(). `sniffed` gets what was found.
Result<void> complete_from_data(Job& job, std::string& sniffed);

/// Splits `--set key=value`. kUsage where there is no '='.
Result<Override> parse_set(const std::string& text);

/// The overrides of this process's environment.
std::vector<Override> environment_overrides();
Environment process_environment();

}  // namespace downpour::chief
