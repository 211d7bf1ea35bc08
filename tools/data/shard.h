// Rewrites a data set in bounded memory: cuts, merges, converts, shuffles or compresses it.
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
  std::string out;  // the folder to create
  uint32_t shards = 1;
  bool by_bytes = false;              // shards get equal bytes instead of equal numbers of records
  DataFormat to = DataFormat::kAuto;  // kAuto: the format of the data
  data::Compression compression = data::Compression::kNone;
  int level = 0;
  bool shuffle = false;
  uint64_t seed = 1;
  bool index = false;
  bool skip_bad = false;
  uint64_t memory_bytes = uint64_t{256} << 20;
  std::string names;      // empty: "{name}-{index:05}-of-{count:05}" and the format's extension
  std::string temporary;  // folder for the buckets of a shuffle; empty: next to `out`
  std::string target;     // field that becomes the label of libsvm; empty: the data's own target
  std::function<bool()> stopped = [] { return false; };
  std::function<void(uint64_t records, uint64_t bytes, uint64_t of_bytes)> progress =
      [](uint64_t, uint64_t, uint64_t) {};
};

constexpr uint64_t kShardMemoryBytesMin = uint64_t{64} << 20;
/// The share of the memory that is reserved for the program itself, windows and buffers.
constexpr uint64_t kShardOwnBytes = uint64_t{40} << 20;

struct ShardSummary {
  struct File {
    std::string path;
    uint64_t records = 0, bytes = 0;
  };
  std::vector<File> files;
  DataFormat format = DataFormat::kAuto;
  bool converted = false;  // false: the bytes of each record are unchanged
  uint64_t records = 0, bytes = 0, skipped = 0;
};

/// Writes every record of the set once. If the format stays the same, the bytes of each record stay
/// the same, except that each line ends with LF. Otherwise the fields are encoded in the new
/// format. Either all files appear or none. Errors: kCannotCreate if the folder exists and is not
/// empty; kConfig and kUsage if the data can't be written this way; kBadData for the first bad
/// record; kIo (no space, for example); kInterrupted.
Result<ShardSummary> shard(const DataSet& set, const ShardRequest& request);

/// Returns the name of a shard for a pattern with {index}, {count} and {name}. {index} and {count}
/// can have a width ("{index:05}"). Error kUsage: an unknown placeholder, a '/', or equal names for
/// all shards.
Result<std::string> shard_name(const std::string& pattern, const std::string& name, uint32_t index,
                               uint32_t count);

}  // namespace downpour::tools
