// Programs of a job: how those in `exec` and data.program are called, and the records that they
// write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/base/result.h"
#include "shared/data/formats/format.h"
#include "shared/data/reading/program_source.h"
#include "shared/data/reading/read_plan.h"
#include "shared/data/reading/record_stream.h"
#include "shared/data/records/window.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Window size of the output of a program whose records are not collected for shuffling. It is
/// small so that the records of a slow program are trained soon.
constexpr size_t kProgramWindowBytes = size_t{64} << 10;

/// Returns the entry that represents a program among the files of a plan. Its `bytes` are the
/// number of records. If that number is not known, they are 1, which makes one range.
plan::FileInfo program_info(const SourceSpec& source);

/// Returns the call for a range of an epoch, as docs/data.md specifies it.
ProgramCall call_of(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range);

/// Returns the call of data.program for a range of an epoch.
ProgramCall transform_call_of(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range);

/// Returns true if the range is a piece of a source that can only be read from its start.
bool is_piece(const ReadPlan& plan, const plan::ShardRange& range);

/// Starts the source program that writes the whole epoch, of which `range` is a piece.
Result<void> start_stream(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range,
                          RecordStream::Reading& reading);

/// Opens the records that the plan's program writes for a range: lines, TFRecords or rows of
/// arrays; for arrays, the result also contains the parser. If the job states the number of
/// records, it is an error if the range has more or fewer.
Result<ShardRecords> open_program(const ReadPlan& plan, uint32_t epoch,
                                  const plan::ShardRange& range, const WindowMemory& memory);

}  // namespace downpour::data
