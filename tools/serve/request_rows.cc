#include "tools/serve/request_rows.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "shared/base/error_text.h"
#include "shared/base/str.h"
#include "shared/data/formats/json/json_scan.h"
#include "shared/data/formats/json/json_text.h"

namespace downpour::tools {

namespace json = data::json;

namespace {

constexpr const char* kHint =
    "send {\"rows\": [{\"NAME\": value, ...}, ...]} or {\"columns\": {\"NAME\": [value, ...], "
    "...}}; GET /v1/model lists the names";
constexpr const char* kPairsHint =
    "send {\"features\": {\"keys\": [3, 17], \"values\": [0.5, 1]}}; without `values` each is 1";

Error malformed(const std::string& what, const std::string& where = "the body") {
  return {ErrorCode::kMalformed, what, where, kHint};
}

template <typename T>
void append_chars(T value, std::string& to) {
  char text[32];
  to.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

}  // namespace

struct RequestRows::Impl {
  /// A column whose values are JSON texts.
  struct Column {
    std::string name;
    std::vector<std::string_view> values;
  };

  json::Parser body, row;
  std::vector<Column> columns;
  std::string nested;  // an input that is a member of the values of a column
  std::string text;    // rows that are not in the body
  std::vector<size_t> ends;
  std::vector<uint8_t> seen;
  // of a row of pairs
  std::vector<uint64_t> keys, groups;
  std::vector<double> values;

