#include "shared/plan/shard.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "shared/base/check.h"
#include "shared/base/hash.h"
#include "shared/base/sizes.h"
#include "shared/base/str.h"

namespace downpour::plan {
namespace {

constexpr uint32_t kRounds = 8;  // cheap, and enough to mix even tiny domains well

/// A balanced Feistel network (Luby, Rackoff 1988) on the smallest even number of bits that holds
/// `count`. A value outside [0, count) is encrypted again ("cycle walking", Black and Rogaway
/// 2002).
class Permutation {
 public:
  Permutation(uint64_t seed, uint32_t epoch, uint32_t count)
      : count_(count),
        half_bits_((std::max<uint32_t>(uint32_t(std::bit_width(uint64_t(count) - 1)), 2) + 1) / 2) {
    const uint64_t key = hash_combine(hash_combine(seed, 0x6f72646572ULL), epoch);
    for (uint32_t r = 0; r < kRounds; ++r) keys_[r] = hash_combine(key, r);
  }

  uint32_t forward(uint32_t x) const { return walk<&Permutation::encrypt>(x); }
  uint32_t backward(uint32_t x) const { return walk<&Permutation::decrypt>(x); }

 private:
  /// Applies `step` until the value is in [0, count).
  template <uint64_t (Permutation::*step)(uint64_t) const>
  uint32_t walk(uint64_t value) const {
    do {
      value = (this->*step)(value);
    } while (value >= count_);
    return uint32_t(value);
  }
  uint64_t round(uint32_t r, uint64_t half) const {
    return mix64(keys_[r] ^ half) >> (64 - half_bits_);
  }
  uint64_t encrypt(uint64_t value) const {
    uint64_t left = value >> half_bits_, right = value & mask();
    for (uint32_t r = 0; r < kRounds; ++r) {
      left ^= round(r, right);
      std::swap(left, right);
    }
    return left << half_bits_ | right;
  }
  uint64_t decrypt(uint64_t value) const {
    uint64_t left = value >> half_bits_, right = value & mask();
    for (uint32_t r = kRounds; r-- > 0;) {
      std::swap(left, right);
      left ^= round(r, right);
    }
    return left << half_bits_ | right;
  }
  uint64_t mask() const { return (uint64_t{1} << half_bits_) - 1; }

