// CSV parser: CSV with the quoting of RFC 4180, TSV, and Criteo's TSV.
#include <algorithm>
#include <utility>

#include "shared/data/formats/sniff_columns.h"
#include "shared/data/formats/text/split_cells.h"
#include "shared/data/formats/text/table_columns.h"
#include "shared/data/formats/text/text_lines.h"
#include "shared/data/records/delimited.h"
#include "shared/data/values/declared_fields.h"
#include "shared/data/values/number.h"

namespace downpour::data {
namespace {

constexpr const char* kCsvHint =
    "correct the line or data.columns, or set data.bad_records = \"skip\"";

class CsvParser final : public RecordParser {
 public:
  static Result<std::unique_ptr<RecordParser>> make(const FieldContext& context,
                                                    const std::vector<std::string>& names,
                                                    const std::string& where) {
    auto parser = std::make_unique<CsvParser>();
    DP_TRY(parser->delimiter_, delimiter_of(context.data));
    parser->quotes_ = traits_of(context.data.format).quotes;
    parser->quoted_newlines_ = context.data.quoted_newlines;
    parser->trim_ = context.data.trim;
    parser->cells_.resize(names.size());
    DP_TRY(FieldSet set, FieldSet::make(context));
    parser->adopt(set);
    for (FieldSet::Floats& floats : set.floats) {
      auto cell = cell_of(floats.spec, names, where, context.data);
      const bool target = find_target(context, floats.spec.name) != nullptr;
      if (!cell && !(context.targets_optional && target)) return std::move(cell).error();
      auto& wanted = cell ? parser->floats_ : parser->absent_;
      wanted.push_back({cell ? *cell : 0, floats.column, std::move(floats.field)});
    }
    const size_t floats = parser->floats_.size();
    parser->texts_.resize(floats);
    parser->numbers_ = std::make_unique<float[]>(floats);
    parser->short_ = std::make_unique<bool[]>(floats);
    for (FieldSet::Keys& keys : set.keys) {
      DP_TRY(const uint32_t cell, cell_of(keys.spec, names, where, context.data));
      parser->keys_.push_back({cell, keys.entry, std::move(keys.field)});
    }
    DP_TRY(parser->filter_, RecordFilter::make(context.data));
    for (size_t i = 0; parser->filter_ != nullptr && i < parser->filter_->inputs().size(); ++i) {
      DP_TRY(const uint32_t cell,
             cell_of(parser->filter_->inputs()[i], names, where, context.data));
      parser->filter_cells_.push_back(cell);
    }
    return std::unique_ptr<RecordParser>(std::move(parser));
  }

  bool parse(const char* begin, const char* end, uint64_t, Columns& columns,
             Fault& fault) override {
    size_t count = 0;
    if (!split_cells(begin, end, delimiter_, quotes_, cells_, count, store_)) {
      return bad(quoted_newlines_
                     ? "has a quote that is not closed, or text after a closing quote"
                     : "has a quote that is not closed, or text after a closing quote (a line "
                       "break inside quotes needs data.quoted_newlines = true)",
                 begin, end, fault);
    }
    if (count != cells_.size()) {
      return bad(count < cells_.size() ? "has fewer columns than were declared"
                                       : "has more columns than were declared",
                 begin, end, fault);
    }
    if (filter_ != nullptr && !passes(fault)) return false;
    if (!read_floats(columns, fault)) return false;
    for (const Wanted<FloatField>& wanted : absent_) {
      if (!wanted.field.convert_missing(place_of(wanted, columns), fault)) return false;
    }
    for (const Wanted<KeyField>& wanted : keys_) {
      if (!read_keys(wanted, columns, fault)) return false;
    }
    return true;
  }

 private:
  template <typename Field>
  struct Wanted {
    uint32_t cell;
    uint32_t column;
    Field field;
  };

  static float* place_of(const Wanted<FloatField>& wanted, Columns& columns) {
    return &(*columns.floats)[wanted.column].values[size_t(columns.record) * wanted.field.width()];
  }

