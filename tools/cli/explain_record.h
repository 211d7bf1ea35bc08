// `downpour explain FILE:RECORD`: traces a record of a data file through a run.
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/result.h"
#include "shared/data/reading/record_trace.h"

namespace downpour::tools {

struct ExplainRecordRequest {
  std::string record;  // "clicks.tsv:17"
  std::string run;     // run folder, or job file of the run; empty: search below ./runs
  data::RecordUnit unit = data::RecordUnit::kRecord;
};

/// Returns whether `text` names a record in a file, and not the id of an error.
bool names_record(const std::string& text);

/// Returns for each epoch of the run the record's shard and batch, the leases of the shard, and the
/// result. It uses the run's saved job, its event file, and the data. Errors name what is missing
/// or has changed.
Result<std::string> explain_record(const ExplainRecordRequest& request);

}  // namespace downpour::tools
