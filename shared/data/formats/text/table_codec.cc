// Decoder and encoder of tables: CSV, TSV and Criteo's TSV.
#include <algorithm>
#include <charconv>

#include "shared/data/formats/codec.h"
#include "shared/data/formats/encode_checks.h"
#include "shared/data/formats/text/split_cells.h"
#include "shared/data/formats/text/table_columns.h"
#include "shared/data/formats/text/text_values.h"
#include "shared/data/records/delimited.h"

namespace downpour::data {
namespace {

class TableDecoder final : public RecordDecoder {
 public:
  static Result<std::unique_ptr<RecordDecoder>> make(const DataSpec& data, const std::string& path,
                                                     std::vector<ValueField> fields,
                                                     Unnamed unnamed) {
    auto out = std::make_unique<TableDecoder>(data);
    DP_TRY(out->delimiter_, delimiter_of(data));
    DP_TRY(const std::vector<std::string> columns, columns_of(data, path));
    out->cells_.resize(columns.size());
    out->fields_ = std::move(fields);
    for (const ValueField& field : out->fields_) {
      const auto found = std::find(columns.begin(), columns.end(), field.spec.source_name());
      if (found == columns.end()) {
        return Error{
            ErrorCode::kConfig,
            str("field ", field.name, ": there is no column \"", field.spec.source_name(), "\""),
            path, "downpour data head shows the columns"};
      }
      out->cell_of_.push_back(size_t(found - columns.begin()));
    }
    for (size_t i = 0; unnamed == Unnamed::kAdd && i < columns.size(); ++i) {
      const auto& cells = out->cell_of_;
      if (std::find(cells.begin(), cells.end(), i) != cells.end()) continue;
      out->fields_.push_back({.name = columns[i], .spec = {.name = columns[i]}});
      out->cell_of_.push_back(i);
    }
    return std::unique_ptr<RecordDecoder>(std::move(out));
  }
  explicit TableDecoder(const DataSpec& data)
      : quotes_(traits_of(data.format).quotes), trim_(data.trim), missing_(data) {}

  bool decode(const RawRecord& record, std::vector<FieldValues>& values, Fault& fault) override {
    begin(values);
    size_t count = 0;
    const char* const begin_of_line = record.bytes.data();
    if (!split_cells(begin_of_line, begin_of_line + record.bytes.size(), delimiter_, quotes_,
                     cells_, count, store_))
      return bad_line("has a quote that is not closed, or text after a closing quote", record.bytes,
                      fault);
    if (count != cells_.size()) {
      return bad_line(count < cells_.size() ? "has fewer columns than there are names"
                                            : "has more columns than there are names",
                      record.bytes, fault);
    }
    for (size_t i = 0; i < fields_.size(); ++i) {
      std::string_view text = cells_[cell_of_[i]];
      if (trim_) text = trimmed(text);
      if (missing_.matches(text)) continue;
      const FieldSpec& spec = fields_[i].spec;
      if (spec.is_bag() || elements_of(spec.shape) > 1) {
        const ValueKind kind = spec.type == FieldType::kString    ? ValueKind::kText
                               : spec.type == FieldType::kFloat32 ? ValueKind::kReal
                                                                  : ValueKind::kInteger;
        if (!add_list(text, kind, values[i])) {
          fault = {.reason = "has numbers and texts", .field = &fields_[i].name, .text = text};
          return false;
        }
      } else {
        add(text, fields_[i].kind, values[i]);
      }
    }
    return true;
  }

