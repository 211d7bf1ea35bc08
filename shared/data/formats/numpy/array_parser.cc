#include "shared/data/formats/numpy/array_parser.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "shared/base/hash.h"
#include "shared/data/bytes/xxh3.h"
#include "shared/data/formats/numpy/array_elements.h"
#include "shared/data/values/declared_fields.h"
#include "shared/data/values/typed_fields.h"

namespace downpour::data {
namespace {

constexpr size_t kHashedBytes = 256;     // of each array's row; the size that xxh3_256() hashes
constexpr size_t kLinesAhead = 8;        // cache lines prefetched of each array's row
constexpr size_t kRowsAhead = 8;         // rows of a run prefetched in advance
constexpr size_t kPartBytes = 16 << 10;  // of the rows that are parsed together, so that they stay
                                         // in the L1 cache
constexpr uint64_t kRunElementsMax = uint64_t{1} << 24;  // of one field in a batch

/// The next `count` rows of one array, and the rows after them.
struct RowRun {
  const char* block = nullptr;  // row 0
  size_t stride = 0;
  std::span<const QueuedRecord> rows;
  size_t count = 0;
  size_t lines = 0;  // cache lines to prefetch of each row; 0: the row has been prefetched

  const char* operator[](size_t i) const { return block + rows[i].ref.begin * stride; }
  void prefetch(size_t i) const {
    if (lines == 0 || i >= rows.size()) return;
    const char* const at = (*this)[i];
    for (size_t line = 0; line < lines; ++line) __builtin_prefetch(at + line * 64);
  }
};

/// A field, and the range of an array's row that it reads.
struct RowField {
  TypedField field;
  uint32_t array = 0;
  size_t first_byte = 0;
  size_t count = 0;
  NpyType type;
  size_t (*copy)(const RowRun&, const RowField&, float*) = nullptr;  // copy_rows(); null if not a
                                                                     // float field, or one that
                                                                     // needs doubles
  bool leads = false;  // first field of its array; it prefetches the rows
};

/// Writes the elements of each row as floats. Returns how many rows it wrote before the first one
/// with an element that is not finite.
template <typename T, bool kSwap, bool kPlain>
size_t copy_rows(const RowRun& run, const RowField& wanted, float* to) {
  const size_t count = wanted.count;
  for (size_t i = 0; i < run.count; ++i, to += count) {
    run.prefetch(i + kRowsAhead);
    if (!copy_floats<T, kSwap, kPlain>(run[i] + wanted.first_byte, count, to)) return i;
  }
  return run.count;
}

uint64_t hash_row(const char* row, size_t bytes) {
  return bytes < kHashedBytes ? xxh3(row, bytes) : xxh3_256(row);
}

/// Gives the elements of a row to a field one by one.
bool take_elements(const RowField& wanted, const char* from, Columns& columns, Fault& fault) {
  FieldWriter writer = wanted.field.begin(columns);
  const bool good = visit_npy_type(wanted.type, [&]<typename T, bool kSwap>() {
    for (size_t i = 0; i < wanted.count; ++i) {
      if (!writer.take(element_value<T, kSwap>(from + i * sizeof(T)), fault)) return false;
    }
    return true;
  });
  return good && writer.finish(fault);
}

/// Copies numbers, and applies the field's ops and range check. Returns how many rows it converted.
/// The next row has to go through take_elements(), which converts it or reports the fault.
size_t take_floats(const RowField& wanted, const RowRun& run, Columns& columns) {
  float* const to =
      &(*columns.floats)[wanted.field.column()].values[size_t(columns.record) * wanted.count];
  const size_t rows = wanted.copy(run, wanted, to);
  const FloatField& field = *wanted.field.floats();
  return field.is_plain() ? rows : field.convert_numbers({to, rows * wanted.count}) / wanted.count;
}

/// Reads the field from each row of a run, whatever its type. Returns how many rows it converted.
size_t take_rows(const RowField& wanted, const RowRun& run, Columns& columns, Fault& fault) {
  if (wanted.copy != nullptr) return take_floats(wanted, run, columns);
  const uint32_t first = columns.record;
  size_t taken = 0;
  for (; taken < run.count; ++taken, ++columns.record) {
    run.prefetch(taken + kRowsAhead);
    if (!take_elements(wanted, run[taken] + wanted.first_byte, columns, fault)) break;
  }
  columns.record = first;
  return taken;
}

class ArrayParser final : public RecordParser {
 public:
  explicit ArrayParser(std::shared_ptr<const RowBlocks> blocks) : blocks_(std::move(blocks)) {}

