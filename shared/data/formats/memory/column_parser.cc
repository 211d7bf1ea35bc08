// The format memory: windows of the rows of a MemoryTable, and the parser of their columns.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "shared/base/error_text.h"
#include "shared/base/hash.h"
#include "shared/data/formats/format.h"
#include "shared/data/formats/memory/memory_table.h"
#include "shared/data/formats/numpy/array_elements.h"
#include "shared/data/records/delimited.h"
#include "shared/data/records/window.h"
#include "shared/data/values/declared_fields.h"
#include "shared/data/values/typed_fields.h"

namespace downpour::data {
namespace {

using Kind = MemoryColumn::Kind;

/// A field, and the column that it reads.
struct Wanted {
  TypedField field;
  const MemoryColumn* column = nullptr;
  std::optional<MissingMarks> missing = {};  // only if the job has marks
  bool trim = false;                         // blanks around texts
};

/// A field of keys with values, and the column that it reads.
struct WantedPairs {
  std::string name;
  KeyField field;
  uint32_t entry = 0;  // of Columns::keys
  const MemoryColumn* column = nullptr;
};

/// Writes the only value of a record.
template <typename T>
bool put(const TypedField& field, T value, Columns& columns, Fault& fault) {
  if constexpr (std::is_same_v<T, double>) {
    if (field.take_only(float(value), columns)) return true;
  } else {
    if (field.take_only(value, columns)) return true;
  }
  FieldWriter writer = field.begin(columns);
  return writer.take(value, fault) && writer.finish(fault);
}

/// Writes a number as the text that a CSV file would have. A whole number has no decimal point, so
/// that integers have the same key if missing values have turned them into floats.
template <typename T>
bool put_as_text(const TypedField& field, T value, Columns& columns, Fault& fault) {
  std::array<char, 32> text{};
  std::to_chars_result end{};
  const bool whole = std::floor(double(value)) == double(value) && std::fabs(double(value)) < 1e15;
  if (whole) {
    end = std::to_chars(text.begin(), text.end(), int64_t(value));
  } else {
    end = std::to_chars(text.begin(), text.end(), value);
  }
  return put(field, std::string_view(text.data(), size_t(end.ptr - text.data())), columns, fault);
}

/// Writes a text as a cell of a CSV file.
bool put_text(const Wanted& wanted, std::string_view text, Columns& columns, Fault& fault) {
  if (wanted.trim) text = trimmed(text);
  if (wanted.missing && wanted.missing->matches(text))
    return wanted.field.read_missing(columns, fault);
  if (wanted.field.take_only(text, columns)) return true;
  FieldWriter writer = wanted.field.begin(columns);
  if (wanted.field.type() == FieldType::kString)
    return writer.take_cell(text, fault) && writer.finish(fault);
  // Numbers are parsed up to a character that is no digit, and the next text follows at once.
  std::string copy(text);
  copy.append(kPadBytes, '\0');
  if (writer.take_cell({copy.data(), text.size()}, fault, /*parse=*/true))
    return writer.finish(fault);
  if (fault.made.empty()) fault.made = std::string(fault.text);
  fault.text = {};
  return false;
}

/// Writes the elements of a row of a wide column.
template <typename T, bool kSwap>
bool put_all(const Wanted& wanted, const char* from, Columns& columns, Fault& fault) {
  const size_t count = wanted.column->width;
  const TypedField& field = wanted.field;
  if (const FloatField* const floats = field.floats(); floats != nullptr) {
    float* const to =
        &(*columns.floats)[field.column()].values[size_t(columns.record) * floats->width()];
    if (floats->is_plain() && floats->width() == count && copy_floats<T, kSwap>(from, count, to))
      return true;
  }
  FieldWriter writer = field.begin(columns);
  for (size_t i = 0; i < count; ++i) {
    if (!writer.take(element_value<T, kSwap>(from + i * sizeof(T)), fault)) return false;
  }
  return writer.finish(fault);
}

template <typename T, bool kSwap>
bool take_number(const Wanted& wanted, uint64_t row, Columns& columns, Fault& fault) {
  const MemoryColumn& column = *wanted.column;
  const char* const at = column.values + int64_t(row) * column.stride;
  if (column.kind == Kind::kDictionary) {
    const auto index = int64_t(element_value<T, kSwap>(at));
    if (index < 0) return wanted.field.read_missing(columns, fault);
    return put_text(wanted, column.texts[uint64_t(index)], columns, fault);
  }
  if (column.width > 1) return put_all<T, kSwap>(wanted, at, columns, fault);
  const auto value = element_value<T, kSwap>(at);
  if constexpr (std::is_floating_point_v<decltype(value)>) {
    if (std::isnan(value)) return wanted.field.read_missing(columns, fault);
  }
  if (wanted.missing && wanted.missing->matches_number(value))
    return wanted.field.read_missing(columns, fault);
  if (wanted.field.type() == FieldType::kString)
    return put_as_text(wanted.field, value, columns, fault);
  return put(wanted.field, value, columns, fault);
}

/// Returns true if the field takes every finite number of the column as it is, and every row has a
/// number.
bool is_copy(const Wanted& wanted) {
  const MemoryColumn& column = *wanted.column;
  const TypedField::Only only = wanted.field.only();
  return column.kind == Kind::kNumbers && column.width == 1 && column.valid == nullptr &&
         !wanted.missing &&
         (only == TypedField::Only::kFloat ||
          (only == TypedField::Only::kInteger && column.type.is_integer()));
}

/// Copies the numbers of rows. Returns how many it has copied before the first one that is not
/// finite.
template <typename T, bool kSwap>
size_t copy_numbers(const MemoryColumn& column, std::span<const QueuedRecord> rows, float* to) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const char* const at = column.values + int64_t(rows[i].offset) * column.stride;
    const auto value = float(element_value<T, kSwap>(at));
    if (!std::isfinite(value)) [[unlikely]]
      return i;
    to[i] = value;
  }
  return rows.size();
}

