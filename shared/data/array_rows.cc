// Rows of arrays: a window of each array at a time, mapped, or side by side in one buffer what
// can't be, and one row of all of them into columns.
#include <algorithm>
#include <numeric>
#include <type_traits>

#include "shared/base/hash.h"
#include "shared/base/units.h"
#include "shared/data/array_elements.h"
#include "shared/data/arrays.h"
#include "shared/data/mapped_bytes.h"
#include "shared/data/typed_fields.h"
#include "shared/data/xxh3.h"

namespace downpour::data {
namespace {

constexpr size_t kHashedBytes = 256;  // of each array's row
constexpr size_t kLinesAhead = 8;     // cache lines prefetched of each array's row

/// Where a window's rows lie: what its source tells its parser.
struct RowBlocks {
  const char* text = nullptr;       // Window::text; row i is at text + i
  std::vector<const char*> blocks;  // row 0 of each array
  std::vector<size_t> row_bytes;
};

class ArrayWindows final : public WindowSource {
 public:
  ArrayWindows(const plan::FileInfo& info, const plan::ShardRange& range, size_t window_bytes,
               std::vector<SourceArray> arrays, uint64_t all_row_bytes,
               std::shared_ptr<RowBlocks> blocks, Buffer& buffer, std::vector<RecordRef>& records)
      : path_(info.path),
        range_(range),
        all_row_bytes_(all_row_bytes),
        blocks_(std::move(blocks)),
        buffer_(buffer),
        records_(records),
        arrays_(std::move(arrays)) {
    begin_ = next_ = (range.begin + all_row_bytes - 1) / all_row_bytes;
    end_ = (range.end + all_row_bytes - 1) / all_row_bytes;
    uint64_t bytes = 0;
    for (const SourceArray& array : arrays_) {
      bytes += array.array.row_bytes();
      blocks_->row_bytes.push_back(size_t(array.array.row_bytes()));
      inflated_.push_back(array.member.deflated
                              ? std::make_unique<InflatedMember>(array.file, array.member)
                              : nullptr);
    }
    blocks_->blocks.resize(arrays_.size());
    mapped_.resize(arrays_.size());
    row_bytes_ = std::max<uint64_t>(bytes, 1);
    rows_per_window_ = std::clamp<uint64_t>(window_bytes / row_bytes_, 1, kWindowRecordsMax);
  }

  /// Goes over the headers of what is decompressed.
  Result<void> start() {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (inflated_[i] == nullptr) continue;
      std::string head(size_t(arrays_[i].array.data_offset), '\0');
      DP_TRY_VOID(inflated_[i]->read(head.data(), head.size()));
    }
    return {};
  }