  /// Makes the fields of the layout and the inputs of the filter.
  Result<std::vector<TypedField>> make_fields(const FieldContext& context) {
    DP_TRY(filter_, RecordFilter::make(context.data));
    DP_TRY(FieldSet set, FieldSet::make(context));
    adopt(set);
    DP_TRY(std::vector<TypedField> fields, TypedField::make_all(set));
    if (filter_ != nullptr) {
      for (TypedField& input : TypedField::inputs_of(*filter_)) fields.push_back(std::move(input));
    }
    return fields;
  }
  void add(RowField field) {
    field.leads = std::none_of(fields_.begin(), fields_.end(),
                               [&](const RowField& before) { return before.array == field.array; });
    const FloatField* const floats = field.field.floats();
    if (floats != nullptr && field.count > 0 && !floats->needs_text()) {
      const bool plain = floats->is_plain();
      visit_npy_type(field.type, [&]<typename T, bool kSwap>() {
        if (plain) {
          field.copy = &copy_rows<T, kSwap, true>;
        } else {
          field.copy = &copy_rows<T, kSwap, false>;
        }
      });
    }
    (field.field.is_filter() ? condition_ : fields_).push_back(std::move(field));
  }
  /// Adds a target whose array does not exist.
  void add_absent(TypedField field) { absent_.push_back(std::move(field)); }
  /// Must be called after the last add(). `row_bytes` is the sum over all arrays.
  void start(size_t row_bytes, uint32_t batch_size) {
    part_rows_ = std::clamp<size_t>(kPartBytes / std::max<size_t>(row_bytes, 1), 8, hashes_.size());
    takes_runs_ = filter_ == nullptr && absent_.empty() &&
                  std::all_of(fields_.begin(), fields_.end(), [&](const RowField& field) {
                    return field.count <= kRunElementsMax / batch_size;
                  });
  }

  bool parse(const char* begin, const char*, uint64_t, Columns& columns, Fault& fault) override {
    const QueuedRecord row = row_at(begin);
    const auto run_at = [&](const RowField& wanted) { return run_of(wanted.array, {&row, 1}, 1); };
    const auto place_of = [&](const RowField& wanted) {
      return run_at(wanted)[0] + wanted.first_byte;
    };
    for (const RowField& input : condition_) {
      if (!take_elements(input, place_of(input), columns, fault)) return false;
    }
    if (filter_ != nullptr && !filter_->passes(fault)) return false;
    for (const RowField& wanted : fields_) {
      if (wanted.copy != nullptr && take_floats(wanted, run_at(wanted), columns) == 1) continue;
      if (!take_elements(wanted, place_of(wanted), columns, fault)) return false;
    }
    for (const TypedField& field : absent_) {
      if (!field.read_missing(columns, fault)) return false;
    }
    return true;
  }

  size_t parse_run(std::span<const QueuedRecord> run, Columns& columns, uint64_t& hashes) override {
    if (!takes_runs_) return 0;
    const uint32_t first = columns.record;
    size_t taken = 0;
    while (taken < run.size()) {
      const size_t wanted = std::min(part_rows_, run.size() - taken);
      columns.record = first + uint32_t(taken);
      const size_t rows = take_part(run.subspan(taken), wanted, columns);
      for (size_t i = 0; i < rows; ++i) hashes += hash_combine(hashes_[i], run[taken + i].offset);
      taken += rows;
      if (rows < wanted) break;
    }
    columns.record = first;
    return taken;
  }

  void prefetch(const char* begin, size_t) const override {
    const QueuedRecord row = row_at(begin);
    for (size_t i = 0; i < blocks_->blocks.size(); ++i) {
      RowRun run = run_of(i, {&row, 1}, 1);
      run.lines = lines_of(i);
      run.prefetch(0);
    }
  }

  uint64_t hash(const char* begin, const char*) const override {
    const QueuedRecord row = row_at(begin);
    uint64_t hash = 0;
    for (size_t i = 0; i < blocks_->blocks.size(); ++i)
      hash = hash_combine(hash, hash_row(run_of(i, {&row, 1}, 1)[0], blocks_->row_bytes[i]));
    return hash;
  }

 private:
  size_t stride_of(size_t array) const {
    return blocks_->strides.empty() ? blocks_->row_bytes[array] : blocks_->strides[array];
  }
  QueuedRecord row_at(const char* text) const {
    return {.ref = {.begin = uint32_t(text - blocks_->text), .size = 1}};
  }
  RowRun run_of(size_t array, std::span<const QueuedRecord> rows, size_t count) const {
    return {blocks_->blocks[array], stride_of(array), rows, count};
  }
  size_t lines_of(size_t array) const {
    return std::min(blocks_->row_bytes[array] / 64 + 1, kLinesAhead);
  }

