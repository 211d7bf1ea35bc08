// RecordParser: turns the bytes of one record into the columns of a batch. A column has one value,
// or one list of keys, for each record of the batch.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shared/data/records/window.h"
#include "shared/data/values/field_set.h"
#include "shared/data/values/filter.h"

namespace downpour::data {

/// One record of a shard, which waits to be parsed.
struct QueuedRecord {
  RecordRef ref;        // its position in the window of its range
  uint32_t range = 0;   // index of the range in the shard
  uint64_t offset = 0;  // in its file: a byte offset, or the row number in a file of arrays
};

/// Turns records into columns. Allocates no memory once its buffers have grown to the size of the
/// batches.
class RecordParser {
 public:
  virtual ~RecordParser() = default;
  /// Parses the record [begin, end) and appends its values to `columns`. *end is readable; for text
  /// it is a line break or '\r'. Returns false if the record is bad or the job's filter drops it.
  /// For a bad record `fault` describes the error, and the caller must remove the keys that the
  /// record has already added. For a filtered record fault.reason is null, and no keys are added.
  virtual bool parse(const char* begin, const char* end, uint64_t offset, Columns& columns,
                     Fault& fault) = 0;

  /// Parses consecutive records of a window like parse(), and stops before the first record that it
  /// cannot parse. Requires that all records are whole and of one range. Returns the number of
  /// records that it has parsed; a parser without support for runs returns 0. The caller must pass
  /// the next record to parse(), which reports its fault, and which overwrites anything that this
  /// function wrote for that record or a later one. Adds hash_combine(hash(), offset) of each
  /// parsed record to `hashes`.
  virtual size_t parse_run(std::span<const QueuedRecord> run, Columns& columns, uint64_t& hashes);

  /// Returns true if parse_run() finds records by their offsets alone, and so also takes records of
  /// several ranges of one file.
  virtual bool finds_by_offset() const { return false; }

  /// Applies the ops that need all values of a record: list ops, random ops and crosses
  /// (RecordStage). Must be called after parse() has returned true. Returns false if the record is
  /// bad.
  bool finish(Columns& columns, Fault& fault) {
    return stage_ == nullptr || stage_->apply(columns, fault);
  }
  /// Returns true if finish() has ops to apply.
  bool finishes() const { return stage_ != nullptr; }
  /// Applies the ops that are deferred until a batch is full, because they work on whole columns.
  /// Must be called after the last record of a batch.
  void finish_batch(std::vector<FloatColumn>& floats, std::vector<KeyBuffer>& keys,
                    uint32_t records) const {
    for (const auto& each : deferred_.floats) {
      FloatColumn& column = floats[each.column];
      each.ops.apply_to_all({column.values.data(), size_t(records) * column.width});
    }
    for (const auto& each : deferred_.keys) {
      KeyBuffer& buffer = keys[each.entry];
      each.hash.apply_to_all({buffer.keys.data(), buffer.count});
    }
  }

  /// Prefetches the memory that parse() will read.
  virtual void prefetch(const char* begin, size_t size) const;
  /// Returns a hash of the record's bytes, or of enough of them to distinguish it from other
  /// records.
  virtual uint64_t hash(const char* begin, const char* end) const;

  /// Returns, for each bag of the layout, the index into Columns::keys of the keys that it gets. A
  /// bag (BagInput) is an input of the model that receives a list of keys for each record. A field
  /// that two bags use is parsed only once, so both bags have the same index.
  const std::vector<uint32_t>& key_of_bag() const { return key_of_bag_; }
  /// Returns the shape of each entry of Columns::keys. An entry whose keys are only the input of
  /// another field, such as a cross, belongs to no bag.
  const std::vector<KeyShape>& key_shapes() const { return key_shapes_; }
  void set_filter(std::unique_ptr<RecordFilter> filter) { filter_ = std::move(filter); }

 protected:
  /// Takes the key shapes, the stage and the deferred ops of `set`. A parser calls it if it reads
  /// the fields of `set`.
  void adopt(FieldSet& set) {
    key_of_bag_ = std::move(set.key_of_bag);
    key_shapes_ = std::move(set.key_shapes);
    stage_ = std::move(set.stage);
    deferred_ = std::move(set.deferred);
  }

  /// Takes the key shapes, the stage and the deferred ops of `other`. A parser calls it if it wraps
  /// `other` and yields the same columns. From then on, finish() of this parser applies the stage,
  /// and finish() of `other` does nothing.
  void stand_for(RecordParser& other) {
    key_of_bag_ = other.key_of_bag_;
    key_shapes_ = other.key_shapes_;
    stage_ = std::move(other.stage_);
    deferred_ = other.deferred_;
  }

  std::unique_ptr<RecordFilter> filter_;  // null: no filter

 private:
  std::vector<uint32_t> key_of_bag_;
  std::vector<KeyShape> key_shapes_;
  std::unique_ptr<RecordStage> stage_;  // null: finish() has no ops
  FieldSet::Deferred deferred_;
};

/// The records of one range of a shard, and their parser.
struct ShardRecords {
  std::unique_ptr<WindowSource> source;
  std::unique_ptr<RecordParser> parser;
  bool kept = false;  // a cache supplies the records; nothing is read
};

}  // namespace downpour::data
