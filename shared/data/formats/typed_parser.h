// TypedParser: what the parsers of records share whose values are typed, such as JSON and Examples.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "shared/data/formats/parser.h"
#include "shared/data/values/field_context.h"
#include "shared/data/values/typed_fields.h"

namespace downpour::data {

/// Which fields the current record has.
class SeenFields {
 public:
  explicit SeenFields(size_t fields = 0) : seen_(fields, 0) {}
  void begin_record() {
    ++record_;
    found_ = 0;
  }
  void note(uint32_t field) {
    found_ += seen_[field] != record_;
    seen_[field] = record_;
  }
  /// Returns the number of fields that the record has.
  size_t found() const { return found_; }
  /// Gives the other fields the value of a missing one. Returns false if one may not be missing.
  bool fill_missing(const std::vector<TypedField>& fields, Columns& columns, Fault& fault) const {
    if (found_ == fields.size()) [[likely]]
      return true;
    for (uint32_t i = 0; i < fields.size(); ++i) {
      if (seen_[i] != record_ && !fields[i].read_missing(columns, fault)) return false;
    }
    return true;
  }

 private:
  std::vector<uint64_t> seen_;  // by field, the last record that contained it
  uint64_t record_ = 0;
  size_t found_ = 0;
};

/// A parser with the fields of a batch and those of the filter. `Fields` is made of TypedFields.
template <typename Fields>
class TypedParser : public RecordParser {
 public:
  /// Makes the fields that the context wants. Must be called once, before parse(). Error kConfig
  /// names a field.
  Result<void> set_fields(const FieldContext& context) {
    DP_TRY(FieldSet set, FieldSet::make(context));
    adopt(set);
    DP_TRY(std::vector<TypedField> fields, TypedField::make_all(set));
    fields_ = Fields(std::move(fields));
    DP_TRY(filter_, RecordFilter::make(context.data));
    if (filter_ != nullptr) condition_ = Fields(TypedField::inputs_of(*filter_));
    return {};
  }

 protected:
  Fields fields_, condition_;
};

/// Makes a `Parser`, which is a TypedParser.
template <typename Parser>
Result<std::unique_ptr<RecordParser>> make_typed_parser(const FieldContext& context) {
  auto parser = std::make_unique<Parser>();
  DP_TRY_VOID(parser->set_fields(context));
  return std::unique_ptr<RecordParser>(std::move(parser));
}

}  // namespace downpour::data
