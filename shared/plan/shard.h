// Shards: how a data set is cut, and in which order an epoch goes through it. Pure: the chief and
// every worker compute the same from the same job and file list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/ids.h"

namespace downpour::plan {

/// Where a stream ends of which only reading tells: a program's epoch of an unknown number of
/// records. No place is as far.
constexpr uint64_t kOpenEnd = uint64_t{1} << 62;
/// Pieces of such a stream in an epoch, at the most.
constexpr uint32_t kOpenShardsMax = uint32_t{1} << 20;

/// In the place of how many records begin before a piece: none of its own is chosen, and it is no
/// range.
constexpr uint64_t kNotChosen = UINT64_MAX;

/// One file of a data set as the chief saw it when the job began.
struct FileInfo {
  std::string path;          // absolute
  uint64_t bytes = 0;        // on disk
  uint64_t fingerprint = 0;  // hash of size and of the first and last 64 KiB
  bool splittable = true;    // false: read from its start only (compressed, say)
  // Where alone it may be cut, ascending, without 0; empty: at every byte, since a record's end
  // shows itself.
  std::vector<uint64_t> cuts;
  // Where records are chosen by number: for each piece that cut_shards() would make of all of the
  // file, how many records of the data set begin before it, or kNotChosen; the last one is also of
  // those behind. Else empty.
  std::vector<uint64_t> records_before;
  uint32_t part = 0;  // of its source, where the files were listed; travels nowhere
  bool operator==(const FileInfo&) const = default;
  /// Whether several ranges may tile it.
  bool is_cut() const { return splittable || !cuts.empty(); }
  /// Whether its ranges are the pieces of a stream: read in order, from its start, for whoever
  /// wants them.
  bool is_streamed() const { return !splittable && !cuts.empty(); }
  /// Whether only reading tells where it ends (kOpenEnd): the pieces are as long as the first, as
  /// far as its records are not too large for that.
  bool is_open() const { return bytes == kOpenEnd; }
  /// Whether its ranges are not all of it.
  bool leaves_out() const {
    return !is_open() && std::ranges::find(records_before, kNotChosen) != records_before.end();
  }
};

/// A byte range of one file: the records that *begin* in [begin, end); of a compressed one, those
/// that begin in what comes out for these bytes. For a file that can't be cut [0, bytes).
struct ShardRange {
  uint32_t file = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t records_before = 0;  // of the data set; see FileInfo
  uint32_t stream = 0;
  uint32_t modulus =
      1;  // of the records chosen for the source those whose number % modulus == stream
  bool operator==(const ShardRange&) const = default;
};

/// What the streams are made of. A stream is worked on by one worker at a time; a data set that is
/// one stream, by all of them.
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

/// Cuts files into ranges of about `target_bytes`, evenly within a file, or at its `cuts`; the
/// ranges tile every file but one that leaves_out() pieces, and an open one, of which there is the
/// first piece only.
std::vector<ShardRange> cut_shards(const std::vector<FileInfo>& files, uint64_t target_bytes);
/// The same in streams: each range once (one stream, files), or once for every stream, stream by
/// stream (records, copies).
std::vector<ShardRange> cut_streams(const std::vector<FileInfo>& files, uint64_t target_bytes,
                                    const StreamSpec& streams);

/// The place-th shard of an epoch's seeded order is range order_at(...) of cut_shards: a keyed
/// permutation of [0, count), and its inverse. The same for every process; no list is shipped.
uint32_t order_at(uint64_t seed, uint32_t epoch, uint32_t count, uint32_t place);
uint32_t order_inverse(uint64_t seed, uint32_t epoch, uint32_t count, uint32_t range);

/// A source of a weighted mix.
struct MixPart {
  uint32_t files = 0;         // of the data set, those behind the parts before it
  double weight = 0;          // its share of the records is to be this in the sum of all
  uint64_t record_bytes = 1;  // mean
};

/// How ranges make shards, and their order: each is one (a cycle of 1), joins `cycle` of them, or,
/// of a mix, ranges of all its parts.
struct ShardRecipe {
  uint32_t cycle = 1;
  std::vector<MixPart> mix = {};
  bool in_order = false;    // the ranges are those of a stream, which is read from its start
  uint64_t open_piece = 0;  // of a stream that is_open(): the records of each piece; else 0
};
/// How many ranges a shard of a mix of so many parts joins, about. At least one of each, so that
/// one of the parts gives every shard a range, whatever the weights.
constexpr uint32_t mix_ranges(size_t parts) { return uint32_t(parts < 16 ? 16 : parts); }
/// By what a shard is shortened to be a range.
uint32_t ranges_of(const ShardRecipe& joining);
/// What files that are only evaluated are cut to: as many bytes as a training shard joins.
uint64_t eval_shard_bytes(const ShardRecipe& joining, uint64_t shard_bytes);

/// The shards of a training pass: which ranges each of them joins. Without a cycle each is one
/// range; those of a stream come in its order. With one, the ranges of a stream are put in a seeded
/// order of the epoch, and each shard takes `cycle` of them in a row (the last one what is left),
/// so that it has records from as many places of the data set. Of a mix each shard takes ranges of
/// every part, as many as its weight wants, until a part has none left: the ranges of the others
/// that no shard has are unread in this epoch.
class ShardMap {
 public:
  /// `ranges` as cut_streams() gives them: those of a stream may lie anywhere among the others.
  ShardMap(std::vector<ShardRange> ranges, uint64_t seed, uint32_t cycle = 1);
  ShardMap(std::vector<ShardRange> ranges, uint64_t seed, const ShardRecipe& joining);
  ShardMap() = default;

