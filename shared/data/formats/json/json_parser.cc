// JSON lines parser: each line is an object. A field is a member of it, or of a nested object
// ("a.b").
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <type_traits>

#include "shared/data/formats/json/json_rules.h"
#include "shared/data/formats/json/json_scan.h"
#include "shared/data/formats/sniff_columns.h"
#include "shared/data/formats/text/text_lines.h"
#include "shared/data/formats/typed_parser.h"
#include "shared/data/records/delimited.h"
#include "shared/data/values/number.h"

namespace downpour::data {
namespace {

constexpr const char* kJsonHint =
    "each line must be one JSON object; or set data.bad_records = \"skip\"";
constexpr int kNestedMax = 16;

/// Fields and the members of an object that they read.
class JsonFields {
 public:
  JsonFields() = default;
  explicit JsonFields(std::vector<TypedField> fields) : fields_(std::move(fields)) {
    nodes_.emplace_back();
    seen_ = SeenFields(fields_.size());
    for (uint32_t i = 0; i < fields_.size(); ++i) {
      const std::string& path = fields_[i].source_name();
      add(path, i);
      // The name of a member may itself contain a point.
      if (path.find('.') != std::string::npos) nodes_[child(0, path)].fields.push_back(i);
    }
  }

  void adapt(const DataSpec& data, const JsonRules& rules) {
    if (rules.texts_are_cells) missing_.emplace(data);
    trim_ = rules.texts_are_cells && data.trim;
    numbers_as_texts_ = rules.numbers_as_texts;
  }

  bool read(json::Parser& parser, std::string_view line, Columns& columns, Fault& fault) {
    seen_.begin_record();
    const auto read = [&](json::Object& object) { return read_object(object, 0, columns, fault); };
    if (!json::read_line(parser, line, kJsonHint, fault, read)) return false;
    return seen_.fill_missing(fields_, columns, fault);
  }

 private:
  /// A member that a field reads, or that contains such a member.
  struct Node {
    std::vector<std::pair<std::string, uint32_t>> children;
    std::vector<uint32_t> fields;
  };

  uint32_t child(uint32_t node, std::string_view name) {
    for (const auto& [known, number] : nodes_[node].children)
      if (known == name) return number;
    const auto number = uint32_t(nodes_.size());
    nodes_[node].children.emplace_back(name, number);
    nodes_.emplace_back();
    return number;
  }
  void add(std::string_view path, uint32_t field) {
    uint32_t node = 0;
    for (;;) {
      const size_t point = path.find('.');
      node = child(node, path.substr(0, point));
      if (point == std::string_view::npos) break;
      path.remove_prefix(point + 1);
    }
    nodes_[node].fields.push_back(field);
  }

  /// Returns an error of simdjson, or kOther with `fault` set.
  json::ErrorCode read_object(json::Object& object, uint32_t node, Columns& columns, Fault& fault) {
    const auto& children = nodes_[node].children;
    size_t next = 0;  // most objects have their members in the same order
    for (auto member : object) {
      std::string_view name;
      if (const json::ErrorCode error = member.unescaped_key().get(name)) return error;
      uint32_t found = 0;
      for (size_t i = 0; i < children.size() && found == 0; ++i) {
        if (next >= children.size()) next = 0;
        const auto& [known, number] = children[next++];
        if (known == name) found = number;
      }
      if (found == 0) continue;
      json::Value value;
      if (const json::ErrorCode error = member.value().get(value)) return error;
      if (const json::ErrorCode error = read_member(value, found, columns, fault)) return error;
    }
    return json::kSuccess;
  }

  json::ErrorCode read_member(json::Value& value, uint32_t node, Columns& columns, Fault& fault) {
    json::Type type;
    if (const json::ErrorCode error = value.type().get(type)) return error;
    if (type == json::Type::object) {
      json::Object object;
      if (const json::ErrorCode error = value.get_object().get(object)) return error;
      if (!nodes_[node].fields.empty())
        return mismatch(fields_[nodes_[node].fields[0]], "an object", fault);
      return read_object(object, node, columns, fault);
    }
    if (type == json::Type::null) {
      bool is_null = false;
      return value.is_null().get(is_null);
    }
    const std::vector<uint32_t>& wanted = nodes_[node].fields;
    if (wanted.empty()) return json::kSuccess;
    if (type == json::Type::string && missing_) {
      std::string_view text;
      if (const json::ErrorCode error = value.get_string().get(text)) return error;
      if (trim_) text = trimmed(text);
      return missing_->matches(text) ? json::kSuccess : fill_text(text, columns, wanted, fault);
    }
    if (type == json::Type::number && missing_ && is_mark(token_of(value))) return json::kSuccess;
    if (wanted.size() == 1) {
      FieldWriter writer = fields_[wanted[0]].begin(columns);
      return fill({&writer, 1}, value, wanted, fault);
    }
    writers_.clear();
    for (const uint32_t field : wanted) writers_.push_back(fields_[field].begin(columns));
    return fill(writers_, value, wanted, fault);
  }