/// Reads the field from consecutive rows of a run. Returns how many it has read before the first
/// one with a fault.
size_t take_rows(const Wanted& wanted, std::span<const QueuedRecord> rows, Columns& columns,
                 Fault& fault) {
  const MemoryColumn& column = *wanted.column;
  const uint32_t first = columns.record;
  size_t taken = 0;
  const auto each = [&](auto&& take, auto&& copy) {
    for (taken += copy(); taken < rows.size(); ++taken, taken += copy()) {
      const uint64_t row = rows[taken].offset;
      columns.record = first + uint32_t(taken);
      const bool good =
          column.has_value(row) ? take(row) : wanted.field.read_missing(columns, fault);
      if (!good) break;
    }
  };
  const auto nothing = [] { return size_t{0}; };
  if (column.kind == Kind::kTexts) {
    each([&](uint64_t row) { return put_text(wanted, column.texts[row], columns, fault); },
         nothing);
  } else {
    visit_npy_type(column.type, [&]<typename T, bool kSwap>() {
      const auto take = [&](uint64_t row) {
        return take_number<T, kSwap>(wanted, row, columns, fault);
      };
      if (!is_copy(wanted)) return each(take, nothing);
      float* const to = &(*columns.floats)[wanted.field.column()].values[first];
      each(take, [&] { return copy_numbers<T, kSwap>(column, rows.subspan(taken), to + taken); });
    });
  }
  columns.record = first;
  return taken;
}

/// Appends the keys and values of a row.
bool take_pairs(const WantedPairs& wanted, uint64_t row, Columns& columns, Fault& fault) {
  const MemoryColumn& column = *wanted.column;
  KeyBuffer& to = (*columns.keys)[wanted.entry];
  to.count = to.offsets[columns.record];
  const uint64_t begin = column.pair_begin(row), end = column.pair_begin(row + 1);
  to.ensure(size_t(end - begin));
  const bool good = visit_npy_type(column.key_type, [&]<typename K, bool kSwapKey>() {
    return visit_npy_type(column.type, [&]<typename V, bool kSwap>() {
      for (uint64_t i = begin; i < end; ++i) {
        const auto number = uint64_t(element_value<K, kSwapKey>(column.keys + i * sizeof(K)));
        const auto value = float(element_value<V, kSwap>(column.values + i * sizeof(V)));
        uint64_t key = 0;
        if (!wanted.field.convert_feature(number, {}, key, fault)) return false;
        if (!std::isfinite(value)) {
          fault = {.reason = "is not finite", .field = &wanted.name, .made = str(value)};
          return false;
        }
        if (wanted.field.drops(key)) continue;
        to.values[to.count] = value;
        to.keys[to.count++] = key;
        to.all_one &= value == 1.0F;
      }
      return true;
    });
  });
  to.offsets[columns.record + 1] = uint32_t(to.count);
  return good;
}

