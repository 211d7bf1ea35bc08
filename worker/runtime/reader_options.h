// ReaderOptions: what the readers of a worker or of an input process read, and within which limits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shared/data/reading/dataset.h"
#include "shared/plan/shard.h"
#include "shared/tensor/variables.h"
#include "shared/wire/member_messages.h"
#include "worker/core/reader_tuner.h"
#include "worker/runtime/input_directory.h"

namespace downpour::worker {

struct ReaderOptions {
  std::shared_ptr<const data::ReadPlan> train;
  std::shared_ptr<const data::ReadPlan> eval;     // over the training files if no others are given
  std::shared_ptr<const data::ReadPlan> predict;  // as `eval`, but targets may be missing
  plan::ShardMap train_shards;
  std::vector<plan::ShardRange> eval_ranges;
  bool eval_held_out = false;  // eval reads the held-out records of the training files
  std::vector<TableSpec> tables;
  ReaderLimits limits;
  bool room_by_shard = false;                         // as in ReadyItems
  uint64_t message_bytes_max = wire::kFrameBytesMax;  // as in WorkerConfig
  std::shared_ptr<InputDirectory> inputs;  // input processes that may read instead; may be null
};

}  // namespace downpour::worker