 private:
  /// Adds a value of kind `kind` if the text has that form; otherwise of the kind of its own form.
  /// Returns false if that is not the kind of the earlier values.
  static bool add(std::string_view text, ValueKind kind, FieldValues& to) {
    int64_t integer = 0;
    double real = 0;
    if (kind == ValueKind::kText) return to.add_text(text);
    if (kind != ValueKind::kReal && integer_of(text, integer)) return to.add(integer);
    if (real_of(text, real) || (kind == ValueKind::kReal && any_number(text, real)))
      return to.add_real(real, false);
    return to.add_text(text);
  }
  /// Parses the text of a field that is declared as a number; accepts "007" and "+1", too.
  static bool any_number(std::string_view text, double& value) {
    if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
    if (text.empty() || (text[0] | 0x20) == 'i' || (text[0] | 0x20) == 'n') return false;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    return end.ec == std::errc{} && end.ptr == text.data() + text.size();
  }
  static bool add_list(std::string_view text, ValueKind kind, FieldValues& to) {
    to.list = true;
    while (!text.empty()) {
      const size_t end = std::min(text.find(' '), text.size());
      if (end > 0 && !add(text.substr(0, end), kind, to)) return false;
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return true;
  }

  char delimiter_ = ',';
  const bool quotes_, trim_;
  const MissingMarks missing_;
  std::vector<std::string_view> cells_;
  std::vector<size_t> cell_of_;  // index of the cell, per field
  std::string store_;
};

class TableEncoder final : public RecordEncoder {
 public:
  static Result<std::unique_ptr<RecordEncoder>> make(const Encoding& encoding) {
    const DataFormat format = encoding.format;
    auto out = std::make_unique<TableEncoder>();
    out->delimiter_ = traits_of(format).delimiter;
    out->quotes_ = traits_of(format).quotes;
    out->breaks_ = out->quotes_ && encoding.breaks;
    out->fields_ = encoding.fields;
    for (const ValueField& field : encoding.fields) {
      if (field.kind == ValueKind::kPairs || !field.shape.empty()) {
        return cannot_encode(format, field,
                             "it has several values per record, but a cell holds one value",
                             "write tfrecord or jsonl: --to tfrecord");
      }
      if (&field != &encoding.fields.front()) out->preamble_ += out->delimiter_;
      Fault fault;
      if (!out->append_text(field.name, field, out->preamble_, fault))
        return cannot_encode(format, field, "its name can't be written in a header",
                             "rename the field in a job");
    }
    out->preamble_ += '\n';
    return std::unique_ptr<RecordEncoder>(std::move(out));
  }

  bool encode(const std::vector<FieldValues>& values, std::string& out, Fault& fault) override {
    const size_t begin = out.size();
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (i > 0) out += delimiter_;
      const FieldValues& each = values[i];
      if (each.missing()) continue;
      if (each.count() != 1)
        return refuse_value("has another number of values than in the first records", fields_[i],
                            fault);
      if (each.kind == ValueKind::kInteger) append_number(out, each.integers[0]);
      if (each.kind == ValueKind::kReal) append_number(out, each.reals[0], each.single);
      if (each.kind == ValueKind::kText && !append_text(each.texts[0], fields_[i], out, fault))
        return false;
    }
    if (out.size() == begin && quotes_) out += "\"\"";  // readers skip an empty line
    if (out.size() == begin)
      return refuse_value("is missing and the only field, which would give an empty line",
                          fields_[0], fault);
    out += '\n';
    return true;
  }

 private:
  bool append_text(std::string_view text, const ValueField& field, std::string& out,
                   Fault& fault) const {
    const bool broken = text.find_first_of("\n\r") != std::string_view::npos;
    if (broken && !breaks_)
      return refuse_value("contains a line break, which a cell of this format can't contain", field,
                          fault);
    const bool apart = broken || text.find(delimiter_) != std::string_view::npos;
    if (!quotes_) {
      if (apart)
        return refuse_value("contains a tab, which a cell of this format can't contain", field,
                            fault);
      out += text;
      return true;
    }
    const bool blank = !text.empty() && (text.front() == ' ' || text.back() == ' ');
    if (!apart && !blank && text.find('"') == std::string_view::npos) {
      out += text;
      return true;
    }
    out += '"';
    for (const char c : text) {
      if (c == '"') out += '"';
      out += c;
    }
    out += '"';
    return true;
  }

  char delimiter_ = ',';
  bool quotes_ = true, breaks_ = false;
  std::vector<ValueField> fields_;
};

}  // namespace

const Codec kTableCodec{.layout = RecordLayout::kTable,
                        .make_decoder = TableDecoder::make,
                        .make_encoder = TableEncoder::make};

}  // namespace downpour::data
