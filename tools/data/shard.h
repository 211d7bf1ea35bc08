// shard: a data set written anew: cut, merged, converted, shuffled, compressed, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "tools/data/data_set.h"
#include "tools/data/shard_files.h"

namespace downpour::tools {

struct ShardRequest {
  std::string out;  // the folder that is made
  uint32_t shards = 1;
  bool by_bytes = false;              // bytes alike instead of records
  DataFormat to = DataFormat::kAuto;  // kAuto: as it is
  data::Compression compression = data::Compression::kNone;
  int level = 0;
  bool shuffle = false;
  uint64_t seed = 1;
  bool index = false;
  bool skip_bad = false;
  uint64_t memory_bytes = uint64_t{256} << 20;
  std::string names;      // "{name}-{index:05}-of-{count:05}" and the format's ending
  std::string temporary;  // folder of a shuffle's buckets; empty: beside `out`
  std::string target;     // what libsvm has as label; empty: the data's own
  std::function<bool()> stopped = [] { return false; };
  std::function<void(uint64_t records, uint64_t bytes, uint64_t of_bytes)> progress =
      [](uint64_t, uint64_t, uint64_t) {};
};

constexpr uint64_t kShardMemoryBytesMin = uint64_t{64} << 20;
/// Of that the program itself, windows and buffers.
constexpr uint64_t kShardOwnBytes = uint64_t{40} << 20;

struct ShardSummary {
  struct File {
    std::string path;
    uint64_t records = 0, bytes = 0;
  };
  std::vector<File> files;
  DataFormat format = DataFormat::kAuto;
  bool converted = false;  // else the records' bytes are what they were
  uint64_t records = 0, bytes = 0, skipped = 0;
};

/// Writes every record of the set once. Where the format stays a record's bytes stay (lines get one
/// LF); else its fields are written anew. All files appear together, or none. Errors: kCannotCreate
/// where the folder is there and not empty; kConfig, kUsage for what can't be written so; kBadData
/// naming the first bad record; kIo (no space); kInterrupted.
Result<ShardSummary> shard(const DataSet& set, const ShardRequest& request);

/// The name of a shard by a pattern with {index}, {count}, {name}, each with an optional width
/// ("{index:05}"). Error kUsage: no such place, a '/', or names that would be alike.
Result<std::string> shard_name(const std::string& pattern, const std::string& name, uint32_t index,
                               uint32_t count);

}  // namespace downpour::tools
