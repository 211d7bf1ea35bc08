// RecordParser: turns the bytes of one record into the columns of a batch.
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

/// One record of a shard.
struct QueuedRecord {
  RecordRef ref;
  uint32_t range = 0;   // index of the range in the shard
  uint64_t offset = 0;  // in its file, in bytes
};

/// Turns records into columns. Allocates no memory once its buffers have grown.
class RecordParser {
 public:
  virtual ~RecordParser() = default;
  /// Parses the record [begin, end). *end is readable; for text it is a line break or '\r'. Returns
  /// false if the record is bad or the job's filter drops it. For a bad record `fault` describes
  /// the error, and the caller must cut off the keys that the record has already added. For a
  /// filtered record fault.reason is null, and no keys are added.
  virtual bool parse(const char* begin, const char* end, uint64_t offset, Columns& columns,
                     Fault& fault) = 0;

  /// Parses consecutive records of a window like parse(). All of them are whole and of one range.
  /// Returns the number of records parsed. The caller passes the next record to parse(), which
  /// overwrites anything that this function wrote for that record or a later one. Adds
  /// hash_combine(hash(), offset) of each parsed record to `hashes`.
  virtual size_t parse_run(std::span<const QueuedRecord> run, Columns& columns, uint64_t& hashes);

  /// Applies the ops that need several values of a record. Called after parse() has returned true.
  /// Returns false if the record is bad.
  bool finish(Columns& columns, Fault& fault) {
    return stage_ == nullptr || stage_->apply(columns, fault);
  }
  bool finishes() const { return stage_ != nullptr; }
  /// Applies the ops that work on whole columns. Called after the last record of a batch.
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

  /// Returns the entry of Columns::keys that feeds each bag of the layout. A field that two bags
  /// use is read only once.
  const std::vector<uint32_t>& key_of_bag() const { return key_of_bag_; }
  /// Returns the shape of each entry. Entries that only feed other fields have no bag.
  const std::vector<KeyShape>& key_shapes() const { return key_shapes_; }
  void set_filter(std::unique_ptr<RecordFilter> filter) { filter_ = std::move(filter); }

 protected:
  /// Takes the key shapes, the stage and the deferred ops of `set`. For a parser that reads these
  /// fields.
  void adopt(FieldSet& set) {
    key_of_bag_ = std::move(set.key_of_bag);
    key_shapes_ = std::move(set.key_shapes);
    stage_ = std::move(set.stage);
    deferred_ = std::move(set.deferred);
  }

  /// Takes the key shapes, the stage and the deferred ops of `other`. For a parser that yields the
  /// same columns as `other` and replaces it in finish().
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
  std::unique_ptr<RecordStage> stage_;  // null: no such ops
  FieldSet::Deferred deferred_;
};

/// The records of a shard, and the parser for them.
struct ShardRecords {
  std::unique_ptr<WindowSource> source;
  std::unique_ptr<RecordParser> parser;
  bool kept = false;  // a cache supplies the records; nothing is read
};

}  // namespace downpour::data
