// Dataset: reads one shard, from a batch on, and yields batches. Pull iterators; each belongs to one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/tensor/batch.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Everything that a reader needs; shared by all readers of a process, immutable.
struct ReadPlan {
  DataSpec data;
  InputLayout layout;
  uint64_t seed = 1;
  uint32_t batch_size = 512;
  bool drop_remainder = false;
  double holdout = 0;           // share held out of training
  std::vector<plan::FileInfo> files;
};

enum class Part : uint8_t { kTrain, kHeldOut, kAll };  // which side of the holdout a reader yields

/// The counts of a whole shard, known when its last batch was given out.
struct ShardTotals {
  ReadCounts counts;
  uint32_t batches = 0;
  uint64_t first_offset = 0, end_offset = 0;
  uint64_t records_hash = 0;
};

/// Yields the batches of one shard in order. Always starts reading at the shard's begin; batches before
/// `first_batch` are parsed for their counts but not given out.
class ShardReader {
 public:
  virtual ~ShardReader() = default;
  /// Fills `batch` (its vectors are reused) and returns true; false at the end, when totals() is valid.
  /// Errors: kBadData with where = "file:line" and the text, kNoInput, kIo.
  virtual Result<bool> next(Batch& batch) = 0;
  virtual const ShardTotals& totals() const = 0;
};

/// Opens a shard. `shard.shard` with `epoch` seeds the shuffle. Errors: kNoInput, kIo, kBadData (file changed).
Result<std::unique_ptr<ShardReader>> open_shard(std::shared_ptr<const ReadPlan> plan, Part part, ShardId shard,
                                                const plan::ShardRange& range, uint32_t first_batch);

/// Resolves paths and globs to a sorted file list with fingerprints. Errors: kNoInput naming the path or glob;
/// an empty file is an error too.
Result<std::vector<plan::FileInfo>> list_files(const SourceSpec& source, const std::string& base_dir);

/// Looks at the first lines of a file: its format, and what a job for it must say. `reason` is for the user
/// ("libsvm: 123 features, labels -1 and 1").
struct Sniffed {
  DataFormat format = DataFormat::kAuto;
  std::vector<std::string> columns;
  bool header = false;
  std::string delimiter;
  bool trim = false;
  std::vector<std::string> missing;
  std::vector<FieldSpec> fields;   // suggested types and transforms; the target stands under `target`
  std::string target;
  uint32_t classes = 0;            // 2: binary, > 2: multi-class, 0: regression
  std::string reason;
};
Result<Sniffed> sniff(const std::string& path);

}  // namespace downpour::data
