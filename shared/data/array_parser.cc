#include "shared/data/array_parser.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "shared/base/hash.h"
#include "shared/data/array_elements.h"
#include "shared/data/typed_fields.h"
#include "shared/data/xxh3.h"

namespace downpour::data {
namespace {

constexpr size_t kHashedBytes = 256;  // of each array's row
constexpr size_t kLinesAhead = 8;     // cache lines prefetched of each array's row

/// A field and the stretch of an array's row that it reads.
struct RowField {
  TypedField field;
  uint32_t array = 0;
  size_t first_byte = 0;
  size_t count = 0;
  NpyType type;
};

/// Elements into a field one by one.
bool take_elements(const RowField& wanted, const char* from, Columns& columns, Fault& fault) {
  FieldWriter writer = wanted.field.begin(columns);
  const bool good = visit_npy_type(wanted.type, [&]<typename T, bool kSwap>() {
    for (size_t i = 0; i < wanted.count; ++i) {
      if constexpr (std::is_same_v<T, uint64_t>) {
        const auto value = load_element<T, kSwap>(from + i * sizeof(T));
        if (value > uint64_t(INT64_MAX)) {
          fault = {.reason = "is above the largest int64",
                   .field = &wanted.field.name(),
                   .made = str(value),
                   .hint = "set data.bad_records = \"skip\", or save it as another type"};
          return false;
        }
      }
      if (!writer.take(element_value<T, kSwap>(from + i * sizeof(T)), fault)) return false;
    }
    return true;
  });
  return good && writer.finish(fault);
}

/// A label, most often. False: take_elements() takes it, or says why not.
bool take_one(const FloatField& field, const RowField& wanted, const char* from, Columns& columns) {
  float* const to = &(*columns.floats)[wanted.field.column()].values[columns.record];
  return visit_npy_type(wanted.type, [&]<typename T, bool kSwap>() {
    if constexpr (sizeof(T) <= sizeof(float)) {
      Fault ignored;
      const auto value = float(element_value<T, kSwap>(from));
      return std::isfinite(value) && field.convert_number(value, {}, to, ignored);
    } else {
      return false;
    }
  });
}

class ArrayParser final : public RecordParser {
 public:
  explicit ArrayParser(std::shared_ptr<const RowBlocks> blocks) : blocks_(std::move(blocks)) {}

  /// The fields of the layout, and those that the filter asks for.
  Result<std::vector<TypedField>> make_fields(const ReadPlan& plan) {
    DP_TRY(filter_, RecordFilter::make(plan.data));
    DP_TRY(FieldSet set, FieldSet::make(plan));
    adopt(set);
    DP_TRY(std::vector<TypedField> fields, TypedField::make_all(set));
    if (filter_ != nullptr) {
      for (TypedField& input : TypedField::inputs_of(*filter_)) fields.push_back(std::move(input));
    }
    return fields;
  }
  void add(RowField field) {
    (field.field.is_filter() ? condition_ : fields_).push_back(std::move(field));
  }
  /// Of a target, whose array is not there.
  void add_absent(TypedField field) { absent_.push_back(std::move(field)); }

  bool parse(const char* begin, const char*, uint64_t, Columns& columns, Fault& fault) override {
    const size_t row = size_t(begin - blocks_->text);
    const auto place_of = [&](const RowField& wanted) {
      return row_of(wanted.array, row) + wanted.first_byte;
    };
    for (const RowField& input : condition_) {
      if (!take_elements(input, place_of(input), columns, fault)) return false;
    }
    if (filter_ != nullptr && !filter_->passes(fault)) return false;
    for (const RowField& wanted : fields_) {
      const char* const from = place_of(wanted);
      const FloatField* const floats = wanted.field.floats();
      if (floats != nullptr && floats->is_plain()) {
        float* const to =
            &(*columns.floats)[wanted.field.column()].values[size_t(columns.record) * wanted.count];
        const bool finite = visit_npy_type(wanted.type, [&]<typename T, bool kSwap>() {
          return copy_floats<T, kSwap>(from, wanted.count, to);
        });
        if (finite) [[likely]]
          continue;
      } else if (floats != nullptr && wanted.count == 1 &&
                 take_one(*floats, wanted, from, columns)) {
        continue;
      }
      if (!take_elements(wanted, from, columns, fault)) return false;
    }
    for (const TypedField& field : absent_) {
      if (!field.read_missing(columns, fault)) return false;
    }
    return true;
  }