  /// Returns the characters of a number, as they are in the line.
  static std::string_view token_of(json::Value& value) {
    const std::string_view token = value.raw_json_token();  // with the blanks after it
    return token.substr(0, token.find_first_of(" \t\r\n"));
  }

  bool is_mark(std::string_view token) const {
    return missing_->matches(token) || missing_->matches_number(token);
  }

  /// Gives a text to all fields that read it, as a cell of a table.
  json::ErrorCode fill_text(std::string_view text, Columns& columns,
                            const std::vector<uint32_t>& wanted, Fault& fault) {
    // Numbers that are also ids, such as the code "007", may be texts.
    const bool ids = std::ranges::any_of(wanted, [&](uint32_t field) {
      return fields_[field].type() == FieldType::kString && !fields_[field].spec().is_label();
    });
    cell_.assign(text);
    cell_.append(kPadBytes, '\0');
    for (const uint32_t field : wanted) {
      FieldWriter writer = fields_[field].begin(columns);
      const std::string_view cell(cell_.data(), text.size());
      if (!writer.take_cell(cell, fault, ids) || !writer.finish(fault)) {
        if (fault.made.empty()) fault.made = std::string(fault.text);
        fault.text = {};
        return json::kOther;
      }
      seen_.note(field);
    }
    return json::kSuccess;
  }

  /// Gives a member to all fields that read it, value by value, because simdjson yields each value
  /// only once.
  json::ErrorCode fill(std::span<FieldWriter> writers, json::Value& value,
                       const std::vector<uint32_t>& wanted, Fault& fault) {
    if (const json::ErrorCode error = read_values(value, writers, 0, fault)) return error;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!writers[i].finish(fault)) return json::kOther;
      seen_.note(wanted[i]);
    }
    return json::kSuccess;
  }

  json::ErrorCode mismatch(const TypedField& field, const char* found, Fault& fault) {
    fault = {.reason = "is not a value, but the field needs one",
             .field = &field.name(),
             .made = found,
             .hint = kJsonHint};
    return json::kOther;
  }

