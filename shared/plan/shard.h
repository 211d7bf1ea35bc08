// Shards: how a data set is cut into ranges, and the order of an epoch's shards. All functions are
// pure: the chief and every worker compute the same from the same job and file list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/ids.h"

namespace downpour::plan {

/// End offset of a stream of unknown length: the epoch of a program with an unknown number of
/// records. It is above every real offset.
constexpr uint64_t kOpenEnd = uint64_t{1} << 62;
/// Maximum number of pieces of such a stream in an epoch.
constexpr uint32_t kOpenShardsMax = uint32_t{1} << 20;

/// Value of records_before for a piece of which no record is chosen. Such a piece is not a range.
constexpr uint64_t kNotChosen = UINT64_MAX;

/// One file of a data set as the chief saw it at the start of the job.
struct FileInfo {
  std::string path;          // absolute
  uint64_t bytes = 0;        // on disk
  uint64_t fingerprint = 0;  // hash of size and of the first and last 64 KiB
  bool splittable = true;    // false: read from its start only, for example a compressed file
  // The only offsets where the file may be cut, ascending, without 0. Empty: it may be cut at every
  // byte, because the end of a record can be recognized.
  std::vector<uint64_t> cuts;
  // If records are chosen by number: for each piece that cut_shards() makes of the whole file, the
  // number of records of the data set that begin before it, or kNotChosen. The last entry also
  // applies to all later pieces. Otherwise empty.
  std::vector<uint64_t> records_before;
  uint32_t part = 0;  // number of its source when the files were listed; not sent
  bool operator==(const FileInfo&) const = default;
  /// Returns the name without the folder: a data set may be at another place on another machine.
  std::string_view name() const {
    const size_t slash = path.rfind('/');
    return std::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1);
  }
  /// True if a program writes the records; `path` is then kProgramMark and its command.
  bool is_program() const { return path.starts_with(kProgramMark); }
  static constexpr std::string_view kProgramMark = "exec: ";  // a file's path is absolute
  /// True if several ranges may tile the file.
  bool is_cut() const { return splittable || !cuts.empty(); }
  /// True if its ranges are pieces of a stream. A reader produces them in order, starting at the
  /// file's start, for all that request them.
  bool is_streamed() const { return !splittable && !cuts.empty(); }
  /// True if the length is unknown (kOpenEnd). Every piece has as many records as the first one,
  /// unless the records are too large for that.
  bool is_open() const { return bytes == kOpenEnd; }
  /// True if its ranges do not cover the whole file.
  bool leaves_out() const {
    return !is_open() && std::ranges::find(records_before, kNotChosen) != records_before.end();
  }
};

/// A byte range of one file. It consists of the records that *begin* in [begin, end); in a
/// compressed file, in the decompressed output for these bytes. A file that cannot be cut has the
/// range [0, bytes).
struct ShardRange {
  uint32_t file = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t records_before = 0;  // of the data set, see FileInfo
  uint32_t stream = 0;
  // only records with number % modulus == stream belong to it, numbered among those chosen for the
  // source
  uint32_t modulus = 1;
  bool operator==(const ShardRange&) const = default;
};

/// How streams are formed. One worker at a time processes a stream. If the data set is a single
/// stream (kOne), all workers process it.
enum class StreamPolicy : uint8_t {
  kOne,
  kFiles,    // file i belongs to stream i mod count
  kRecords,  // record i belongs to stream i mod count
  kCopies,   // each stream is the whole data set
};
struct StreamSpec {
  StreamPolicy policy = StreamPolicy::kOne;
  uint32_t count = 1;
  bool operator==(const StreamSpec&) const = default;
  bool shared() const { return policy == StreamPolicy::kOne; }
};

/// Cuts files into ranges of about `target_bytes`, evenly within a file, or at its `cuts`. The
/// ranges tile every file, with two exceptions. A file that leaves_out() pieces lacks these. An
/// open file has only its first piece as a range.
std::vector<ShardRange> cut_shards(const std::vector<FileInfo>& files, uint64_t target_bytes);
/// Returns the ranges in streams. With kOne and kFiles each range appears once. With kRecords and
/// kCopies each range appears once per stream, ordered by stream.
std::vector<ShardRange> cut_streams(const std::vector<FileInfo>& files, uint64_t target_bytes,
                                    const StreamSpec& streams);

/// Returns the index of the range at position `place` of an epoch's seeded order, and the inverse:
/// a keyed permutation of [0, count). Every process computes the same order, so no list is sent.
uint32_t order_at(uint64_t seed, uint32_t epoch, uint32_t count, uint32_t place);
uint32_t order_inverse(uint64_t seed, uint32_t epoch, uint32_t count, uint32_t range);

/// A source of a weighted mix.
struct MixPart {
  uint32_t files = 0;         // files of the data set, following those of the earlier parts
  double weight = 0;          // weight of its share of the records, relative to the sum of all
  uint64_t record_bytes = 1;  // mean
};

