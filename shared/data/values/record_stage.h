// RecordStage: applies the ops that need all values of a record: list ops, random ops and crosses.
// It works on the columns that a parser has filled, so it is the same for every format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/rng.h"
#include "shared/data/values/columns.h"
#include "shared/data/values/fields.h"

namespace downpour::data {

/// The ops of one field that RecordStage applies: the first such op and all ops after it.
class PostParseOps {
 public:
  /// Returns the index of the first such op in the field's transform, or the transform's size if it
  /// has none.
  static size_t begin_of(const FieldSpec& spec);
  explicit PostParseOps(const FieldSpec& spec);
  bool empty() const { return steps_.empty(); }

  /// Applies the ops to a list of numbers. `random` is the random state of the record; 0 disables
  /// random ops.
  void apply(std::vector<float>& list, uint64_t random) const;
  /// Applies the ops to the keys from `begin` on, and to their values.
  void apply(KeyBuffer& keys, size_t begin, uint64_t random) const;

 private:
  struct Step {
    TransformSpec spec;
    NumberOps number;
    uint64_t seed = 0;
  };
  std::vector<Step> steps_;
};

class RecordStage {
 public:
  /// Adds a field that turns the list of numbers in `entry` of Columns::keys into `width` floats of
  /// a column. If the list is empty, `fallback` is its only value.
  void add_list(const FieldSpec& spec, uint32_t entry, uint32_t column, uint32_t width);
  /// Adds a field whose numbers are changed in place in a column.
  void add_floats(const FieldSpec& spec, uint32_t column, uint32_t width);
  void add_keys(const FieldSpec& spec, uint32_t entry);
  /// Adds a cross of the entries in `inputs`. With `bag`, the cross has any number of keys.
  void add_cross(const FieldSpec& spec, uint32_t entry, std::vector<uint32_t> inputs, bool bag);
  bool empty() const { return lists_.empty() && keys_.empty() && crosses_.empty(); }

  /// Applies all ops to one record. Returns false if the record is bad; `fault` describes the
  /// error.
  bool apply(Columns& columns, Fault& fault);

 private:
  struct List {
    std::string name;
    PostParseOps ops;
    bool from_keys = false;  // a list of any length, read from `entry`
    uint32_t entry = 0;
    uint32_t column = 0;
    uint32_t width = 1;
    std::optional<float> fallback;
  };
  struct Keys {
    PostParseOps ops;
    uint32_t entry = 0;
  };
  struct Cross {
    std::string name;
    PostParseOps ops;
    uint64_t name_hash = 0;
    uint64_t buckets = 0;
    uint32_t entry = 0;
    std::vector<uint32_t> inputs;
    bool bag = false;
  };
  bool apply_list(const List& list, Columns& columns, Fault& fault);
  static void apply_keys(const PostParseOps& ops, KeyBuffer& keys, const Columns& columns);
  bool apply_cross(const Cross& cross, Columns& columns, Fault& fault);

  std::vector<List> lists_;
  std::vector<Keys> keys_;
  std::vector<Cross> crosses_;
  std::vector<float> numbers_;
  std::vector<uint64_t> crossed_, longer_;
};

}  // namespace downpour::data