  Result<bool> next(Window& window) override {
    records_.clear();
    DP_TRY_VOID(check());
    if (next_ >= end_) return false;
    const uint64_t count = std::min(rows_per_window_, end_ - next_);
    window.begin_progress = progress();
    size_t unmapped_bytes = kPadBytes;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const size_t bytes = size_t(count) * blocks_->row_bytes[i];
      mapped_[i].reset();
      if (inflated_[i] == nullptr)
        mapped_[i] = MappedBytes::map(*arrays_[i].file, first_byte(i), bytes);
      if (!mapped_[i]) unmapped_bytes += bytes + kPadBytes;
    }
    buffer_.reserve(unmapped_bytes, 0);
    char* at = buffer_.data();
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (mapped_[i]) {
        blocks_->blocks[i] = mapped_[i]->data();
        continue;
      }
      const size_t bytes = size_t(count) * blocks_->row_bytes[i];
      DP_TRY_VOID(read_rows(i, bytes, at));
      blocks_->blocks[i] = at;
      at += bytes + kPadBytes;
    }
    blocks_->text = buffer_.data();
    records_.resize(size_t(count));
    for (uint32_t i = 0; i < count; ++i) records_[i] = {.begin = i, .size = 1};
    window.text = buffer_.data();
    window.offset = next_;
    window.records = &records_;
    next_ += count;
    window.end_progress = progress();
    return true;
  }
  Result<void> check() override {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      // Of a page that the file's new end lies in the rest reads as zeros, and nothing is torn.
      const bool whole = !mapped_[i] || !(mapped_[i]->is_torn() || arrays_[i].file->is_cut());
      if (!whole) return changed(arrays_[i]);
    }
    return {};
  }
  bool at_end() const override { return next_ >= end_; }
  uint64_t first_offset() const override { return begin_ * all_row_bytes_; }
  uint64_t end_offset() const override { return next_ * all_row_bytes_; }
  std::string locate(uint64_t offset) override { return str(path_, ":row ", offset); }

 private:
  uint64_t progress() const {
    return std::clamp(next_ * all_row_bytes_, range_.begin, range_.end) - range_.begin;
  }
  uint64_t first_byte(size_t i) const {
    return arrays_[i].array.data_offset + next_ * arrays_[i].array.row_bytes();
  }
  Result<void> read_rows(size_t i, size_t bytes, char* to) {
    if (inflated_[i] != nullptr) return inflated_[i]->read(to, bytes);
    const SourceArray& source = arrays_[i];
    DP_TRY(const size_t n, source.file->read_at(first_byte(i), to, bytes));
    if (n == bytes) return {};
    return changed(source);
  }
  static Error changed(const SourceArray& source) {
    return Error{ErrorCode::kBadData,
                 str("the file changed since the job began (it is shorter now): ", source.where),
                 source.where,
                 "training data must not change under a running job; start anew with --fresh"};
  }

  const std::string path_;
  const plan::ShardRange range_;
  const uint64_t all_row_bytes_;  // of all the source's arrays: the unit of the range
  std::shared_ptr<RowBlocks> blocks_;
  Buffer& buffer_;
  std::vector<RecordRef>& records_;
  std::vector<SourceArray> arrays_;
  std::vector<std::unique_ptr<InflatedMember>> inflated_;
  std::vector<std::optional<MappedBytes>> mapped_;  // the window; none: in buffer_
  uint64_t row_bytes_ = 0;                          // of the arrays that are read
  uint64_t rows_per_window_ = 0;
  uint64_t begin_ = 0, next_ = 0, end_ = 0;  // rows
};

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
    return blocks_->blocks[array] + row * blocks_->row_bytes[array];
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

double npy_number(const char* at, NpyType type) {
  return visit_npy_type(
      type, [&]<typename T, bool kSwap>() { return double(element_value<T, kSwap>(at)); });
}

Result<ArrayReading> open_array_rows(const ReadPlan& plan, const plan::FileInfo& info,
                                     const plan::ShardRange& range, size_t window_bytes,
                                     Buffer& buffer, std::vector<RecordRef>& records) {
  DP_TRY(std::vector<SourceArray> all, open_arrays(plan.data, info.path));
  DP_TRY(const plan::FileInfo now, look_at_arrays(plan.data, info.path));
  if (now.fingerprint != info.fingerprint || now.bytes != info.bytes) {
    return Error{ErrorCode::kBadData, str("the arrays changed since the job began: ", info.path),
                 info.path,
                 "training data must not change under a running job; start anew with --fresh"};
  }
  auto blocks = std::make_shared<RowBlocks>();
  auto parser = std::make_unique<ArrayParser>(blocks);
  DP_TRY(const std::vector<TypedField> fields, parser->make_fields(plan));
  const bool single = all.front().name.empty();
  std::vector<SourceArray> used;
  for (const TypedField& field : fields) {
    const std::string name = single ? "" : array_name_of(plan.data, info.path, field.spec());
    const auto named = [&](const SourceArray& array) { return array.name == name; };
    const auto found = std::find_if(all.begin(), all.end(), named);
    if (found == all.end()) {
      if (plan.targets_optional && find_target(plan, field.name()) != nullptr) {
        parser->add_absent(field);
        continue;
      }
      return Error{ErrorCode::kNoInput,
                   str("field ", field.name(), ": there is no array ", name, " in ", info.path),
                   str("data.fields.", field.name()), "name it with `path`"};
    }
    const auto before = std::find_if(used.begin(), used.end(), named);
    const auto index = uint32_t(before - used.begin());
    if (before == used.end()) used.push_back(*found);
    DP_TRY(RowField wanted, row_field(field, *found, index));
    parser->add(std::move(wanted));
  }
  const uint64_t all_row_bytes = info.bytes / all.front().array.rows;
  auto source = std::make_unique<ArrayWindows>(info, range, window_bytes, std::move(used),
                                               all_row_bytes, blocks, buffer, records);
  DP_TRY_VOID(source->start());
  ArrayReading out;
  out.source = std::move(source);
  out.parser = std::move(parser);
  return out;
}

}  // namespace downpour::data
