// Spool: stores the records of stdin, of generated data and of programs that run only once in files
// of the run folder. These files can be cut, read by all workers, and read again after a failure.
// The process that begins the run writes them once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/env/storage.h"
#include "shared/job/job.h"

namespace downpour::chief {

enum class Spooling : uint8_t {
  kUse,   // use existing files only; for a process without the run's lock
  kMake,  // create missing files
  kAnew,  // create all files, and remove all others, because the run starts anew
};

/// Returns true if a source of the job is "-", "range:N", "synth:N", or a program that runs once.
bool has_spooled_sources(const Job& job);

/// Receives the progress of storing a source, as a sentence: after 2 s, then every 10 s.
using SpoolProgress = std::function<void(const std::string& sentence)>;

/// A SpoolProgress that writes to stderr.
void print_spooling(const std::string& sentence);

/// Copies stdin until its end to a file. Errors: kUsage if stdin is a terminal; kBadData if it is
/// empty; kIo; kInterrupted and kTerminated after a signal.
Result<void> write_stdin(OutputFile& to, const SpoolProgress& progress);

/// Copies the following sources of the job into files of RUN_DIR/sources, and replaces each source
/// in `job` by the path of its file:
/// - "-": stdin until its end;
/// - "range:N": the numbers from 0 to N - 1, one per line;
/// - "synth:N": synthetic clicks;
/// - a program with replay = "none": its output.
/// For ranges, sets the format, the column and the field, if the job leaves them open. `notes`
/// receives messages for the user. `progress` may be empty. Errors: kUsage if stdin is a terminal,
/// is named twice, or is not stored yet (kUse); kBadData if it is empty; kIo, kCannotCreate;
/// kInterrupted and kTerminated after a signal; errors of a program.
Result<void> spool_sources(Job& job, Spooling spooling, std::vector<std::string>& notes,
                           const SpoolProgress& progress = {});

}  // namespace downpour::chief