class ColumnParser final : public RecordParser {
 public:
  static Result<std::unique_ptr<RecordParser>> make(const FieldContext& context,
                                                    std::shared_ptr<const MemoryTable> table) {
    auto parser = std::make_unique<ColumnParser>();
    parser->table_ = std::move(table);
    DP_TRY(FieldSet set, FieldSet::make(context));
    DP_TRY_VOID(parser->take_pairs_of(set));
    parser->adopt(set);
    DP_TRY(std::vector<TypedField> fields, TypedField::make_all(set));
    DP_TRY(parser->filter_, RecordFilter::make(context.data));
    std::vector<std::string> missing;
    for (TypedField& field : fields)
      DP_TRY_VOID(parser->add(context, std::move(field), parser->fields_, missing));
    if (parser->filter_ != nullptr) {
      for (TypedField& input : TypedField::inputs_of(*parser->filter_))
        DP_TRY_VOID(parser->add(context, std::move(input), parser->condition_, missing));
    }
    if (missing.empty()) return std::unique_ptr<RecordParser>(std::move(parser));
    std::string there;
    for (const MemoryColumn& column : parser->table_->columns)
      there += str(there.empty() ? "" : ", ", column.name);
    std::string names;
    for (const std::string& name : missing) names += str(names.empty() ? "" : ", ", name);
    return Error{ErrorCode::kNoInput, str("the data have no column ", printable(names)), "",
                 str("the columns are ", printable(there))};
  }

  bool parse(const char*, const char*, uint64_t row, Columns& columns, Fault& fault) override {
    const QueuedRecord record{.offset = row};
    const auto take = [&](const Wanted& wanted) {
      return take_rows(wanted, {&record, 1}, columns, fault) == 1;
    };
    if (!std::ranges::all_of(condition_, take)) return false;
    if (filter_ != nullptr && !filter_->passes(fault)) return false;
    return std::ranges::all_of(fields_, take) &&
           std::ranges::all_of(
               pairs_, [&](const auto& each) { return take_pairs(each, row, columns, fault); }) &&
           std::ranges::all_of(
               absent_, [&](const auto& field) { return field.read_missing(columns, fault); });
  }

  size_t parse_run(std::span<const QueuedRecord> run, Columns& columns, uint64_t& hashes) override {
    if (filter_ != nullptr || !absent_.empty()) return 0;
    Fault fault;  // ignored; parse() reports it
    size_t count = run.size();
    for (const Wanted& wanted : fields_)
      count = take_rows(wanted, run.first(count), columns, fault);
    const uint32_t first = columns.record;
    for (const WantedPairs& wanted : pairs_) {
      size_t taken = 0;
      while (taken < count && take_pairs(wanted, run[taken].offset, columns, fault))
        ++taken, ++columns.record;
      columns.record = first;
      count = taken;
    }
    for (const QueuedRecord& record : run.first(count))
      hashes += hash_combine(mix64(record.offset), record.offset);
    return count;
  }

  bool finds_by_offset() const override { return true; }
  void prefetch(const char*, size_t) const override {}
  /// The rows of a table do not change, so the number of a row identifies it.
  uint64_t hash(const char* begin, const char*) const override {
    return mix64(uint64_t(begin - reinterpret_cast<const char*>(table_.get())));
  }

 private:
  /// Takes the fields that read columns of pairs out of the set.
  Result<void> take_pairs_of(FieldSet& set) {
    std::vector<FieldSet::Keys> others;
    for (FieldSet::Keys& keys : set.keys) {
      const MemoryColumn* const column = table_->find(keys.spec.source_name());
      if (column == nullptr || column->kind != Kind::kPairs) {
        others.push_back(std::move(keys));
        continue;
      }
      set.key_shapes[keys.entry] = {.bag = true, .values = true};
      pairs_.push_back({keys.spec.name, std::move(keys.field), keys.entry, column});
    }
    set.keys = std::move(others);
    return {};
  }