  /// Of an open stream kOpenShardsMax: those behind its end have no records.
  uint32_t count() const { return count_; }
  /// The records of each piece of an open stream; else 0.
  uint64_t open_piece() const { return open_piece_; }
  bool joins() const { return cycle_ > 1 || mixes(); }
  bool mixes() const { return !mix_.empty(); }
  const std::vector<ShardRange>& ranges() const { return ranges_; }
  /// The indexes of the ranges of the place-th shard in an epoch's order, in the order in which
  /// they take turns. Not of an open stream, whose ranges are no list.
  std::vector<uint32_t> indexes_at(uint32_t epoch, uint32_t place) const;
  /// These ranges.
  std::vector<ShardRange> at(uint32_t epoch, uint32_t place) const;
  /// The place of the shard that has a range, by its index; count(): none, it is unread.
  uint32_t place_of(uint32_t epoch, uint32_t range) const;
  /// Of a mix: the first part of which an epoch reads nothing, since even one of its ranges is more
  /// than its share of an epoch; none is how it should be.
  std::optional<size_t> source_without_reads() const;
  /// Indexes of the ranges that no shard of the epoch has.
  std::vector<uint32_t> unread(uint32_t epoch) const;

 private:
  struct Stream {
    std::vector<uint32_t> ranges;
    uint32_t first_shard = 0;
  };
  void mix(const std::vector<MixPart>& parts);
  struct Mixed {
    uint32_t first_range = 0, ranges = 0;
    uint64_t pace = 0;  // ranges a shard, in 1/65536
    uint32_t read = 0;  // ranges of an epoch
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
  uint32_t count_ = 0;
  std::vector<Stream> streams_;  // only where ranges are joined
};

/// "file.csv [0, 4096)", and how many more there are.
std::string text_of(const std::vector<ShardRange>& ranges, const std::vector<FileInfo>& files);

/// Bytes of all ranges.
uint64_t bytes_of(const std::vector<ShardRange>& ranges);

/// What a place in a file adds to a sum of places: where the ranges of a file follow each other,
/// the sum over their ends less the sum over their begins is that of the file's end less that of
/// its begin, in whatever order they are added.
uint64_t offset_hash(uint32_t file, uint32_t stream, uint64_t offset);

}  // namespace downpour::plan