  uint64_t count_;
  uint32_t half_bits_;
  uint64_t keys_[kRounds];
};

}  // namespace

std::vector<ShardRange> cut_shards(const std::vector<FileInfo>& files, uint64_t target_bytes) {
  DP_CHECK(target_bytes > 0);
  std::vector<ShardRange> ranges;
  for (uint32_t file = 0; file < files.size(); ++file) {
    const uint64_t bytes = files[file].bytes;
    if (files[file].is_open()) {
      ranges.push_back({.file = file, .begin = 0, .end = files[file].cuts.front()});
      continue;
    }
    if (const std::vector<uint64_t>& cuts = files[file].cuts; !cuts.empty()) {
      DP_CHECK(cuts.front() > 0 && cuts.back() < bytes, file);
      for (size_t i = 0; i <= cuts.size(); ++i) {
        ranges.push_back({.file = file,
                          .begin = i == 0 ? 0 : cuts[i - 1],
                          .end = i == cuts.size() ? bytes : cuts[i]});
      }
      continue;
    }
    const uint64_t pieces =
        files[file].splittable ? std::max<uint64_t>(divide_up(bytes, target_bytes), 1) : 1;
    const uint64_t size = bytes / pieces,
                   longer = bytes % pieces;  // the first `longer` pieces have one byte more
    for (uint64_t i = 0, begin = 0; i < pieces; ++i) {
      const uint64_t end = begin + size + (i < longer ? 1 : 0);
      ranges.push_back({.file = file, .begin = begin, .end = end});
      begin = end;
    }
  }
  for (size_t i = 0, piece = 0; i < ranges.size(); ++i) {
    piece = i > 0 && ranges[i].file == ranges[i - 1].file ? piece + 1 : 0;
    const std::vector<uint64_t>& before = files[ranges[i].file].records_before;
    if (!before.empty() && !files[ranges[i].file].is_open())
      ranges[i].records_before = before[std::min(piece, before.size() - 1)];
  }
  std::erase_if(ranges, [](const ShardRange& range) { return range.records_before == kNotChosen; });
  return ranges;
}

std::vector<ShardRange> cut_streams(const std::vector<FileInfo>& files, uint64_t target_bytes,
                                    const StreamSpec& streams) {
  DP_CHECK(streams.count > 0);
  std::vector<ShardRange> ranges = cut_shards(files, target_bytes);
  if (streams.policy == StreamPolicy::kOne) return ranges;
  if (streams.policy == StreamPolicy::kFiles) {
    for (ShardRange& range : ranges) range.stream = range.file % streams.count;
    return ranges;
  }
  std::vector<ShardRange> all;
  all.reserve(ranges.size() * streams.count);
  for (uint32_t stream = 0; stream < streams.count; ++stream) {
    for (ShardRange range : ranges) {
      range.stream = stream;
      if (streams.policy == StreamPolicy::kRecords) range.modulus = streams.count;
      all.push_back(range);
    }
  }
  return all;
}

uint32_t order_at(uint64_t seed, uint32_t epoch, uint32_t count, uint32_t place) {
  DP_CHECK(place < count, place, count);
  return Permutation(seed, epoch, count).forward(place);
}

uint32_t order_inverse(uint64_t seed, uint32_t epoch, uint32_t count, uint32_t range) {
  DP_CHECK(range < count, range, count);
  return Permutation(seed, epoch, count).backward(range);
}

ShardMap::ShardMap(std::vector<ShardRange> ranges, uint64_t seed, uint32_t cycle)
    : ranges_(std::move(ranges)), seed_(seed), cycle_(cycle) {
  DP_CHECK(cycle > 0);
  count_ = uint32_t(ranges_.size());
  if (cycle > 1) join();
}

/// Forms the shards of each stream, which have several ranges.
void ShardMap::join() {
  for (uint32_t i = 0; i < ranges_.size(); ++i) {
    if (ranges_[i].stream >= streams_.size()) streams_.resize(ranges_[i].stream + 1);
    streams_[ranges_[i].stream].ranges.push_back(i);
  }
  count_ = 0;
  for (Stream& stream : streams_) {
    const auto ranges = uint32_t(stream.ranges.size());
    stream.first_shard = count_;
    stream.shards = shares_ > 0 ? std::min(shares_, ranges) : uint32_t(divide_up(ranges, cycle_));
    count_ += stream.shards;
  }
}

/// Returns the first position in the stream's order that its shard `shard` takes.
uint32_t ShardMap::stream_begin(const Stream& stream, uint32_t shard) const {
  const uint64_t ranges = stream.ranges.size();
  return uint32_t(shares_ > 0 ? shard * ranges / stream.shards
                              : std::min<uint64_t>(uint64_t{shard} * cycle_, ranges));
}

namespace {

constexpr uint64_t kPaceOne = 1 << 16;

uint64_t stream_seed(uint64_t seed, size_t stream) {
  return hash_combine(hash_combine(seed, 0x6a6f696eULL), stream);
}

}  // namespace

uint32_t ranges_of(const ShardRecipe& joining) {
  return joining.mix.empty() ? joining.cycle : mix_ranges(joining.mix.size());
}

uint64_t eval_shard_bytes(const ShardRecipe& joining, uint64_t shard_bytes) {
  const uint32_t ranges = ranges_of(joining);
  return std::min(shard_bytes, UINT64_MAX / ranges) * ranges;
}

std::vector<ShardRange> cut_held_out(const std::vector<FileInfo>& files, const ShardRecipe& joining,
                                     uint64_t shard_bytes) {
  const bool counted =
      std::ranges::any_of(files, [](const FileInfo& file) { return !file.records_before.empty(); });
  return cut_shards(files, counted ? shard_bytes : eval_shard_bytes(joining, shard_bytes));
}

ShardMap::ShardMap(std::vector<ShardRange> ranges, uint64_t seed, const ShardRecipe& joining)
    : ShardMap(std::move(ranges), seed, joining.shares > 0 ? 1 : joining.cycle) {
  shares_ = joining.shares;
  if (shares_ > 0) join();
  in_order_ = joining.in_order;
  open_piece_ = joining.open_piece;
  if (open_piece_ > 0) {
    DP_CHECK(in_order_ && cycle_ == 1 && !ranges_.empty());
    count_ = kOpenShardsMax;
  }
  if (!joining.mix.empty() && !ranges_.empty()) mix(joining.mix);
}

/// The arithmetic gives the same numbers in every process: no sum contains a product, because some
/// processors round a fused multiply-add once and others round twice.
void ShardMap::mix(const std::vector<MixPart>& parts) {
  std::vector<double> paces;  // ranges per shard, up to a common factor
  double sum = 0, shards = 1e300;
  uint32_t files = 0, begin = 0;
  for (const MixPart& part : parts) {
    files += part.files;
    uint32_t end = begin;
    double records = 0;
    for (; end < ranges_.size() && ranges_[end].file < files; ++end)
      records += double(ranges_[end].end - ranges_[end].begin) /
                 double(std::max<uint64_t>(part.record_bytes, 1));
    DP_CHECK(end > begin && part.weight > 0, begin, end);
    mix_.push_back({.first_range = begin, .ranges = end - begin});
    paces.push_back(part.weight * double(end - begin) / std::max(records, 1.0));
    sum += paces.back();
    begin = end;
  }
  DP_CHECK(begin == ranges_.size(), begin, ranges_.size());
  const double joined = mix_ranges(mix_.size());
  for (size_t i = 0; i < mix_.size(); ++i)
    shards = std::min(shards, mix_[i].ranges * sum / (paces[i] * joined));
  // below 1 if some part has too few ranges for a single shard
  const double shorter = std::min(shards, 1.0);
  double epoch = 1e300;
  for (size_t i = 0; i < mix_.size(); ++i) {
    mix_[i].pace = std::max<uint64_t>(
        uint64_t(std::llround(paces[i] / sum * joined * shorter * double(kPaceOne))), 1);
    epoch = std::min(epoch, double(mix_[i].ranges) * double(kPaceOne) / double(mix_[i].pace));
  }
  count_ = uint32_t(std::ceil(epoch));
  for (Mixed& part : mix_)
    part.read =
        std::min(part.ranges, uint32_t(std::llround(epoch * double(part.pace) / double(kPaceOne))));
}

/// Returns the first position in the part's order that the shard takes.
uint32_t ShardMap::mixed_begin(const Mixed& part, uint32_t shard) const {
  if (shard == count_) return part.read;
  return std::min(part.read, uint32_t(shard * part.pace / kPaceOne));
}

uint64_t ShardMap::mix_seed(const Mixed& part) const {
  return stream_seed(seed_, part.first_range + size_t{1});
}

const ShardMap::Mixed& ShardMap::mixed_of(uint32_t range) const {
  const auto behind =
      std::upper_bound(mix_.begin(), mix_.end(), range,
                       [](uint32_t r, const Mixed& m) { return r < m.first_range; });
  return *std::prev(behind);
}

uint32_t ShardMap::shard_at(uint32_t epoch, uint32_t place) const {
  return in_order_ ? place : order_at(seed_, epoch, count_, place);
}

uint32_t ShardMap::place_of_shard(uint32_t epoch, uint32_t shard) const {
  return in_order_ ? shard : order_inverse(seed_, epoch, count_, shard);
}

std::optional<size_t> ShardMap::source_without_reads() const {
  const auto at =
      std::find_if(mix_.begin(), mix_.end(), [](const Mixed& part) { return part.read == 0; });
  if (at == mix_.end()) return std::nullopt;
  return size_t(at - mix_.begin());
}

std::vector<uint32_t> ShardMap::unread(uint32_t epoch) const {
  std::vector<uint32_t> indexes;
  for (const Mixed& part : mix_) {
    const Permutation order(mix_seed(part), epoch, part.ranges);
    for (uint32_t i = part.read; i < part.ranges; ++i)
      indexes.push_back(part.first_range + order.forward(i));
  }
  return indexes;
}

std::vector<uint32_t> ShardMap::indexes_at(uint32_t epoch, uint32_t place) const {
  DP_CHECK(place < count_ && open_piece_ == 0, place, count_, open_piece_);
  const uint32_t shard = shard_at(epoch, place);
  if (mixes()) {
    std::vector<uint32_t> indexes;
    for (const Mixed& part : mix_) {
      const Permutation order(mix_seed(part), epoch, part.ranges);
      for (uint32_t i = mixed_begin(part, shard); i < mixed_begin(part, shard + 1); ++i)
        indexes.push_back(part.first_range + order.forward(i));
    }
    return indexes;
  }
  if (!joins()) return {shard};
  const auto behind =
      std::upper_bound(streams_.begin(), streams_.end(), shard,
                       [](uint32_t s, const Stream& t) { return s < t.first_shard; });
  // several streams may begin at this shard; all but the last of them are empty
  const Stream& stream = *std::prev(behind);
  const auto count = uint32_t(stream.ranges.size());
  const Permutation order(stream_seed(seed_, size_t(&stream - streams_.data())), epoch, count);
  const uint32_t number = shard - stream.first_shard;
  std::vector<uint32_t> indexes;
  for (uint32_t i = stream_begin(stream, number); i < stream_begin(stream, number + 1); ++i)
    indexes.push_back(stream.ranges[order.forward(i)]);
  return indexes;
}

std::vector<ShardRange> ShardMap::at(uint32_t epoch, uint32_t place) const {
  if (open_piece_ > 0) {
    DP_CHECK(place < count_, place);
    const uint64_t begin = place * open_piece_;
    return {{.file = ranges_[0].file,
             .begin = begin,
             .end = begin + open_piece_,
             .records_before = begin}};
  }
  std::vector<ShardRange> ranges;
  for (const uint32_t index : indexes_at(epoch, place)) ranges.push_back(ranges_[index]);
  return ranges;
}

uint32_t ShardMap::place_of(uint32_t epoch, uint32_t range) const {
  DP_CHECK(range < ranges_.size(), range);
  if (mixes()) {
    const Mixed& part = mixed_of(range);
    const uint32_t at =
        Permutation(mix_seed(part), epoch, part.ranges).backward(range - part.first_range);
    if (at >= part.read) return count_;
    auto shard = uint32_t(std::min<uint64_t>(uint64_t(at) * kPaceOne / part.pace, count_ - 1));
    while (at < mixed_begin(part, shard)) --shard;
    while (at >= mixed_begin(part, shard + 1)) ++shard;
    return place_of_shard(epoch, shard);
  }
  if (!joins()) return place_of_shard(epoch, range);
  const size_t number = ranges_[range].stream;
  const Stream& stream = streams_[number];
  const auto at = std::lower_bound(stream.ranges.begin(), stream.ranges.end(), range);
  const Permutation order(stream_seed(seed_, number), epoch, uint32_t(stream.ranges.size()));
  const uint32_t place = order.backward(uint32_t(at - stream.ranges.begin()));
  uint32_t shard = shares_ > 0 ? uint32_t(uint64_t{place} * stream.shards / stream.ranges.size())
                               : place / cycle_;
  while (place >= stream_begin(stream, shard + 1)) ++shard;
  return place_of_shard(epoch, stream.first_shard + shard);
}

std::string text_of(const std::vector<ShardRange>& ranges, const std::vector<FileInfo>& files) {
  DP_CHECK(!ranges.empty());
  const ShardRange& first = ranges.front();
  std::string text = str(files[first.file].path, " [", first.begin, ", ", first.end, ")");
  if (ranges.size() > 1)
    text += str(" and ", ranges.size() - 1, " more range", ranges.size() > 2 ? "s" : "");
  return text;
}

uint64_t bytes_of(const std::vector<ShardRange>& ranges) {
  uint64_t bytes = 0;
  for (const ShardRange& range : ranges) bytes += range.end - range.begin;
  return bytes;
}

uint64_t offset_hash(uint32_t file, uint32_t stream, uint64_t offset) {
  return hash_combine(hash_combine(hash_combine(0x706c616365ULL, file), stream), offset);
}

}  // namespace downpour::plan
