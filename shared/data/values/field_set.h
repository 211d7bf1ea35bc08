// FieldSet: the fields that a parser reads for a model's layout, each once. It includes the fields
// that others are made of, and the stage that makes those.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/values/fields.h"
#include "shared/data/values/record_stage.h"

namespace downpour::data {

/// The form of an entry of Columns::keys: whether a record has any number of keys (else one), and
/// whether each key has a value.
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
  /// The steps that are applied to whole columns when a batch is full.
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
  std::unique_ptr<RecordStage> stage;  // null: there are no such ops

  /// Returns the field with this name as the format reads it: as `width` floats, or for width 0 as
  /// keys.
  using Resolve = std::function<Result<FieldSpec>(const std::string& name, uint32_t width)>;
  /// Makes the field set of a plan's layout. Errors: kConfig naming the field; those of `resolve`.
  static Result<FieldSet> make(const FieldContext& context, const Resolve& resolve);
  /// Makes it with the fields as the job or the format declares them.
  static Result<FieldSet> make(const FieldContext& context);
};

}  // namespace downpour::data
