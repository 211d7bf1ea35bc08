#include "shared/wire/batch_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "shared/base/str.h"

namespace downpour::wire {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kBatchMagic = 0x31425044;  // "DPB1"
constexpr uint32_t kQuarantinedFlag = 1;      // in Head::flags
constexpr uint32_t kBagHasOffsets = 1;        // in BagHead::flags
constexpr uint32_t kBagHasValues = 2;
constexpr uint64_t kNarrowKeys = 65536;  // tables of at most this size are indexed by 16 bits

struct Head {
  uint32_t magic = kBatchMagic;
  uint32_t flags = 0;
  uint32_t epoch = 0, shard = 0, batch = 0, records = 0;
  uint64_t records_hash = 0;
  uint64_t read = 0, filtered = 0, skipped = 0, dropped = 0, quarantined = 0;
  uint64_t end_offset = 0, first_record = 0, last_record = 0;
  uint32_t floats = 0, bags = 0, tables = 0, zero = 0;
};
static_assert(sizeof(Head) == 24 + 9 * 8 + 16);

struct BagHead {
  uint32_t table_index = 0, flags = 0, keys = 0;
};
struct TableHead {
  uint32_t table = 0, keys = 0;
};

Error malformed_batch(const char* what) {
  return {.code = ErrorCode::kMalformed, .what = str("batch: ", what)};
}

uint64_t filled_up(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

bool is_narrow(const Batch& batch, const BagColumn& bag) {
  return batch.tables[bag.table_index].keys.size() <= kNarrowKeys;
}

uint64_t bytes_of(const Batch& batch) {
  uint64_t bytes = sizeof(Head);
  for (const FloatColumn& column : batch.floats)
    bytes += sizeof(uint32_t) + column.values.size() * sizeof(float);
  for (const BagColumn& bag : batch.bags) {
    bytes += sizeof(BagHead) + (bag.offsets.size() + bag.values.size()) * sizeof(uint32_t);
    bytes += filled_up(bag.keys.size() * (is_narrow(batch, bag) ? 2 : 4));
  }
  for (const TableKeys& table : batch.tables)
    bytes += sizeof(TableHead) + table.keys.size() * sizeof(uint64_t);
  return bytes;
}

/// Appends values to memory that must have room for all of them.
class Writer {
 public:
  explicit Writer(uint8_t* at) : at_(at) {}
  template <typename T>
  void put(const T& value) {
    std::memcpy(at_, &value, sizeof(T));
    at_ += sizeof(T);
  }
  template <typename T>
  void put_all(const std::vector<T>& values) {
    if (values.empty()) return;
    std::memcpy(at_, values.data(), values.size() * sizeof(T));
    at_ += values.size() * sizeof(T);
  }
  void put_narrow(const std::vector<uint32_t>& values) {
    for (const uint32_t value : values) put(uint16_t(value));
    if (values.size() % 2 != 0) put(uint16_t{0});
  }
  const uint8_t* end() const { return at_; }

 private:
  uint8_t* at_;
};

/// Takes values one after the other. Returns false if too few bytes are left.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : left_(bytes) {}
  template <typename T>
  bool take(T& value) {
    if (left_.size() < sizeof(T)) return false;
    std::memcpy(&value, left_.data(), sizeof(T));
    left_ = left_.subspan(sizeof(T));
    return true;
  }
  template <typename T>
  bool take_all(uint64_t count, std::vector<T>& values) {
    if (count > left_.size() / sizeof(T)) return false;
    values.resize(count);
    if (count > 0) std::memcpy(values.data(), left_.data(), count * sizeof(T));
    left_ = left_.subspan(count * sizeof(T));
    return true;
  }
  bool take_narrow(uint64_t count, std::vector<uint32_t>& values) {
    if (count > left_.size() / sizeof(uint16_t)) return false;
    if (filled_up(count * sizeof(uint16_t)) > left_.size()) return false;
    values.resize(count);
    for (uint64_t i = 0; i < count; ++i) {
      uint16_t value = 0;
      std::memcpy(&value, left_.data() + i * sizeof(value), sizeof(value));
      values[i] = value;
    }
    left_ = left_.subspan(filled_up(count * sizeof(uint16_t)));
    return true;
  }
  bool empty() const { return left_.empty(); }

 private:
  std::span<const uint8_t> left_;
};

/// The number of keys of each bag and table, read before any key.
struct Shape {
  std::vector<BagHead> bags;
  std::vector<TableHead> tables;
};

Result<void> read_shape(Reader& in, const Head& head, Batch& batch, Shape& shape) {
  if (head.floats > kBatchColumnsMax || head.bags > kBatchColumnsMax ||
      head.tables > kBatchColumnsMax) {
    return malformed_batch("too many columns");
  }
  // Descriptions are read one by one, so that a count alone allocates nothing.
  batch.floats.resize(std::min<size_t>(batch.floats.size(), head.floats));
  for (uint32_t i = 0; i < head.floats; ++i) {
    uint32_t width = 0;
    if (!in.take(width)) return malformed_batch("truncated in its columns");
    if (i == batch.floats.size()) batch.floats.emplace_back();
    batch.floats[i].width = width;
  }
  for (uint32_t i = 0; i < head.bags; ++i) {
    if (!in.take(shape.bags.emplace_back())) return malformed_batch("truncated in its bags");
    const BagHead& bag = shape.bags.back();
    if ((bag.flags & ~(kBagHasOffsets | kBagHasValues)) != 0)
      return malformed_batch("unknown flags of a bag");
    if (bag.table_index >= head.tables) return malformed_batch("a bag of an unknown table");
    if ((bag.flags & kBagHasOffsets) == 0 && bag.keys != head.records)
      return malformed_batch("a bag without offsets does not have one key per record");
  }
  for (uint32_t i = 0; i < head.tables; ++i) {
    if (!in.take(shape.tables.emplace_back())) return malformed_batch("truncated in its tables");
  }
  return {};
}

Result<void> read_bag(Reader& in, const BagHead& head, const TableHead& table, uint32_t records,
                      BagColumn& bag) {
  bag.table_index = head.table_index;
  bag.offsets.clear();
  bag.values.clear();
  const bool has_offsets = (head.flags & kBagHasOffsets) != 0;
  if (has_offsets && !in.take_all(uint64_t{records} + 1, bag.offsets))
    return malformed_batch("truncated in offsets");
  if (!(table.keys <= kNarrowKeys ? in.take_narrow(head.keys, bag.keys)
                                  : in.take_all(head.keys, bag.keys))) {
    return malformed_batch("truncated in keys");
  }
  if ((head.flags & kBagHasValues) != 0 && !in.take_all(head.keys, bag.values))
    return malformed_batch("truncated in values");
  if (has_offsets && (bag.offsets.front() != 0 || bag.offsets.back() != head.keys ||
                      !std::is_sorted(bag.offsets.begin(), bag.offsets.end()))) {
    return malformed_batch("offsets are out of order");
  }
  const auto outside = [&](uint32_t key) { return key >= table.keys; };
  if (std::any_of(bag.keys.begin(), bag.keys.end(), outside))
    return malformed_batch("a key is outside its table");
  return {};
}

Result<void> read_columns(Reader& in, const Shape& shape, Batch& batch) {
  for (FloatColumn& column : batch.floats) {
    if (!in.take_all(uint64_t{column.width} * batch.records, column.values))
      return malformed_batch("truncated in numbers");
  }
  batch.bags.resize(shape.bags.size());
  for (size_t i = 0; i < shape.bags.size(); ++i) {
    const BagHead& bag = shape.bags[i];
    DP_TRY_VOID(read_bag(in, bag, shape.tables[bag.table_index], batch.records, batch.bags[i]));
  }
  batch.tables.resize(shape.tables.size());
  for (size_t i = 0; i < shape.tables.size(); ++i) {
    batch.tables[i].table = TableId(shape.tables[i].table);
    if (!in.take_all(shape.tables[i].keys, batch.tables[i].keys))
      return malformed_batch("truncated in the keys of a table");
  }
  return {};
}

}  // namespace

