// Cuts a data set into shards exactly as the chief does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/plan/shard.h"
#include "tools/data/data_set.h"

namespace downpour::tools {

/// One of `count` workers.
struct WorkerPlace {
  uint32_t index = 0;
  uint32_t count = 0;  // 0: no particular worker, all of the data
};
/// Parses INDEX/COUNT, such as "0/4". Error kUsage if `text` is not of this form.
Result<WorkerPlace> parse_worker(const std::string& text);

/// One range of a shard. A shard that joins several ranges has several pieces.
struct Piece {
  plan::ShardRange range;
  ShardId shard;  // its position in the epoch's order
};

/// A data set cut into shards.
struct CutData {
  DataSpec data;                      // after note_parts()
  std::vector<plan::FileInfo> files;  // with the offsets where they may be cut
  uint64_t shard_bytes = 0;
  plan::StreamSpec streams;
  std::vector<plan::ShardRange> ranges;
  plan::ShardRecipe joining;
};
/// When cut_data() counts the records of the pieces.
enum class Numbers : uint8_t {
  kToLeaveOut,  // if the source skips or limits records, so that some pieces may have none
  kOfAll,       // whenever the source chooses records by number
};
/// Cuts the data set.
Result<CutData> cut_data(const DataSet& set, Numbers numbers);

/// Returns the ranges of all shards in the order of an epoch.
std::vector<Piece> pieces_of(const CutData& cut, uint64_t seed, uint32_t epoch);

/// Returns the data's specification for reading without the job's declarations. For arrays without
/// declared fields it has no fields, so that all arrays are read.
DataSpec readable_data(const DataSet& set);

/// Returns the worker that reads a piece if all workers are equally fast. Shared shards go to the
/// workers in turn. If each stream belongs to one worker, the streams go to the workers in turn.
uint32_t worker_of(const CutData& cut, const Piece& piece, uint32_t workers);

}  // namespace downpour::tools
