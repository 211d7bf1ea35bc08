// FieldSet: what a parser is to read of a record for a model's layout: each field once, with the
// fields that others are made of, and the stage that makes them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/fields.h"
#include "shared/data/record_stage.h"

namespace downpour::data {

/// An entry of Columns::keys: whether it has any number of keys a record (else one), and whether
/// values go with them.
struct KeyShape {
  bool bag = false;
  bool values = false;
};

struct FieldSet {
  struct Floats {
    FieldSpec spec;
    FloatField field;
    uint32_t column = 0;  // of Columns::floats
  };
  struct Keys {
    FieldSpec spec;
    KeyField field;
    uint32_t entry = 0;  // of Columns::keys
  };
  /// What is left to do with whole columns when their batch is full.
  struct Deferred {
    struct Floats {
      uint32_t column = 0;
      NumberOps ops;
    };
    struct Keys {
      uint32_t entry = 0;
      KeyHash hash;
    };
    std::vector<Floats> floats;
    std::vector<Keys> keys;
  };
  std::vector<Floats> floats;
  std::vector<Keys> keys;
  Deferred deferred;
  std::vector<uint32_t> key_of_bag;  // the entry that feeds each bag of the layout
  std::vector<KeyShape> key_shapes;
  std::unique_ptr<RecordStage> stage;  // null: nothing is left to do

  /// A field by its name, as the format wants it: `width` floats; 0: keys.
  using Resolve = std::function<Result<FieldSpec>(const std::string& name, uint32_t width)>;
  /// Errors: kConfig naming the field; those of `resolve`.
  static Result<FieldSet> make(const ReadPlan& plan, const Resolve& resolve);
  /// With the fields as the job or the format declares them.
  static Result<FieldSet> make(const ReadPlan& plan);
};

}  // namespace downpour::data