  json::ErrorCode read_rows(json::Value& value, size_t rows_max,
                            std::vector<std::string_view>& rows, bool& too_many);
  json::ErrorCode note_nested(json::Value& value, std::string_view name, const RowScorer& model);
  json::ErrorCode read_columns(json::Value& value, const RowScorer& model);
  Result<void> rows_of_columns(const RowScorer& model, size_t rows_max, size_t& count);
  Result<void> check_names(std::string_view text, size_t number, const RowScorer& model);
  json::ErrorCode read_pairs(json::Value& value);
  Result<void> append_line(std::string_view object, size_t number, bool grouped);
  /// Makes the rows of `text`.
  void cut(std::vector<std::string_view>& rows);
};

RequestRows::RequestRows(size_t rows_max) : rows_max_(rows_max), impl_(std::make_unique<Impl>()) {}
RequestRows::~RequestRows() = default;

json::ErrorCode RequestRows::Impl::read_rows(json::Value& value, size_t rows_max,
                                             std::vector<std::string_view>& rows, bool& too_many) {
  json::Array array;
  if (const json::ErrorCode error = value.get_array().get(array)) return error;
  for (auto element : array) {
    too_many = rows.size() == rows_max;
    if (too_many) return json::kOther;
    json::Object object;
    std::string_view row_text;
    if (const json::ErrorCode error = element.get_object().get(object)) return error;
    if (const json::ErrorCode error = object.raw_json().get(row_text)) return error;
    rows.push_back(row_text);
  }
  return json::kSuccess;
}

/// Returns the JSON text of a value.
static json::ErrorCode raw_text(json::Value& value, std::string_view& raw) {
  json::Type type;
  if (const json::ErrorCode error = value.type().get(type)) return error;
  if (type == json::Type::array) {
    json::Array array;
    if (const json::ErrorCode error = value.get_array().get(array)) return error;
    return array.raw_json().get(raw);
  }
  if (type == json::Type::object) {
    json::Object object;
    if (const json::ErrorCode error = value.get_object().get(object)) return error;
    return object.raw_json().get(raw);
  }
  raw = value.raw_json_token();
  return json::kSuccess;
}

/// Notes an input that is a member of the column's values, if these are objects.
json::ErrorCode RequestRows::Impl::note_nested(json::Value& value, std::string_view name,
                                               const RowScorer& model) {
  if (!model.may_omit()) return json::kSuccess;  // the names of tables may have points
  const auto input = std::ranges::find_if(model.inputs(), [&](const FieldSpec& field) {
    const std::string& path = field.source_name();
    return path.size() > name.size() && path[name.size()] == '.' && path.starts_with(name);
  });
  json::Type type;
  if (const json::ErrorCode error = value.type().get(type)) return error;
  if (input == model.inputs().end() || type != json::Type::array) return json::kSuccess;
  json::Array array;
  if (const json::ErrorCode error = value.get_array().get(array)) return error;
  for (auto element : array) {
    json::Value item;
    if (const json::ErrorCode error = element.get(item)) return error;
    if (const json::ErrorCode error = item.type().get(type)) return error;
    if (type == json::Type::object) nested = input->source_name();
    break;
  }
  return json::kSuccess;
}

json::ErrorCode RequestRows::Impl::read_columns(json::Value& value, const RowScorer& model) {
  json::Object object;
  if (const json::ErrorCode error = value.get_object().get(object)) return error;
  for (auto member : object) {
    std::string_view name;
    if (const json::ErrorCode error = member.unescaped_key().get(name)) return error;
    // Rows repeat the names, so those of other columns would cost memory.
    if (std::ranges::find(model.inputs(), name, &FieldSpec::source_name) == model.inputs().end()) {
      json::Value unknown;
      if (const json::ErrorCode error = member.value().get(unknown)) return error;
      if (const json::ErrorCode error = note_nested(unknown, name, model)) return error;
      continue;
    }
    Column& column = columns.emplace_back(Column{std::string(name), {}});
    json::Array array;
    if (const json::ErrorCode error = member.value().get_array().get(array)) return error;
    for (auto element : array) {
      json::Value item;
      std::string_view raw;
      if (const json::ErrorCode error = element.get(item)) return error;
      if (const json::ErrorCode error = raw_text(item, raw)) return error;
      column.values.push_back(raw);
    }
  }
  return json::kSuccess;
}

Result<void> RequestRows::Impl::rows_of_columns(const RowScorer& model, size_t rows_max,
                                                size_t& count) {
  if (!nested.empty() && std::ranges::count(columns, nested, &Column::name) == 0) {
    return malformed(
        str("a column has objects: send each of their members as a column, such as `", nested, '`'),
        "columns");
  }
  if (columns.empty()) return malformed("no column is an input of the model", "columns");
  count = columns[0].values.size();
  for (const Column& column : columns) {
    if (column.values.size() == count) continue;
    return malformed(
        str("the column `", printable_line(column.name, 80), "` has ", column.values.size(),
            " values, but `", printable_line(columns[0].name, 80), "` has ", count),
        "columns");
  }
  for (const FieldSpec& input : model.inputs()) {
    if (model.may_omit() || std::ranges::count(columns, input.source_name(), &Column::name) > 0)
      continue;
    return Error{ErrorCode::kBadData, str("the column `", input.source_name(), "` is missing"),
                 "columns", "send it; null is a missing value"};
  }
  if (count > rows_max) return {};
  std::vector<std::string> names;
  for (const Column& column : columns) {
    data::append_json_text(names.emplace_back(), column.name);
    names.back() += ':';
  }
  for (size_t r = 0; r < count; ++r) {
    text += '{';
    for (size_t c = 0; c < columns.size(); ++c) {
      if (c > 0) text += ',';
      text += names[c];
      text += columns[c].values[r];
    }
    text += '}';
    ends.push_back(text.size());
  }
  return {};
}

Result<void> RequestRows::Impl::check_names(std::string_view object, size_t number,
                                            const RowScorer& model) {
  const std::vector<FieldSpec>& inputs = model.inputs();
  seen.assign(inputs.size(), 0);
  size_t next = 0, found = 0;
  data::Fault fault;
  const auto read = [&](json::Object& members) {
    for (auto member : members) {
      std::string_view name;
      if (const json::ErrorCode error = member.unescaped_key().get(name)) return error;
      for (size_t i = 0; i < inputs.size(); ++i, ++next) {  // most rows have the same order
        if (next >= inputs.size()) next = 0;
        if (inputs[next].source_name() != name) continue;
        found += 1U - seen[next];
        seen[next++] = 1;
        break;
      }
    }
    return json::kSuccess;
  };
  if (!json::read_line(row, object, kHint, fault, read))
    return malformed(str("the row ", fault.reason), str("row ", number));
  if (found == inputs.size()) return {};
  const auto missing = std::ranges::find(seen, uint8_t{0}) - seen.begin();
  return Error{ErrorCode::kBadData,
               str("the column `", inputs[size_t(missing)].source_name(), "` is missing"),
               str("row ", number), "send it; null is a missing value"};
}

/// Appends the numbers of a list.
template <typename T>
static json::ErrorCode read_numbers(json::Value& value, std::vector<T>& to) {
  json::Array array;
  if (const json::ErrorCode error = value.get_array().get(array)) return error;
  for (auto element : array) {
    T number = 0;
    if (const json::ErrorCode error = element.get(number)) return error;
    to.push_back(number);
  }
  return json::kSuccess;
}

json::ErrorCode RequestRows::Impl::read_pairs(json::Value& value) {
  json::Type type;
  if (const json::ErrorCode error = value.type().get(type)) return error;
  if (type == json::Type::null) {
    bool is_null = false;
    return value.is_null().get(is_null);
  }
  if (type == json::Type::array) return read_numbers(value, keys);
  json::Object object;
  if (const json::ErrorCode error = value.get_object().get(object)) return error;
  for (auto member : object) {
    std::string_view name;
    json::Value list;
    if (const json::ErrorCode error = member.unescaped_key().get(name)) return error;
    if (const json::ErrorCode error = member.value().get(list)) return error;
    json::ErrorCode error = json::kSuccess;
    if (name == "keys") error = read_numbers(list, keys);
    if (name == "values") error = read_numbers(list, values);
    if (name == "fields") error = read_numbers(list, groups);
    if (error) return error;
  }
  return json::kSuccess;
}

Result<void> RequestRows::Impl::append_line(std::string_view object, size_t number, bool grouped) {
  const std::string where = str("row ", number);
  keys.clear(), groups.clear(), values.clear();
  bool has_features = false;
  data::Fault fault;
  const auto read = [&](json::Object& members) {
    for (auto member : members) {
      std::string_view name;
      json::Value value;
      if (const json::ErrorCode error = member.unescaped_key().get(name)) return error;
      if (name != "features") continue;
      has_features = true;
      if (const json::ErrorCode error = member.value().get(value)) return error;
      if (const json::ErrorCode error = read_pairs(value)) return error;
    }
    return json::kSuccess;
  };
  const auto wrong = [&](const std::string& what) {
    return Error{ErrorCode::kBadData, what, where, kPairsHint};
  };
  if (!json::read_line(row, object, kHint, fault, read))
    return wrong("the column `features` is not lists of keys and values, which are numbers");
  if (!has_features) return wrong("the column `features` is missing");
  if (values.empty()) values.resize(keys.size(), 1.0);
  if (values.size() != keys.size() || groups.size() != (grouped ? keys.size() : 0)) {
    return wrong(str("the column `features` has ", keys.size(), " keys, ", values.size(),
                     " values and ", groups.size(), " fields"));
  }
  text += '0';  // the label, which predictions do not read
  for (size_t i = 0; i < keys.size(); ++i) {
    text += ' ';
    if (grouped) append_chars(groups[i], text), text += ':';
    append_chars(keys[i], text);
    text += ':';
    append_chars(values[i], text);
  }
  ends.push_back(text.size());
  text += '\n';
  return {};
}

void RequestRows::Impl::cut(std::vector<std::string_view>& rows) {
  const size_t bytes = text.size();
  text.append(data::kPadBytes, '\0');
  rows.clear();
  size_t begin = 0;
  for (const size_t end : ends) {
    rows.push_back(std::string_view(text).substr(begin, end - begin));
    begin = end < bytes && text[end] == '\n' ? end + 1 : end;
  }
}

Result<void> RequestRows::find_rows(std::string_view body, const RowScorer& model) {
  Impl& impl = *impl_;
  bool too_many = false, by_column = false;
  int lists = 0;
  json::ErrorCode error = json::kSuccess;
  data::Fault fault;
  const auto read = [&](json::Object& members) {
    for (auto member : members) {
      std::string_view name;
      json::Value value;
      if ((error = member.unescaped_key().get(name))) return error;
      const bool columns = name == "columns" || name == "inputs";
      if (!columns && name != "rows" && name != "instances") continue;
      if (++lists > 1) break;
      by_column = columns;
      if ((error = member.value().get(value))) return error;
      error = columns ? impl.read_columns(value, model)
                      : impl.read_rows(value, rows_max_, rows_, too_many);
      if (error) return error;
    }
    return json::kSuccess;
  };
  const bool good = json::read_line(impl.body, body, kHint, fault, read);
  if (lists > 1) return malformed("the body has `rows` and `columns`, or one of them twice");
  if (!good && error == simdjson::INCORRECT_TYPE)
    return malformed("`rows` must be a list of objects, and `columns` an object of lists");
  if (!good && !too_many) return malformed(str("the body ", fault.reason));
  if (lists == 0) return malformed("the body has neither `rows` nor `columns`");
  size_t count = rows_.size();
  if (by_column) {
    DP_TRY_VOID(impl.rows_of_columns(model, rows_max_, count));
  }
  if (too_many || count > rows_max_) {
    return Error{ErrorCode::kUsage, str("the request has more than ", rows_max_, " rows"),
                 "the body", "send several requests, or raise --max-rows"};
  }
  if (by_column) impl.cut(rows_);
  return {};
}

Result<void> RequestRows::read(std::string_view body, const RowScorer& model) {
  Impl& impl = *impl_;
  rows_.clear();
  impl.columns.clear();
  impl.nested.clear();
  impl.text.clear();
  impl.ends.clear();
  DP_TRY_VOID(find_rows(body, model));
  if (model.takes_lines()) {
    // The objects are in the body, or in the text, which has its pad bytes and so does not move.
    const std::vector<std::string_view> objects = std::move(rows_);
    const std::string of_columns = std::move(impl.text);
    impl.text.clear();
    impl.ends.clear();
    for (size_t i = 0; i < objects.size(); ++i)
      DP_TRY_VOID(impl.append_line(objects[i], i, model.grouped()));
    impl.cut(rows_);
  } else if (impl.columns.empty() && !model.may_omit()) {
    for (size_t i = 0; i < rows_.size(); ++i) DP_TRY_VOID(impl.check_names(rows_[i], i, model));
  }
  return {};
}

}  // namespace downpour::tools
