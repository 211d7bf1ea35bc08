#include "shared/data/values/typed_fields.h"

#include <charconv>

namespace downpour::data {
namespace {

constexpr const char* kFixField =
    "correct the field's type or shape, or set data.bad_records = \"skip\"";

/// Returns the reason why a field of this type rejects an integer, a string, or (neither) a float.
const char* mismatch(FieldType type, bool integer, bool string) {
  switch (type) {
    case FieldType::kFloat32:
      return string ? "is a string, but the field is declared float32"
                    : "is a number that a float32 field does not accept";
    case FieldType::kInt64:
      return string ? "is a string, but the field is declared int64"
                    : "is not an integer, but the field is declared int64";
    case FieldType::kString:
      return integer ? "is an integer, but the field is declared string"
                     : "is a float, but the field is declared string";
  }
  return "";
}

}  // namespace

Result<std::vector<TypedField>> TypedField::make_all(FieldSet& set) {
  std::vector<TypedField> fields;
  for (FieldSet::Floats& floats : set.floats) {
    TypedField& field = fields.emplace_back();
    field.spec_ = std::move(floats.spec);
    field.width_ = floats.field.width();
    field.floats_ = std::move(floats.field);
    field.column_ = floats.column;
  }
  for (FieldSet::Keys& keys : set.keys) {
    TypedField& field = fields.emplace_back();
    field.spec_ = std::move(keys.spec);
    field.keys_ = std::move(keys.field);
    if (field.is_bag() && field.type() == FieldType::kFloat32 && !field.keys_->takes_numbers()) {
      return Error{ErrorCode::kConfig,
                   str("field ", field.name(),
                       ": a list of floats without a fixed length can't be used as keys"),
                   str("data.fields.", field.name()),
                   "set type = \"int64\" or \"string\" for keys, or a fixed shape for numbers"};
    }
    if (field.is_bag()) field.width_ = UINT32_MAX;
    field.kind_ = field.keys_->is_bag()      ? Kind::kBag
                  : field.keys_->is_number() ? Kind::kNumberKey
                                             : Kind::kKey;
    field.column_ = keys.entry;
  }
  for (TypedField& field : fields) field.only_ = field.only();
  return fields;
}

TypedField::Only TypedField::only() const {
  if (encoded() || width_ != 1) return Only::kNothing;
  if (kind_ == Kind::kFloat && floats_->is_plain() && type() != FieldType::kString)
    return type() == FieldType::kFloat32 ? Only::kFloat : Only::kInteger;
  if (kind_ == Kind::kKey && type() == FieldType::kInt64 && keys_->is_plain()) return Only::kKey;
  return kind_ == Kind::kKey && keys_->hashes_text() ? Only::kText : Only::kNothing;
}

std::vector<TypedField> TypedField::inputs_of(RecordFilter& filter) {
  std::vector<TypedField> fields;
  for (const FieldSpec& spec : filter.inputs()) {
    TypedField& field = fields.emplace_back();
    field.spec_ = spec;
    // A label with `positive` is compared as text.
    if (spec.is_label()) field.spec_.type = FieldType::kString;
    field.kind_ = Kind::kFilter;
    field.column_ = uint32_t(fields.size() - 1);
    field.filter_ = &filter;
  }
  return fields;
}

Result<std::optional<uint64_t>> TypedField::first_element() const {
  const std::string& text = spec_.column;
  uint64_t first = 0;
  if (text.empty()) return std::optional<uint64_t>();
  const auto end = std::from_chars(text.data(), text.data() + text.size(), first);
  if (end.ec == std::errc{} && end.ptr == text.data() + text.size() && kind_ != Kind::kBag)
    return std::optional<uint64_t>(first);
  return Error{
      ErrorCode::kConfig,
      str("field ", name(), ": `column` = \"", text, "\" is not an index into a row of values"),
      str("data.fields.", name()),
      "use the index of the field's first element: column = \"3\" starts at the fourth element"};
}

bool TypedField::read_missing(Columns& columns, Fault& fault) const {
  FieldWriter writer = begin(columns);
  switch (kind_) {
    case Kind::kFloat:
      return floats_->convert_missing(writer.to_, fault);
    case Kind::kBag:
      ++writer.count_;
      return keys_->append({}, *writer.keys_, fault) && writer.finish(fault);
    case Kind::kFilter:
      filter_->set_missing(column_);
      return true;
    case Kind::kKey:
      ++writer.count_;
      return keys_->convert({}, writer.keys_->keys[columns.record], fault) && writer.finish(fault);
    case Kind::kNumberKey: {
      ++writer.count_;
      float& value = writer.keys_->values[columns.record];
      if (!keys_->convert_number({}, writer.keys_->keys[columns.record], value, fault))
        return false;
      writer.keys_->all_one &= value == 1.0F;
      return writer.finish(fault);
    }
  }
  return false;
}

bool FieldWriter::refuse(Found found, std::string value, Fault& fault) const {
  if (count_ >= field_.width_) return wrong_count(fault);
  fault = {.reason = mismatch(field_.spec_.type, found == Found::kInteger, found == Found::kString),
           .field = &field_.name(),
           .made = std::move(value),
           .hint = kFixField};
  return false;
}

bool FieldWriter::wrong_count(Fault& fault) const {
  fault = {.reason = count_ >= field_.width_ ? "has more values than the declared shape"
                                             : "has fewer values than the declared shape",
           .field = &field_.name(),
           .hint = kFixField};
  return false;
}

}  // namespace downpour::data
