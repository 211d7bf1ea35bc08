// Sniffing: detects the format of a data file and the settings that a job for it needs.
#pragma once

#include <string>

#include "shared/base/result.h"
#include "shared/data/formats/file_sample.h"
#include "shared/job/file_job.h"

namespace downpour::data {

/// Detects a file's format from its beginning, and the settings that a job for it needs. Uses
/// delimiter, header, columns, missing and skip_lines of `declared`. Fields of `roles` that the
/// file has are its targets and weights; without a known target, one is guessed. If the number of
/// records is not known, `records_estimated` is 0, and the caller estimates it. Errors: kBadData if
/// the format is unknown.
Result<FileFacts> sniff(const std::string& path, const DataSpec& declared = {},
                        const Roles& roles = {});

/// Does the same, and returns the format also if the settings can't be derived.
Sniffed recognize(const std::string& path, const DataSpec& declared = {}, const Roles& roles = {});

}  // namespace downpour::data
