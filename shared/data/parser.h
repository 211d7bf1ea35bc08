// RecordParser: one record's bytes into the columns of the batch being made.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shared/data/field_set.h"
#include "shared/data/filter.h"
#include "shared/data/window.h"

namespace downpour::data {

/// A record of a shard.
struct QueuedRecord {
  RecordRef ref;
  uint32_t range = 0;   // of the shard's
  uint64_t offset = 0;  // in its file
};

/// Turns a record into columns. Allocates nothing once its buffers have grown.
class RecordParser {
 public:
  virtual ~RecordParser() = default;
  /// [begin, end) is the record; *end is readable, a line break or '\r' for text. False: a bad
  /// record, told in `fault`; keys that it left behind are the caller's to cut off. Or one that the
  /// job's filter drops: then fault.reason is null, and no partial file is left.
  virtual bool parse(const char* begin, const char* end, uint64_t offset, Columns& columns,
                     Fault& fault) = 0;

  /// Takes records of a window in a row, whole ones of one range, as parse() takes each. How many
  /// were taken: the next one is parse()'s, which writes over what this one or those behind it
  /// left. To `hashes` is added, of each that was taken, hash_combine(hash(), its offset).
  virtual size_t parse_run(std::span<const QueuedRecord> run, Columns& columns, uint64_t& hashes);

  /// After a record that parse() took: what its fields need of each other. False: a bad record.
  bool finish(Columns& columns, Fault& fault) {
    return stage_ == nullptr || stage_->apply(columns, fault);
  }
  bool finishes() const { return stage_ != nullptr; }
  /// After the last record of a batch: what is done with whole columns.
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

  /// Asks for the memory that parse() will look at.
  virtual void prefetch(const char* begin, size_t size) const;
  /// Of the record's bytes, or of enough of them to tell it from others.
  virtual uint64_t hash(const char* begin, const char* end) const;

  /// Which entry of Columns::keys feeds each bag of the layout. A field used by two bags is read
  /// once.
  const std::vector<uint32_t>& key_of_bag() const { return key_of_bag_; }
  /// Of each entry. There may be more than the bags want: what other fields are made of.
  const std::vector<KeyShape>& key_shapes() const { return key_shapes_; }
  void set_filter(std::unique_ptr<RecordFilter> filter) { filter_ = std::move(filter); }

 protected:
  /// For a parser that reads the fields of `set`.
  void adopt(FieldSet& set) {
    key_of_bag_ = std::move(set.key_of_bag);
    key_shapes_ = std::move(set.key_shapes);
    stage_ = std::move(set.stage);
    deferred_ = std::move(set.deferred);
  }

  /// For a parser that gives what `other` would, whose part finish() is.
  void stand_for(RecordParser& other) {
    key_of_bag_ = other.key_of_bag_;
    key_shapes_ = other.key_shapes_;
    stage_ = std::move(other.stage_);
    deferred_ = other.deferred_;
  }

  std::unique_ptr<RecordFilter> filter_;  // null: none

 private:
  std::vector<uint32_t> key_of_bag_;
  std::vector<KeyShape> key_shapes_;
  std::unique_ptr<RecordStage> stage_;  // null: none
  FieldSet::Deferred deferred_;
};

/// A shard's records, and what makes columns of them.
struct ShardRecords {
  std::unique_ptr<WindowSource> source;
  std::unique_ptr<RecordParser> parser;
  bool kept = false;  // by a cache: nothing is read
};

/// The field as the job or the format declares it. Error kConfig naming it, with what there is.
Result<FieldSpec> resolve_field(const ReadPlan& plan, const std::string& name);
const TargetRule* find_target(const ReadPlan& plan, const std::string& name);

Result<std::unique_ptr<RecordParser>> make_libsvm_parser(const ReadPlan& plan);
/// `columns`: names in the file's order.
Result<std::unique_ptr<RecordParser>> make_csv_parser(const ReadPlan& plan,
                                                      const std::vector<std::string>& columns,
                                                      const std::string& where);

/// Records that are a serialized tf.train.Example; each field is one of its features.
Result<std::unique_ptr<RecordParser>> make_example_parser(const ReadPlan& plan);
/// Records that are a serialized tensor; a field is all of it, or the elements from `column` on.
Result<std::unique_ptr<RecordParser>> make_tensor_parser(const ReadPlan& plan);

/// Lines that are JSON objects; each field is a member, "a.b" a member's member.
Result<std::unique_ptr<RecordParser>> make_json_parser(const ReadPlan& plan);

/// The columns of a table's file: as declared, the format's own, or those of its header.
Result<std::vector<std::string>> columns_of(const DataSpec& data, const std::string& path);
/// What a column is called that a header, or nothing, names; `index` counts from 0.
inline std::string unnamed_column(size_t index) { return str("c", index + 1); }
/// The delimiter of a CSV, TSV or criteo file. Error kConfig if the job's is none.
Result<char> delimiter_of(const DataSpec& data);
/// Cuts a line at `delimiter`; with `quotes` RFC 4180's rules hold, and texts with doubled quotes
/// lie in `store`. False: an open quote or text behind a closing one. More than cells.size() cells
/// are counted, not kept.
bool split_line(std::string_view line, char delimiter, bool quotes,
                std::vector<std::string_view>& cells, size_t& count, std::string& store);

}  // namespace downpour::data
