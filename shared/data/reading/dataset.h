// Dataset: lists and cuts the files of a data set, and opens shards. A ShardReader yields a shard's
// batches one by one. Each reader belongs to one thread.
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

/// Checks that data.filter is a condition on existing fields. Error: kConfig; its text names the
/// column.
Result<void> check_filter(const DataSpec& data);

/// Returns how many decompressed bytes a compressed file yields per byte of the file, measured on
/// its first 4 MiB of decompressed content; nothing for a plain file. Errors: kNoInput, kIo,
/// kBadData.
Result<std::optional<double>> compression_ratio(const std::string& path);

/// Returns the mean bytes of a record in the file, estimated from its beginning (mnist and arrays:
/// from headers). Multiplied by a number of records per shard, it gives the target_bytes of
/// cut_shards(). At least 1.
Result<uint64_t> mean_record_bytes(const DataSpec& data, const std::string& path);
/// As above, of the first file of `part` that is cut, because a compressed file has fewer bytes for
/// a record. If none is cut, of the first one. `files` must have a file of the part.
Result<uint64_t> mean_record_bytes(const DataSpec& data, const std::vector<plan::FileInfo>& files,
                                   uint32_t part);

/// Opens a shard, whose reader yields the batches from `first_batch` on. The shuffle is seeded by
/// the plan's seed and by `shard` (epoch and shard number). Records of the batches in
/// `quarantined_batches` (ascending) are counted, but not parsed. Records of several ranges are
/// interleaved. Errors: kNoInput, kIo, kBadData (for example, a file has changed).
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
/// are written; the matches of a glob are sorted. FileInfo::splittable is false for compressed
/// files and idx files. If DataSpec::boundaries_need_scan(), it is false for all files until
/// find_cuts(). Errors: kNoInput naming the path or glob; kBadData for an empty file.
Result<std::vector<plan::FileInfo>> list_files(const DataSpec& data, const SourceSpec& source,
                                               const std::string& base_dir);

/// Decides at which offsets to cut files that cut_shards() can't cut evenly every `shard_bytes`
/// bytes by itself. Errors: kIo, kBadData.
/// - Files whose record boundaries need a scan (TFRecord, CSV with quoted line breaks). Scans them
///   as far as the source takes records. For a TFRecord file with an index file, reads the index
///   instead.
/// - Files of a mix whose records are longer or shorter than those of the first part. Cuts them so
///   that all ranges have about the same number of records. Needs note_parts() before.
Result<void> find_cuts(const DataSpec& data, const SourceSpec& source, uint64_t shard_bytes,
                       std::vector<plan::FileInfo>& files);

/// Stores in the parts of a weighted mix how many files each has, and their mean_record_bytes().
/// Errors: those of mean_record_bytes(); kConfig if a part has compressed and other files.
Result<void> note_parts(DataSpec& data, const std::vector<plan::FileInfo>& files);
/// Counts the records of every range that cut_shards() makes of the plan's files. For each range,
/// appends to the records_before of the same file in `files` how many records of the data set
/// precede it, or kNotChosen. Reads all ranges, or as far as the source takes records. Errors:
/// those of reading.
Result<void> count_pieces(const ReadPlan& plan, uint64_t shard_bytes,
                          std::vector<plan::FileInfo>& files);

}  // namespace downpour::data
