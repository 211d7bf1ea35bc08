// Pieces: a data set as the chief cuts it.
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
  uint32_t count = 0;  // 0: no worker, all of the data
};
/// "0/4". Error kUsage: it is none.
Result<WorkerPlace> parse_worker(const std::string& text);

struct Piece {
  plan::ShardRange range;  // of a shard that joins several, one of them
  ShardId shard;           // its place in the epoch's order
};

/// A data set as the chief cuts it.
struct CutData {
  DataSpec data;                      // with the parts of a mix noted
  std::vector<plan::FileInfo> files;  // with the places where they may be cut
  uint64_t shard_bytes = 0;
  plan::StreamSpec streams;
  std::vector<plan::ShardRange> ranges;
  plan::ShardRecipe joining;
};
/// Of which records it must be known how many there are, before they are read.
enum class Numbers : uint8_t {
  kToLeaveOut,  // where pieces have none that is chosen
  kOfAll,       // wherever records are chosen by number
};
Result<CutData> cut_data(const DataSet& set, Numbers numbers);

/// The ranges of the shards in an epoch's order.
std::vector<Piece> pieces_of(const CutData& cut, uint64_t seed, uint32_t epoch);

/// The data as they are read without a job's declarations: of arrays all that there are.
DataSpec readable_data(const DataSet& set);

/// Which of `workers` is given a shard if all are equally fast: each every so many-th one; of
/// several streams those that fall to it.
uint32_t worker_of(const CutData& cut, const Piece& piece, uint32_t workers);

}  // namespace downpour::tools
