// Decoders of text lines: tables and libsvm.
#include <algorithm>
#include <charconv>

#include "shared/data/formats/parser.h"
#include "shared/data/formats/text/table_columns.h"
#include "shared/data/records/delimited.h"
#include "shared/data/values/number.h"
#include "tools/data/decoders.h"

namespace downpour::tools {
namespace {

constexpr const char* kLineHint = "correct the line, or skip bad records";

bool bad_line(const char* reason, std::string_view line, data::Fault& fault) {
  fault = {.reason = reason, .text = line, .hint = kLineHint};
  return false;
}

/// Parses "12" but rejects "007", which is more likely an identifier than a number.
bool integer_of(std::string_view text, int64_t& value) {
  const size_t sign = !text.empty() && text[0] == '-' ? 1 : 0;
  if (text.size() > sign + 1 && text[sign] == '0') return false;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc{} && end.ptr == text.data() + text.size() && text != "-0";
}

bool real_of(std::string_view text, double& value) {
  const size_t sign = !text.empty() && text[0] == '-' ? 1 : 0;
  if (text.size() <= sign || (!data::is_digit(text[sign]) && text[sign] != '.')) return false;
  // Reject digits that integer_of() rejects: "007", or too many digits.
  if (std::all_of(text.begin() + ptrdiff_t(sign), text.end(), data::is_digit) && text != "-0")
    return false;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc{} && end.ptr == text.data() + text.size();
}

class TableDecoder final : public RecordDecoder {
 public:
  static Result<std::unique_ptr<RecordDecoder>> make(const DataSpec& data, const std::string& path,
                                                     std::vector<ValueField> fields,
                                                     Unnamed unnamed) {
    auto out = std::make_unique<TableDecoder>(data);
    DP_TRY(out->delimiter_, data::delimiter_of(data));
    DP_TRY(const std::vector<std::string> columns, data::columns_of(data, path));
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
      : quotes_(data.format == DataFormat::kCsv), trim_(data.trim), missing_(data) {}

  bool decode(const RawRecord& record, std::vector<FieldValues>& values,
              data::Fault& fault) override {
    begin(values);
    size_t count = 0;
    if (!data::split_line(record.bytes, delimiter_, quotes_, cells_, count, store_))
      return bad_line("has a quote that is not closed, or text after a closing quote", record.bytes,
                      fault);
    if (count != cells_.size()) {
      return bad_line(count < cells_.size() ? "has fewer columns than there are names"
                                            : "has more columns than there are names",
                      record.bytes, fault);
    }
    for (size_t i = 0; i < fields_.size(); ++i) {
      std::string_view text = cells_[cell_of_[i]];
      if (trim_) text = data::trimmed(text);
      if (missing_.matches(text)) continue;
      if (fields_[i].spec.is_bag()) {
        add_words(text, values[i]);
      } else {
        add(text, fields_[i].kind, values[i]);
      }
    }
    return true;
  }

 private:
  /// Adds a value of kind `kind` if the text has that form; otherwise of the kind of its own form.
  static void add(std::string_view text, ValueKind kind, FieldValues& to) {
    int64_t integer = 0;
    double real = 0;
    if (kind == ValueKind::kText) {
      to.add_text(text);
    } else if (kind != ValueKind::kReal && integer_of(text, integer)) {
      to.add(integer);
    } else if (real_of(text, real) || (kind == ValueKind::kReal && any_number(text, real))) {
      to.add_real(real, false);
    } else {
      to.add_text(text);
    }
  }
  /// Parses the text of a field that is declared as a number; accepts "007" and "+1", too.
  static bool any_number(std::string_view text, double& value) {
    if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
    if (text.empty() || (text[0] | 0x20) == 'i' || (text[0] | 0x20) == 'n') return false;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    return end.ec == std::errc{} && end.ptr == text.data() + text.size();
  }
  static void add_words(std::string_view text, FieldValues& to) {
    to.list = true;
    while (!text.empty()) {
      const size_t end = std::min(text.find(' '), text.size());
      if (end > 0) to.add_text(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  char delimiter_ = ',';
  const bool quotes_, trim_;
  const data::MissingMarks missing_;
  std::vector<std::string_view> cells_;
  std::vector<size_t> cell_of_;  // index of the cell, per field
  std::string store_;
};

/// Decodes "label key:value ..." and "label field:key:value ..." into a label and one field with
/// all features.
class LibsvmDecoder final : public RecordDecoder {
 public:
  LibsvmDecoder(const DataSpec& data, std::vector<ValueField> fields, Unnamed unnamed)
      : ffm_(data.format == DataFormat::kLibffm) {
    fields_ = std::move(fields);
    for (const char* name : {"label", "features"}) {
      const auto found = std::find_if(fields_.begin(), fields_.end(), [&](const ValueField& field) {
        return field.spec.source_name() == name;
      });
      if (found == fields_.end() && unnamed == Unnamed::kAdd)
        fields_.push_back({.name = name, .spec = {.name = name}});
    }
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].spec.source_name() == "label") label_ = i;
      if (fields_[i].spec.source_name() == "features") features_ = i;
    }
  }

  bool decode(const RawRecord& record, std::vector<FieldValues>& values,
              data::Fault& fault) override {
    begin(values);
    std::string_view line = record.bytes.substr(0, record.bytes.find('#'));
    std::string_view word = next_word(line);
    if (word.find(':') == std::string_view::npos) {
      int64_t integer = 0;
      double real = 0;
      if (!word.empty() && word[0] == '+') word.remove_prefix(1);
      if (integer_of(word, integer)) {
        if (label_ != kIgnored) values[label_].add(integer);
      } else if (real_of(word, real)) {
        if (label_ != kIgnored) values[label_].add_real(real, false);
      } else {
        return bad_line("does not begin with a label (a finite number)", record.bytes, fault);
      }
      word = next_word(line);
    }
    FieldValues ignored;
    FieldValues& to = features_ == kIgnored ? ignored : values[features_];
    to.kind = ValueKind::kPairs;
    to.list = to.single = true;
    for (; !word.empty(); word = next_word(line))
      if (!add_pair(word, to, record.bytes, fault)) return false;
    return true;
  }

 private:
  static std::string_view next_word(std::string_view& line) {
    const size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(" \t"), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(end);
    return word;
  }
  bool add_pair(std::string_view word, FieldValues& to, std::string_view line,
                data::Fault& fault) const {
    if (word.starts_with("qid:")) return true;
    uint64_t group = 0, key = 0;
    float value = 0;
    const char* p = word.data();
    if (ffm_) {
      p = data::parse_uint(p, group);
      if (p == nullptr || *p++ != ':')
        return bad_line("has a feature that is not field:key:value", line, fault);
      to.groups.push_back(group);
    }
    p = data::parse_uint(p, key);
    if (p == nullptr || *p != ':' || key > uint64_t(INT64_MAX))
      return bad_line("has a feature whose key is not a number", line, fault);
    p = data::parse_float(p + 1, value);
    if (p == nullptr || p != word.data() + word.size())
      return bad_line("has a feature whose value is not a finite number", line, fault);
    to.integers.push_back(int64_t(key));
    to.reals.push_back(double(value));
    return true;
  }

  const bool ffm_;
  size_t label_ = kIgnored, features_ = kIgnored;
};

}  // namespace

Result<std::unique_ptr<RecordDecoder>> make_table_decoder(const DataSpec& data,
                                                          const std::string& path,
                                                          std::vector<ValueField> fields,
                                                          Unnamed unnamed) {
  return TableDecoder::make(data, path, std::move(fields), unnamed);
}

std::unique_ptr<RecordDecoder> make_libsvm_decoder(const DataSpec& data,
                                                   std::vector<ValueField> fields,
                                                   Unnamed unnamed) {
  return std::make_unique<LibsvmDecoder>(data, std::move(fields), unnamed);
}

}  // namespace downpour::tools