Result<Bytes> encode_batch(const Batch& batch) {
  if (batch.quarantined && !(batch.floats.empty() && batch.bags.empty() && batch.tables.empty())) {
    // the columns of a quarantined batch are left over from an earlier batch
    return encode_batch({.id = batch.id,
                         .records_hash = batch.records_hash,
                         .counts = batch.counts,
                         .end_offset = batch.end_offset,
                         .first_record = batch.first_record,
                         .last_record = batch.last_record,
                         .quarantined = true});
  }
  const uint64_t bytes = bytes_of(batch);
  if (bytes > kBatchBytesMax) {
    return Error{.code = ErrorCode::kUnsupported,
                 .what = str("a batch of ", bytes, " bytes is too large to be sent (",
                             kBatchBytesMax, " at most)"),
                 .hint =
                     "lower train.batch_size (in local training train.sync_every), or set "
                     "cluster.input_workers = 0"};
  }
  std::vector<uint8_t> out(bytes);
  Writer writer(out.data());
  writer.put(Head{.flags = batch.quarantined ? kQuarantinedFlag : 0,
                  .epoch = batch.id.epoch,
                  .shard = batch.id.shard,
                  .batch = batch.id.batch,
                  .records = batch.records,
                  .records_hash = batch.records_hash,
                  .read = batch.counts.read,
                  .filtered = batch.counts.filtered,
                  .skipped = batch.counts.skipped,
                  .dropped = batch.counts.dropped,
                  .quarantined = batch.counts.quarantined,
                  .end_offset = batch.end_offset,
                  .first_record = batch.first_record,
                  .last_record = batch.last_record,
                  .floats = uint32_t(batch.floats.size()),
                  .bags = uint32_t(batch.bags.size()),
                  .tables = uint32_t(batch.tables.size())});
  for (const FloatColumn& column : batch.floats) {
    DP_CHECK(column.values.size() == uint64_t{column.width} * batch.records);
    writer.put(column.width);
  }
  for (const BagColumn& bag : batch.bags) {
    writer.put(BagHead{
        bag.table_index,
        (bag.offsets.empty() ? 0 : kBagHasOffsets) | (bag.values.empty() ? 0 : kBagHasValues),
        uint32_t(bag.keys.size())});
  }
  for (const TableKeys& table : batch.tables)
    writer.put(TableHead{raw(table.table), uint32_t(table.keys.size())});
  for (const FloatColumn& column : batch.floats) writer.put_all(column.values);
  for (const BagColumn& bag : batch.bags) {
    writer.put_all(bag.offsets);
    if (is_narrow(batch, bag)) {
      writer.put_narrow(bag.keys);
    } else {
      writer.put_all(bag.keys);
    }
    writer.put_all(bag.values);
  }
  for (const TableKeys& table : batch.tables) writer.put_all(table.keys);
  DP_CHECK(writer.end() == out.data() + out.size());
  return Bytes::of(std::move(out));
}