  template <typename Value>
  json::ErrorCode give(Value value, std::span<FieldWriter> writers, Fault& fault) {
    for (FieldWriter& writer : writers) {
      if constexpr (std::is_arithmetic_v<Value>) {
        if (takes_text(writer)) {
          if (!take_as_text(value, writer, fault)) return json::kOther;
          continue;
        }
      }
      if (!writer.take(value, fault)) return json::kOther;
    }
    return json::kSuccess;
  }
  bool takes_text(const FieldWriter& writer) const {
    const TypedField& field = writer.field();
    return field.type() == FieldType::kString &&
           (numbers_as_texts_ || asks_missing(writer) || field.floats() != nullptr);
  }
  /// Returns true if the field only says whether there is a value.
  static bool asks_missing(const FieldWriter& writer) {
    return writer.field().spec().positive == std::vector<std::string>{""};
  }
  /// Gives a number to a string field.
  template <typename Value>
  static bool take_as_text(Value value, FieldWriter& writer, Fault& fault) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, value);
    return writer.take(std::string_view(text, size_t(end.ptr - text)), fault);
  }
  json::ErrorCode give_integer_or_real(double value, std::span<FieldWriter> writers, Fault& fault) {
    // 3.0 is accepted as an integer by int64 fields.
    const bool whole = std::abs(value) < 9e18 && value == std::floor(value);
    for (FieldWriter& writer : writers) {
      const bool integer = whole && writer.field().type() == FieldType::kInt64;
      if (takes_text(writer)) {
        if (!(whole ? take_as_text(int64_t(value), writer, fault)
                    : take_as_text(value, writer, fault)))
          return json::kOther;
        continue;
      }
      if (!(integer ? writer.take(int64_t(value), fault) : writer.take(value, fault)))
        return json::kOther;
    }
    return json::kSuccess;
  }

  /// Checks the number of values of an array inside arrays.
  static json::ErrorCode check_row(std::span<FieldWriter> writers, int depth, size_t count,
                                   Fault& fault) {
    if (depth == 0) return json::kSuccess;  // finish() checks all values
    for (const FieldWriter& writer : writers) {
      const std::vector<int64_t>& shape = writer.field().spec().shape;
      if (shape.size() <= size_t(depth)) continue;
      const std::vector<int64_t> row(shape.begin() + depth, shape.end());
      if (elements_of(row) == count) continue;
      fault = {.reason = "has an inner array of another length than its shape",
               .field = &writer.field().name(),
               .made = str(count, count == 1 ? " value" : " values"),
               .hint = kJsonHint};
      return json::kOther;
    }
    return json::kSuccess;
  }

  json::ErrorCode read_values(json::Value& value, std::span<FieldWriter> writers, int depth,
                              Fault& fault) {
    json::Type type;
    if (const json::ErrorCode error = value.type().get(type)) return error;
    const TypedField& field = writers[0].field();
    if (type == json::Type::array) {
      json::Array array;
      if (const json::ErrorCode error = value.get_array().get(array)) return error;
      if (depth == kNestedMax) {
        fault = {.reason = "is nested too deep", .field = &field.name(), .hint = kJsonHint};
        return json::kOther;
      }
      const size_t before = writers[0].count();
      for (auto element : array) {
        json::Value inner;
        if (const json::ErrorCode error = element.get(inner)) return error;
        if (const json::ErrorCode error = read_values(inner, writers, depth + 1, fault))
          return error;
      }
      return check_row(writers, depth, writers[0].count() - before, fault);
    }
    if (type == json::Type::number) {
      return json::read_number(value, [&]<typename T>(T number) {
        if constexpr (std::is_same_v<T, double>) {
          return give_integer_or_real(number, writers, fault);
        } else {
          return give(number, writers, fault);
        }
      });
    }
    if (type == json::Type::string) {
      std::string_view text;
      if (const json::ErrorCode error = value.get_string().get(text)) return error;
      return give(text, writers, fault);
    }
    if (type == json::Type::boolean) {
      bool flag = false;
      if (const json::ErrorCode error = value.get_bool().get(flag)) return error;
      for (const FieldWriter& writer : writers) {
        if (!takes_text(writer) || asks_missing(writer)) continue;
        fault = {.reason = "is true or false; send the text that the training data has",
                 .field = &writer.field().name(),
                 .made = flag ? "true" : "false",
                 .hint = kJsonHint};
        return json::kOther;
      }
      return give(int64_t{flag}, writers, fault);
    }
    return mismatch(field, type == json::Type::null ? "null" : "an object", fault);
  }

  std::vector<TypedField> fields_;
  std::vector<Node> nodes_;  // the first one is the object of the line
  SeenFields seen_;
  std::string cell_;                     // a text with readable bytes after it
  std::optional<MissingMarks> missing_;  // of JsonRules::texts_are_cells
  bool trim_ = false;
  bool numbers_as_texts_ = false;
  std::vector<FieldWriter> writers_;  // for a member that several fields read
};

class JsonParser final : public TypedParser<JsonFields> {
 public:
  static Result<std::unique_ptr<RecordParser>> make(const FieldContext& context,
                                                    const JsonRules& rules) {
    auto parser = std::make_unique<JsonParser>();
    DP_TRY_VOID(parser->set_fields(context));
    parser->fields_.adapt(context.data, rules);
    return std::unique_ptr<RecordParser>(std::move(parser));
  }

  bool parse(const char* begin, const char* end, uint64_t, Columns& columns,
             Fault& fault) override {
    const std::string_view line(begin, size_t(end - begin));
    if (filter_ != nullptr &&
        (!condition_.read(parser_, line, columns, fault) || !filter_->passes(fault)))
      return false;
    return fields_.read(parser_, line, columns, fault);
  }

 private:
  json::Parser parser_;
};

Result<std::unique_ptr<RecordParser>> make_json_parser(const FieldContext& context,
                                                       const plan::FileInfo& /*info*/) {
  return JsonParser::make(context, {});
}

}  // namespace

Result<std::unique_ptr<RecordParser>> make_json_parser(const FieldContext& context,
                                                       const JsonRules& rules) {
  return JsonParser::make(context, rules);
}

const Format kJsonLines =
    format_of_lines(RecordLayout::kJsonLines, sniff_json_lines, make_json_parser);

}  // namespace downpour::data
