// Job setup: turns the user's input (a job file or a data file) into a complete job.
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
  LoadedJob loaded;             // the complete job
  bool from_data_file = false;  // the job was generated, because a data file was given
  std::string sniffed;          // findings about the data, for example "libsvm: 123 features, ..."
  FileLock lock;  // lock of the run folder, if source files had to be created; otherwise not held
  std::vector<std::string> notes;  // warnings
};

/// What the caller will do with the job.
struct JobUse {
  // This process begins or resumes a run, so it creates the files of sources that are not files.
  bool begins = false;
  bool fresh = false;           // discard an existing run
  bool takeover = false;        // take the lock from a chief that hangs
  SpoolProgress progress = {};  // reports the progress of storing sources
};

/// Reads a job file, or generates a job for data files: paths that do not end in .toml, folders and
/// globs. Completes it from the data. run_dir becomes absolute: relative to the job file, or to the
/// working folder for a data file. For sources that are not files (spool.h), the process that
/// begins the run creates files, under the lock of the run.
Result<GivenJob> load_given_job(std::span<const std::string> paths,
                                std::span<const Override> overrides, const JobUse& use = {});
inline Result<GivenJob> load_given_job(const std::string& path, std::span<const Override> overrides,
                                       const JobUse& use = {}) {
  return load_given_job(std::span(&path, 1), overrides, use);
}

/// A job that was chosen for data files. It is not complete yet.
struct ChosenJob {
  Job job;
  std::string reason;  // findings about the data, as in GivenJob::sniffed
  std::vector<std::string> warnings;
};

/// Chooses a job for data files (docs/models.md), by the first one. Relative paths start at the
/// working folder, and the run folder at `here`. Overrides of the target, the loss and the preset
/// affect the choice; the caller applies them. With `fresh`, classes of an earlier run are not
/// used. Errors: kNoInput, kBadData, kConfig.
Result<ChosenJob> choose_job(std::span<const std::string> paths,
                             std::span<const Override> overrides, bool fresh,
                             const std::string& here);

/// Fills settings (format, columns, header, fields) that the user has not given from the first data
/// file, then calls complete_job(). `sniffed` receives the findings. Classes of a label are those
/// of an earlier run in the run folder, unless `fresh`. `origins`: where the job's keys come
/// from, and so which of them are given; without it, a key counts as given if it differs from its
/// default.
Result<void> complete_from_data(Job& job, std::string& sniffed, bool fresh = false,
                                const Origins* origins = nullptr);

/// Splits `--set key=value`. Error kUsage if there is no '='.
Result<Override> parse_set(const std::string& text);

/// Returns the overrides from the environment of this process.
std::vector<Override> environment_overrides();
Environment process_environment();

}  // namespace downpour::chief
