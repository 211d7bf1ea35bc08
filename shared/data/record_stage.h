// RecordStage: the ops that want a record's values together: those for lists, random ones, and
// crosses. The same for every format: it works on the columns that a parser has filled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/rng.h"
#include "shared/data/columns.h"
#include "shared/data/fields.h"

namespace downpour::data {

/// The ops of one field from the first on that RecordStage does.
class PostParseOps {
 public:
  /// Where such ops begin in a transform; its size: nowhere.
  static size_t begin_of(const FieldSpec& spec);
  explicit PostParseOps(const FieldSpec& spec);
  bool empty() const { return steps_.empty(); }

  /// Numbers, and what becomes of them. `random` is the record's; 0: random ops do nothing.
  void apply(std::vector<float>& list, uint64_t random) const;
  /// The keys from `begin` on, with their values.
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
  /// A list of numbers in entry `entry` of Columns::keys becomes `width` floats of a column. An
  /// empty list whose ops do not fill it reads as `fallback`.
  void add_list(const FieldSpec& spec, uint32_t entry, uint32_t column, uint32_t width);
  /// Numbers of a column, in place.
  void add_floats(const FieldSpec& spec, uint32_t column, uint32_t width);
  void add_keys(const FieldSpec& spec, uint32_t entry);
  /// `inputs` are entries too; `bag`: the cross has any number of keys.
  void add_cross(const FieldSpec& spec, uint32_t entry, std::vector<uint32_t> inputs, bool bag);
  bool empty() const { return lists_.empty() && keys_.empty() && crosses_.empty(); }

  /// False: a bad record, told in `fault`.
  bool apply(Columns& columns, Fault& fault);

 private:
  struct List {
    std::string name;
    PostParseOps ops;
    bool from_keys = false;  // a list of any length, from entry `entry`
    uint32_t entry = 0;
    uint32_t column = 0;
    uint32_t width = 1;
    float fallback = 0;
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
