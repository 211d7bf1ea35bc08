// Spool: sources that are no files are made files of the run's folder, once, by the process that
// begins the run. So they can be cut, read by all workers, and read again after a death.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::chief {

enum class Spooling : uint8_t {
  kUse,   // only what is there already: whoever does not hold the run's lock
  kMake,  // what is missing
  kAnew,  // everything, and nothing else stays in the folder: the run begins anew
};

/// Whether a source of the job is no file: "-", "range:N", "synth:N", or a program that runs once.
bool has_spooled_sources(const Job& job);

/// How far the keeping of a source is, in a sentence: after 2 s, and then every 10 s.
using SpoolProgress = std::function<void(const std::string& sentence)>;

/// One that writes it to stderr.
void print_spooling(const std::string& sentence);

/// Puts the path of a file in RUN_DIR/sources in the place of "-" (what comes on stdin, until it
/// ends), of "range:N" (the numbers from 0 to N - 1, a line each), of "synth:N" (synthetic clicks)
/// and of a program with replay = "none" (what it writes) among the job's sources, and declares the
/// one field of numbers where the job says nothing. `notes` gets what the user should know;
/// `progress` may be empty. Errors: kUsage where stdin is a terminal, is named twice, or is not
/// there yet (kUse), kBadData where it is empty, kIo, kCannotCreate; those of a program.
Result<void> spool_sources(Job& job, Spooling spooling, std::vector<std::string>& notes,
                           const SpoolProgress& progress = {});

}  // namespace downpour::chief