  void prefetch(const char* begin, size_t) const override {
    const size_t row = size_t(begin - blocks_->text);
    for (size_t i = 0; i < blocks_->blocks.size(); ++i) {
      const char* const at = row_of(i, row);
      const size_t lines = std::min(blocks_->row_bytes[i] / 64 + 1, kLinesAhead);
      for (size_t line = 0; line < lines; ++line) __builtin_prefetch(at + line * 64);
    }
  }

  uint64_t hash(const char* begin, const char*) const override {
    const size_t row = size_t(begin - blocks_->text);
    uint64_t hash = 0;
    for (size_t i = 0; i < blocks_->blocks.size(); ++i) {
      const size_t bytes = std::min(blocks_->row_bytes[i], kHashedBytes);
      hash = hash_combine(hash, xxh3(row_of(i, row), bytes));
    }
    return hash;
  }

 private:
  const char* row_of(size_t array, size_t row) const {
    const size_t stride =
        blocks_->strides.empty() ? blocks_->row_bytes[array] : blocks_->strides[array];
    return blocks_->blocks[array] + row * stride;
  }
  std::shared_ptr<const RowBlocks> blocks_;
  std::vector<RowField> fields_, condition_;
  std::vector<TypedField> absent_;  // targets whose arrays are not there
};

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 1; i < shape.size(); ++i) text += str(i > 1 ? ", " : "", shape[i]);
  return text + "]";
}

/// Checks what a field declares against the array that it reads.
Result<RowField> row_field(const TypedField& field, const SourceArray& source, uint32_t index) {
  const NpyArray& array = source.array;
  const auto wrong = [&](const std::string& what, const std::string& hint) {
    return Error{ErrorCode::kConfig,
                 str("field ", field.name(), ": ", what, " (", source.where, ")"),
                 str("data.fields.", field.name()), hint};
  };
  if (field.type() == FieldType::kString)
    return wrong("is a string, and arrays hold numbers", "type = \"int64\" gives keys");
  if (field.type() == FieldType::kInt64 && !array.type.is_integer()) {
    return wrong(str("is int64, and its array holds ", npy_type_name(array.type)),
                 "type = \"float32\", or save it as integers");
  }
  RowField out{.field = field, .array = index, .count = array.row_elements, .type = array.type};
  DP_TRY(const std::optional<uint64_t> first, field.first_element());
  if (field.is_bag()) return out;
  const uint64_t wanted = elements_of(field.shape());
  if (first) {
    if (wanted > array.row_elements || *first > array.row_elements - wanted) {
      return wrong(str("its elements from ", *first, " on go beyond a row of ", array.row_elements),
                   "mend `column` or `shape`");
    }
    out.first_byte = size_t(*first) * array.type.bytes;
    out.count = wanted;
  } else if (wanted != array.row_elements) {
    return wrong(str("has another shape than the rows of its array, ", shape_text(array.shape)),
                 str("shape = ", shape_text(array.shape)));
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<RecordParser>> make_array_parser(const ReadPlan& plan,
                                                        const ArrayFields& from,
                                                        std::shared_ptr<const RowBlocks> blocks,
                                                        std::vector<SourceArray>& used) {
  auto parser = std::make_unique<ArrayParser>(std::move(blocks));
  DP_TRY(const std::vector<TypedField> fields, parser->make_fields(plan));
  if (from.there.empty()) return std::unique_ptr<RecordParser>(std::move(parser));
  const bool single = from.there.front().name.empty();
  for (const TypedField& field : fields) {
    const std::string name = single ? "" : from.name_of(field.spec());
    const auto named = [&](const SourceArray& array) { return array.name == name; };
    const auto found = std::find_if(from.there.begin(), from.there.end(), named);
    if (found == from.there.end()) {
      if (plan.targets_optional && find_target(plan, field.name()) != nullptr) {
        parser->add_absent(field);
        continue;
      }
      return Error{ErrorCode::kNoInput,
                   str("field ", field.name(), ": there is no array ", name, " in ", from.source),
                   str("data.fields.", field.name()), "name it with `path`"};
    }
    const auto before = std::find_if(used.begin(), used.end(), named);
    const auto index = uint32_t(before - used.begin());
    if (before == used.end()) used.push_back(*found);
    DP_TRY(RowField wanted, row_field(field, *found, index));
    parser->add(std::move(wanted));
  }
  return std::unique_ptr<RecordParser>(std::move(parser));
}

double npy_number(const char* at, NpyType type) {
  return visit_npy_type(
      type, [&]<typename T, bool kSwap>() { return double(element_value<T, kSwap>(at)); });
}

}  // namespace downpour::data