  /// Parses the first `count` rows of a run: writes their fields, and their hash() to hashes_.
  /// Returns how many rows it parsed.
  size_t take_part(std::span<const QueuedRecord> run, size_t count, Columns& columns) {
    for (const RowField& wanted : fields_) {
      RowRun rows = run_of(wanted.array, run, count);
      if (wanted.leads) rows.lines = lines_of(wanted.array);
      Fault fault;  // ignored; parse() reports it
      count = take_rows(wanted, rows, columns, fault);
    }
    std::fill_n(hashes_.begin(), count, 0);
    for (size_t i = 0; i < blocks_->blocks.size(); ++i) {
      const RowRun rows = run_of(i, run, count);
      for (size_t r = 0; r < count; ++r) row_hashes_[r] = hash_row(rows[r], blocks_->row_bytes[i]);
      for (size_t r = 0; r < count; ++r) hashes_[r] = hash_combine(hashes_[r], row_hashes_[r]);
    }
    return count;
  }

  std::shared_ptr<const RowBlocks> blocks_;
  std::vector<RowField> fields_, condition_;
  std::vector<TypedField> absent_;  // targets whose arrays do not exist
  bool takes_runs_ = false;
  size_t part_rows_ = 0;                               // rows of a run that are parsed together
  std::array<uint64_t, 256> hashes_{}, row_hashes_{};  // combined over all arrays; of one array
};

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 1; i < shape.size(); ++i) text += str(i > 1 ? ", " : "", shape[i]);
  return text + "]";
}

/// Checks a field's declaration against the array that it reads.
Result<RowField> row_field(const TypedField& field, const SourceArray& source, uint32_t index) {
  const NpyArray& array = source.array;
  const auto wrong = [&](const std::string& what, const std::string& hint) {
    return Error{ErrorCode::kConfig,
                 str("field ", field.name(), ": ", what, " (", source.where, ")"),
                 str("data.fields.", field.name()), hint};
  };
  if (field.type() == FieldType::kString)
    return wrong("is declared string, but arrays contain numbers",
                 "set type = \"int64\" to use the numbers as keys");
  if (field.type() == FieldType::kInt64 && !array.type.is_integer()) {
    return wrong(str("is declared int64, but its array contains ", npy_type_name(array.type)),
                 "set type = \"float32\", or save the array as integers");
  }
  RowField out{.field = field, .array = index, .count = array.row_elements, .type = array.type};
  DP_TRY(const std::optional<uint64_t> first, field.first_element());
  if (field.is_bag()) return out;
  const uint64_t wanted = elements_of(field.shape());
  if (first) {
    if (wanted > array.row_elements || *first > array.row_elements - wanted) {
      return wrong(str("the elements of the field start at ", *first,
                       " and end after the end of the row, which has this many elements: ",
                       array.row_elements),
                   "correct `column` or `shape`");
    }
    out.first_byte = size_t(*first) * array.type.bytes;
    out.count = wanted;
  } else if (wanted != array.row_elements) {
    return wrong(
        str("its shape differs from the shape of a row of its array, ", shape_text(array.shape)),
        str("set shape = ", shape_text(array.shape)));
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<RecordParser>> make_array_parser(const FieldContext& context,
                                                        const ArrayFields& from,
                                                        std::shared_ptr<const RowBlocks> blocks,
                                                        std::vector<SourceArray>& used) {
  auto parser = std::make_unique<ArrayParser>(std::move(blocks));
  DP_TRY(const std::vector<TypedField> fields, parser->make_fields(context));
  if (from.there.empty()) return std::unique_ptr<RecordParser>(std::move(parser));
  const bool single = from.there.front().name.empty();
  for (const TypedField& field : fields) {
    const std::string name = single ? "" : from.name_of(field.spec());
    const auto named = [&](const SourceArray& array) { return array.name == name; };
    const auto found = std::find_if(from.there.begin(), from.there.end(), named);
    if (found == from.there.end()) {
      if (context.targets_optional && find_target(context, field.name()) != nullptr) {
        parser->add_absent(field);
        continue;
      }
      return Error{ErrorCode::kNoInput,
                   str("field ", field.name(), ": there is no array ", name, " in ", from.source),
                   str("data.fields.", field.name()), "set the name of the array as `path`"};
    }
    const auto before = std::find_if(used.begin(), used.end(), named);
    const auto index = uint32_t(before - used.begin());
    if (before == used.end()) used.push_back(*found);
    DP_TRY(RowField wanted, row_field(field, *found, index));
    parser->add(std::move(wanted));
  }
  size_t row_bytes = 0;
  for (const SourceArray& array : used) row_bytes += size_t(array.array.row_bytes());
  parser->start(row_bytes, context.batch_size);
  return std::unique_ptr<RecordParser>(std::move(parser));
}

double npy_number(const char* at, NpyType type) {
  return visit_npy_type(
      type, [&]<typename T, bool kSwap>() { return double(element_value<T, kSwap>(at)); });
}

}  // namespace downpour::data
