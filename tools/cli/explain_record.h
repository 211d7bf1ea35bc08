// downpour explain FILE:RECORD: which way a record of a data file went through a run.
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/result.h"
#include "shared/data/record_trace.h"

namespace downpour::tools {

struct ExplainRecordRequest {
  std::string record;  // "clicks.tsv:17"
  std::string run;     // run folder, or the job file whose run it is; empty: one below ./runs
  data::RecordUnit unit = data::RecordUnit::kRecord;
};

/// Whether this is no error's id but a place in a file.
bool names_record(const std::string& text);

/// For each epoch of the run its shard and batch, who had it when, and what became of it: from the
/// run's saved job, its event file, and the data. Errors say what is not there or has changed.
Result<std::string> explain_record(const ExplainRecordRequest& request);

}  // namespace downpour::tools
