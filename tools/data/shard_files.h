// ShardFile and Cutter: write records into the files of a new data set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/bytes/decompress.h"
#include "shared/data/formats/codec.h"
#include "shared/env/storage.h"

namespace downpour::tools {

/// One file of the new set, or for arrays one folder of files. It has its final name inside a
/// temporary folder, which is renamed when the set is complete.
class ShardFile {
 public:
  virtual ~ShardFile() = default;
  virtual Result<void> add(std::string_view record) = 0;
  /// Makes the file durable. Without this call the file disappears.
  virtual Result<void> finish() = 0;
  /// Returns the number of bytes on disk so far; after finish() the size of the file.
  virtual uint64_t bytes() const = 0;
};

struct ShardFileOptions {
  data::Compression compression = data::Compression::kNone;
  int level = 0;         // of the compression; 0: default
  bool index = false;    // also write "PATH.idx", with one line "offset bytes" per record
  std::string preamble;  // bytes at the start of the file
  // The set is larger than the memory limit. Its files bypass the page cache, which could not hold
  // them.
  bool large = false;
};

Result<std::unique_ptr<ShardFile>> create_shard_file(Storage& storage, const std::string& path,
                                                     const ShardFileOptions& options);
/// Creates a folder of .npy files with `rows` rows each. If there is one form and it has no name,
/// `path` is the file itself.
Result<std::unique_ptr<ShardFile>> create_shard_arrays(Storage& storage, const std::string& path,
                                                       const std::vector<data::ArrayForm>& arrays,
                                                       uint64_t rows);

/// Assigns each record of a sequence to a shard. Every shard gets at least one record. The numbers
/// of records differ by at most one; with `by_bytes` the shards are instead as equal in bytes as
/// whole records allow. There must be at least as many records as shards.
class Cutter {
 public:
  Cutter(uint32_t shards, uint64_t records, uint64_t bytes, bool by_bytes)
      : shards_(shards), records_(records), bytes_(bytes), by_bytes_(by_bytes) {}
  /// Returns the shard of the next record: the shard of the previous record, or the one after it.
  uint32_t next(uint64_t record_bytes);
  /// Returns the number of records of a shard, unless `by_bytes` is set.
  uint64_t records_of(uint32_t shard) const;

 private:
  const uint32_t shards_;
  const uint64_t records_, bytes_;
  const bool by_bytes_;
  uint32_t shard_ = 0;
  uint64_t in_shard_ = 0, given_ = 0, given_bytes_ = 0;
};

}  // namespace downpour::tools
