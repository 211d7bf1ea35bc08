// Dataset: reads a shard as a sequence of batches, starting at a given batch. The iterators are
// pull-based; each belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/reading/read_plan.h"
#include "shared/data/reading/shard_reader.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Checks that data.filter is a condition on existing fields. Error: kConfig with the column in its
/// text.
Result<void> check_filter(const DataSpec& data);

/// Returns how many decompressed bytes a compressed file yields per byte, measured on its first 4
/// MiB of content; nothing for a plain file. Errors: kNoInput, kIo, kBadData.
Result<std::optional<double>> compression_ratio(const std::string& path);

/// Returns the mean bytes of a record in the file, estimated from its beginning (mnist and arrays:
/// from headers). It converts a number of records per shard to the target_bytes of cut_shards(). At
/// least 1.
Result<uint64_t> mean_record_bytes(const DataSpec& data, const std::string& path);

/// Opens a shard. The shuffle is seeded by `shard` (epoch and shard number). Records of the batches
/// in `quarantined_batches` (ascending) are counted, but not parsed. Records of several ranges are
/// interleaved. Errors: kNoInput, kIo, kBadData (file changed).
Result<std::unique_ptr<ShardReader>> open_shard(std::shared_ptr<const ReadPlan> plan, Split split,
                                                ShardId shard, std::vector<plan::ShardRange> ranges,
                                                uint32_t first_batch,
                                                std::vector<uint32_t> quarantined_batches = {});
/// Opens a shard of one range.
Result<std::unique_ptr<ShardReader>> open_shard(std::shared_ptr<const ReadPlan> plan, Split split,
                                                ShardId shard, const plan::ShardRange& range,
                                                uint32_t first_batch,
                                                std::vector<uint32_t> quarantined_batches = {});

/// Resolves paths and globs to a list of files with fingerprints, in the order in which the paths
/// are written; the matches of a glob are sorted. Files are not splittable if they are compressed,
/// or idx files, or if DataSpec::boundaries_need_scan() (until find_cuts()). Errors: kNoInput
/// naming the path or glob; kBadData for an empty file.
Result<std::vector<plan::FileInfo>> list_files(const DataSpec& data, const SourceSpec& source,
                                               const std::string& base_dir);

/// Decides at which offsets to cut files that cut_shards() can't cut evenly every `shard_bytes` by
/// itself. Errors: kIo, kBadData.
/// - Files whose record boundaries need a scan (TFRecord, CSV with quoted line breaks). Scans them
///   as far as the source takes records. For a TFRecord file with an index file, reads the index
///   instead.
/// - Files of a mix whose records are longer or shorter than those of the first part. Cuts them so
///   that all ranges have about the same number of records. Needs note_parts() before.
Result<void> find_cuts(const DataSpec& data, const SourceSpec& source, uint64_t shard_bytes,
                       std::vector<plan::FileInfo>& files);

/// Stores in the parts of a weighted mix how many files each has, and the mean length of its
/// records. Errors: those of mean_record_bytes().
Result<void> note_parts(DataSpec& data, const std::vector<plan::FileInfo>& files);
/// Counts the records of every piece that cut_shards() makes of the plan's files, and stores in the
/// records_before of `files`, which are the same files, how many records precede each piece. Reads
/// all of them, or as far as the source takes records. Errors: those of reading.
Result<void> count_pieces(const ReadPlan& plan, uint64_t shard_bytes,
                          std::vector<plan::FileInfo>& files);

}  // namespace downpour::data
