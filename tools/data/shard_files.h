// ShardFiles: records into the files of a data set that is being written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/decompress.h"
#include "shared/env/storage.h"
#include "tools/data/encoder.h"

namespace downpour::tools {

/// One file of the set, or (arrays) one folder of files. Written under its own name below a folder
/// that is not there yet for anybody else.
class ShardFile {
 public:
  virtual ~ShardFile() = default;
  virtual Result<void> add(std::string_view record) = 0;
  /// Makes it durable. Without it nothing is left of the file.
  virtual Result<void> finish() = 0;
  /// Bytes written, as they stand on disk; after finish() all of them.
  virtual uint64_t bytes() const = 0;
};

struct ShardFileOptions {
  data::Compression compression = data::Compression::kNone;
  int level = 0;         // of the compression; 0: its default
  bool index = false;    // "PATH.idx": a line "offset bytes" a record
  std::string preamble;  // stands at the start of the file
  // The set is larger than memory is to be: its files go to the disk past the page cache, which
  // could not keep them.
  bool large = false;
};

Result<std::unique_ptr<ShardFile>> create_shard_file(Storage& storage, const std::string& path,
                                                     const ShardFileOptions& options);
/// A folder of .npy files with `rows` rows each; a single form without a name is the file itself.
Result<std::unique_ptr<ShardFile>> create_shard_arrays(Storage& storage, const std::string& path,
                                                       const std::vector<ArrayForm>& arrays,
                                                       uint64_t rows);

/// Which shard each record of a sequence goes to, so that every shard gets at least one and their
/// records differ by at most one, or (`by_bytes`) their bytes are as alike as whole records let
/// them. Needs at least as many records as shards.
class Cutter {
 public:
  Cutter(uint32_t shards, uint64_t records, uint64_t bytes, bool by_bytes)
      : shards_(shards), records_(records), bytes_(bytes), by_bytes_(by_bytes) {}
  /// The shard of the next record: the same as of the one before, or the next one.
  uint32_t next(uint64_t record_bytes);
  /// Records of a shard, where they are cut by records.
  uint64_t records_of(uint32_t shard) const;

 private:
  const uint32_t shards_;
  const uint64_t records_, bytes_;
  const bool by_bytes_;
  uint32_t shard_ = 0;
  uint64_t in_shard_ = 0, given_ = 0, given_bytes_ = 0;
};

}  // namespace downpour::tools
