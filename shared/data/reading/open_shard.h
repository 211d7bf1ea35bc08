// Opens shards: puts the steps between the files and the batches together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/formats/parser.h"
#include "shared/data/reading/batch_reader.h"
#include "shared/data/reading/read_plan.h"
#include "shared/data/reading/scratch.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Opens one range of a shard that has `ranges` ranges, without the later steps of the pipeline.
/// `text` must outlive the source and the parser. Errors: those of open_shard().
Result<ShardRecords> open_records(const ReadPlan& plan, uint32_t epoch,
                                  const plan::ShardRange& range, Scratch::Text& text,
                                  size_t ranges = 1);

/// Opens a shard like open_shard(), but returns the BatchReader itself.
Result<std::unique_ptr<BatchReader>> open_batch_reader(std::shared_ptr<const ReadPlan> plan,
                                                       Split split, ShardId shard,
                                                       std::vector<plan::ShardRange> ranges,
                                                       uint32_t first_batch,
                                                       std::vector<uint32_t> quarantined_batches);

}  // namespace downpour::data