  static Result<uint32_t> cell_of(const FieldSpec& spec, const std::vector<std::string>& names,
                                  const std::string& where, const DataSpec& data) {
    const std::string& column = spec.column.empty() ? spec.name : spec.column;
    const auto found = std::find(names.begin(), names.end(), column);
    if (found != names.end()) return uint32_t(found - names.begin());
    std::string there;
    for (size_t i = 0; i < std::min<size_t>(names.size(), 50); ++i)
      there += (i == 0 ? "" : ", ") + names[i];
    const bool tabs = names.size() == 1 && names[0].find('\t') != std::string::npos;
    return Error{ErrorCode::kConfig,
                 str("field ", spec.name, ": there is no column \"", column, "\""), where,
                 str("the columns are: ", shown(there),
                     tabs          ? "; they are separated by tabs: set format = \"tsv\""
                     : data.header ? ""
                                   : "; if the first line has the names: data.header = true")};
  }

  static bool bad(const char* reason, const char* begin, const char* end, Fault& fault) {
    fault = {
        .reason = reason, .field = nullptr, .text = {begin, size_t(end - begin)}, .hint = kCsvHint};
    return false;
  }

  std::string_view cell(uint32_t index) const {
    return trim_ ? trimmed(cells_[index]) : cells_[index];
  }

  bool passes(Fault& fault) {
    for (size_t i = 0; i < filter_cells_.size(); ++i) {
      if (!filter_->set_text(i, cell(filter_cells_[i]), fault)) return false;
    }
    return filter_->passes(fault);
  }

  /// Parses all numbers at once as short numbers. A cell for which that fails is then converted by
  /// itself.
  bool read_floats(Columns& columns, Fault& fault) {
    for (size_t i = 0; i < floats_.size(); ++i) texts_[i] = cell(floats_[i].cell);
    parse_short_floats(texts_, numbers_.get(), short_.get());
    for (size_t i = 0; i < floats_.size(); ++i) {
      const Wanted<FloatField>& wanted = floats_[i];
      float* const to = place_of(wanted, columns);
      const bool taken = short_[i] && wanted.field.takes_short_numbers()
                             ? wanted.field.take_number(numbers_[i], texts_[i], to, fault)
                             : wanted.field.convert(texts_[i], to, fault);
      if (!taken) return false;
    }
    return true;
  }

  bool read_keys(const Wanted<KeyField>& wanted, Columns& columns, Fault& fault) {
    KeyBuffer& buffer = (*columns.keys)[wanted.column];
    const std::string_view text = cell(wanted.cell);
    if (wanted.field.is_bag()) {
      if (!wanted.field.append(text, buffer, fault)) return false;
      buffer.offsets[columns.record + 1] = uint32_t(buffer.count);
      return true;
    }
    uint64_t& key = buffer.keys[columns.record];
    if (wanted.field.is_number()) {
      float& value = buffer.values[columns.record];
      if (!wanted.field.convert_number(text, key, value, fault)) return false;
      buffer.all_one &= value == 1.0F;
    } else if (!wanted.field.convert(text, key, fault)) {
      return false;
    }
    buffer.count = columns.record + 1;
    return true;
  }

  char delimiter_ = ',';
  bool quotes_ = false, quoted_newlines_ = false, trim_ = false;
  std::vector<std::string_view> cells_;
  std::string store_;
  std::vector<Wanted<FloatField>> floats_;
  std::vector<Wanted<FloatField>> absent_;  // targets whose columns the file does not have
  std::vector<Wanted<KeyField>> keys_;
  // One element for each of floats_, for the current record.
  std::vector<std::string_view> texts_;
  std::unique_ptr<float[]> numbers_;
  std::unique_ptr<bool[]> short_;
  std::vector<uint32_t> filter_cells_;  // one for each input of the filter
};

Result<std::unique_ptr<RecordParser>> make_table_parser(const FieldContext& context,
                                                        const plan::FileInfo& info) {
  DP_TRY(const std::vector<std::string> columns, columns_for(context, info));
  return CsvParser::make(context, columns, info.path);
}

}  // namespace

const Format kTables = format_of_lines(RecordLayout::kTable, sniff_table, make_table_parser);

}  // namespace downpour::data