std::vector<Bytes> cut_batch(const Bytes& batch) {
  std::vector<Bytes> pieces;
  for (size_t at = 0; at < batch.size(); at += kFrameBytesMax)
    pieces.push_back(batch.slice(at, std::min<size_t>(kFrameBytesMax, batch.size() - at)));
  return pieces;
}

Result<void> decode_batch(std::span<const uint8_t> bytes, Batch& batch) {
  if (bytes.size() > kBatchBytesMax) return malformed_batch("too long");
  Reader in(bytes);
  Head head;
  if (!in.take(head)) return malformed_batch("too short");
  if (head.magic != kBatchMagic) return malformed_batch("wrong magic number");
  if ((head.flags & ~kQuarantinedFlag) != 0 || head.zero != 0)
    return malformed_batch("unknown flags");
  batch.quarantined = (head.flags & kQuarantinedFlag) != 0;
  if (batch.quarantined && head.records != 0)
    return malformed_batch("a quarantined batch with records");
  batch.id = {head.epoch, head.shard, head.batch};
  batch.records = head.records;
  batch.records_hash = head.records_hash;
  batch.counts = {.read = head.read,
                  .filtered = head.filtered,
                  .skipped = head.skipped,
                  .dropped = head.dropped,
                  .quarantined = head.quarantined};
  batch.end_offset = head.end_offset;
  batch.first_record = head.first_record;
  batch.last_record = head.last_record;
  Shape shape;
  DP_TRY_VOID(read_shape(in, head, batch, shape));
  DP_TRY_VOID(read_columns(in, shape, batch));
  if (!in.empty()) return malformed_batch("bytes after its end");
  return {};
}

}  // namespace downpour::wire