/// How ranges are combined into shards, and the order of these. A shard is one range (cycle = 1),
/// `cycle` ranges, a share of a stream's ranges, or, in a mix, ranges of all its parts.
struct ShardRecipe {
  uint32_t cycle = 1;
  // Number of shards per stream; its ranges are divided evenly among them. Replaces `cycle`. A
  // stream with fewer ranges has one shard per range. 0: `cycle` decides.
  uint32_t shares = 0;
  std::vector<MixPart> mix = {};
  bool in_order = false;    // the ranges are those of a stream, which is read from its start
  uint64_t open_piece = 0;  // records of each piece, if the stream is_open(); else 0
};
/// Returns the approximate number of ranges in a shard of a mix of `parts` sources. It is at least
/// `parts`, so that with any weights at least one source has a range in every shard.
constexpr uint32_t mix_ranges(size_t parts) { return uint32_t(parts < 16 ? 16 : parts); }
/// Returns the number of ranges in a shard. The target size of a range is that of a shard divided
/// by it.
uint32_t ranges_of(const ShardRecipe& joining);
/// Returns the size of shards that are only evaluated: as many bytes as the ranges of a training
/// shard have together.
uint64_t eval_shard_bytes(const ShardRecipe& joining, uint64_t shard_bytes);
/// Returns the ranges in which an evaluation reads the held-out records of the training files. They
/// are as long as a training shard, not as its ranges. Exception: files whose pieces are counted
/// keep these pieces.
std::vector<ShardRange> cut_held_out(const std::vector<FileInfo>& files, const ShardRecipe& joining,
                                     uint64_t shard_bytes);

/// The shards of a training pass: which ranges belong to each of them. An epoch visits the shards
/// in a seeded order, or with in_order in the order of the stream.
/// - Without a cycle each shard is one range.
/// - With a cycle, the ranges of a stream have a seeded order in each epoch, and each shard takes
///   the next `cycle` of them (the last shard takes the rest). So a shard has records from many
///   places of the data set.
/// - With shares, a shard takes an equal part of them, also in a seeded order.
/// - In a mix, each shard takes ranges of every part in proportion to its weight, until the ranges
///   of some part are exhausted. The remaining ranges of the other parts are unread in this epoch.
class ShardMap {
 public:
  /// `ranges` are those of cut_streams(). The ranges of a stream may be anywhere among the others.
  ShardMap(std::vector<ShardRange> ranges, uint64_t seed, uint32_t cycle = 1);
  ShardMap(std::vector<ShardRange> ranges, uint64_t seed, const ShardRecipe& joining);
  ShardMap() = default;

  /// Returns the number of shards. For an open stream this is kOpenShardsMax; shards after its end
  /// have no records.
  uint32_t count() const { return count_; }
  /// Returns the number of records of each piece of an open stream, else 0.
  uint64_t open_piece() const { return open_piece_; }
  bool joins() const { return cycle_ > 1 || shares_ > 0 || mixes(); }
  bool mixes() const { return !mix_.empty(); }
  const std::vector<ShardRange>& ranges() const { return ranges_; }
  /// Returns the indexes of the ranges of the shard at position `place` of the epoch's order, in
  /// the order in which the reader takes turns among them. Not for an open stream, whose ranges are
  /// not listed.
  std::vector<uint32_t> indexes_at(uint32_t epoch, uint32_t place) const;
  /// Returns these ranges themselves. Also for an open stream.
  std::vector<ShardRange> at(uint32_t epoch, uint32_t place) const;
  /// Returns the position of the shard that contains the range with this index, or count() if the
  /// range is unread.
  uint32_t place_of(uint32_t epoch, uint32_t range) const;
  /// Returns the first part of a mix of which an epoch reads nothing, because even one of its
  /// ranges is more than its share of an epoch. Returns nothing if every part is read.
  std::optional<size_t> source_without_reads() const;
  /// Returns the indexes of the ranges that no shard of the epoch contains.
  std::vector<uint32_t> unread(uint32_t epoch) const;

 private:
  struct Stream {
    std::vector<uint32_t> ranges;
    uint32_t first_shard = 0;
    uint32_t shards = 0;
  };
  void join();
  uint32_t stream_begin(const Stream& stream, uint32_t shard) const;
  void mix(const std::vector<MixPart>& parts);
  struct Mixed {
    uint32_t first_range = 0, ranges = 0;
    uint64_t pace = 0;  // ranges per shard, in 1/65536
    uint32_t read = 0;  // ranges read in an epoch
  };
  uint32_t mixed_begin(const Mixed& part, uint32_t shard) const;
  const Mixed& mixed_of(uint32_t range) const;
  uint64_t mix_seed(const Mixed& part) const;
  uint32_t shard_at(uint32_t epoch, uint32_t place) const;
  uint32_t place_of_shard(uint32_t epoch, uint32_t shard) const;
  std::vector<ShardRange> ranges_;
  std::vector<Mixed> mix_;
  uint64_t seed_ = 0;
  bool in_order_ = false;
  uint64_t open_piece_ = 0;
  uint32_t cycle_ = 1;
  uint32_t shares_ = 0;
  uint32_t count_ = 0;
  std::vector<Stream> streams_;  // only if shards have several ranges
};

/// Returns a text like "file.csv [0, 4096)" and the number of further ranges. Precondition:
/// `ranges` is not empty.
std::string text_of(const std::vector<ShardRange>& ranges, const std::vector<FileInfo>& files);

/// Returns the total number of bytes of all ranges.
uint64_t bytes_of(const std::vector<ShardRange>& ranges);

/// Returns the term of an offset in a sum that proves tiling. If the ranges of a file follow each
/// other, the sum over their ends minus the sum over their begins equals the term of the file's end
/// minus that of its begin, in any order of addition.
uint64_t offset_hash(uint32_t file, uint32_t stream, uint64_t offset);

}  // namespace downpour::plan