  /// Finds the column of a field. Appends its name to `missing`, once, if there is none.
  Result<void> add(const FieldContext& context, TypedField field, std::vector<Wanted>& to,
                   std::vector<std::string>& missing) {
    const std::string& name = field.source_name();
    const MemoryColumn* const column = table_->find(name);
    if (column == nullptr) {
      if (context.targets_optional && find_target(context, field.name()) != nullptr) {
        absent_.push_back(std::move(field));
      } else if (std::ranges::count(missing, name) == 0) {
        missing.push_back(name);
      }
      return {};
    }
    const auto wrong = [&](const std::string& what, const std::string& hint) {
      return Error{ErrorCode::kConfig, str("field ", field.name(), ": ", what),
                   str("data.fields.", field.name()), hint};
    };
    const bool texts = column->kind == Kind::kTexts || column->kind == Kind::kDictionary;
    // Numbers that are also ids, such as the code "007", may be texts.
    const bool ids = std::ranges::any_of(context.data.fields, [&](const FieldSpec& other) {
      return other.source_name() == name && other.type == FieldType::kString && !other.is_label();
    });
    if (texts && field.type() != FieldType::kString && !field.is_bag() &&
        !(ids && field.floats() != nullptr))
      return wrong("is declared as numbers, but the column contains texts",
                   "convert the column to numbers");
    if (column->kind == Kind::kPairs)
      return wrong("is declared as numbers, but the column contains pairs of keys and values",
                   "set type = \"int64\" and shape = [-1]");
    if (field.type() == FieldType::kInt64 && !texts && !column->type.is_integer())
      return wrong(str("is declared int64, but the column contains ", npy_type_name(column->type)),
                   "convert the column to integers");
    if (!field.is_bag() && field.floats() != nullptr && field.floats()->width() != column->width)
      return wrong(str("has ", field.floats()->width(),
                       " numbers in each record, but the column has ", column->width),
                   "give the column as it was for training");
    to.push_back({.field = std::move(field), .column = column, .trim = context.data.trim});
    if (!context.data.missing.empty()) to.back().missing.emplace(context.data);
    return {};
  }

  std::shared_ptr<const MemoryTable> table_;
  std::vector<Wanted> fields_, condition_;
  std::vector<WantedPairs> pairs_;
  std::vector<TypedField> absent_;  // targets without a column
};

class ColumnWindows final : public WindowSource {
 public:
  ColumnWindows(const plan::ShardRange& range, const WindowMemory& memory,
                std::shared_ptr<const MemoryTable> table)
      : range_(range), records_(memory.records), table_(std::move(table)) {
    row_bytes_ = table_->row_bytes();
    begin_ = next_ = (range.begin + row_bytes_ - 1) / row_bytes_;
    end_ = std::min((range.end + row_bytes_ - 1) / row_bytes_, table_->rows);
    rows_per_window_ = std::clamp<uint64_t>(memory.window_bytes / row_bytes_, 1, kWindowRecordsMax);
  }

  Result<bool> next(Window& window) override {
    records_.clear();
    if (next_ >= end_) return false;
    const uint64_t count = std::min(rows_per_window_, end_ - next_);
    window.begin_progress = progress();
    records_.resize(size_t(count));
    for (uint32_t i = 0; i < count; ++i) records_[i] = {.begin = i, .size = 1};
    // A row has no bytes of its own. Its position in the text is its number (hash()).
    window.text = reinterpret_cast<const char*>(table_.get()) + next_;
    window.offset = next_;
    window.records = &records_;
    next_ += count;
    window.end_progress = progress();
    return true;
  }
  bool at_end() const override { return next_ >= end_; }
  uint64_t first_offset() const override { return begin_ * row_bytes_; }
  uint64_t end_offset() const override { return next_ * row_bytes_; }
  std::string locate(uint64_t offset) override { return str("row ", offset, " of the data"); }

 private:
  uint64_t progress() const {
    return std::clamp(next_ * row_bytes_, range_.begin, range_.end) - range_.begin;
  }

  const plan::ShardRange range_;
  std::vector<RecordRef>& records_;
  const std::shared_ptr<const MemoryTable> table_;
  uint64_t row_bytes_ = 1, begin_ = 0, next_ = 0, end_ = 0, rows_per_window_ = 1;
};

Result<ShardRecords> open_columns(const FieldContext& context, const plan::FileInfo& info,
                                  const plan::ShardRange& range, const WindowMemory& memory) {
  DP_TRY(const auto table, find_table(info.path));
  ShardRecords out;
  DP_TRY(out.parser, ColumnParser::make(context, table));
  out.source = std::make_unique<ColumnWindows>(range, memory, table);
  return out;
}

Result<uint64_t> mean_bytes(const DataSpec&, const std::string& path) {
  DP_TRY(const auto table, find_table(path));
  return table->row_bytes();
}

}  // namespace

const Format kMemoryColumns{
    .layout = RecordLayout::kColumns, .open_rows = open_columns, .mean_record_bytes = mean_bytes};

}  // namespace downpour::data
