// Decoder and encoder of JSON lines. A member of a nested object is named "a.b".
#include <cmath>

#include "shared/data/formats/codec.h"
#include "shared/data/formats/encode_checks.h"
#include "shared/data/formats/json/json_scan.h"
#include "shared/data/formats/json/json_text.h"

namespace downpour::data {
namespace {

constexpr const char* kJsonHint = "each line must be one JSON object; or skip bad records";
constexpr int kNestedMax = 16;

class JsonDecoder final : public RecordDecoder {
 public:
  using RecordDecoder::RecordDecoder;

  bool decode(const RawRecord& record, std::vector<FieldValues>& values, Fault& fault) override {
    begin(values);
    fault = {};
    const bool good = json::read_line(
        parser_, record.bytes, kJsonHint, fault,
        [&](json::Object& object) { return read_object(object, "", 0, values, fault); });
    copy_repeated(values);
    return good;
  }

 private:
  json::ErrorCode read_object(json::Object& object, const std::string& prefix, int depth,
                              std::vector<FieldValues>& values, Fault& fault) {
    if (depth == kNestedMax) return odd("is nested too deep", fault);
    for (auto member : object) {
      std::string_view key;
      json::Value value;
      json::Type type;
      if (const json::ErrorCode error = member.unescaped_key().get(key)) return error;
      name_.assign(prefix).append(key);
      if (const json::ErrorCode error = member.value().get(value)) return error;
      if (const json::ErrorCode error = value.type().get(type)) return error;
      if (type == json::Type::object) {
        json::Object inner;
        if (const json::ErrorCode error = value.get_object().get(inner)) return error;
        const std::string path = name_ + ".";
        if (const json::ErrorCode error = read_object(inner, path, depth + 1, values, fault))
          return error;
        continue;
      }
      const size_t place = place_of(name_, values);
      if (place == kIgnored) continue;
      if (place == kRefused) {
        refuse(name_, fault);
        return json::kOther;
      }
      values[place].clear();  // if a name occurs twice, the last value counts
      if (const json::ErrorCode error = read_value(value, type, 0, values[place], fault)) {
        if (error != json::kOther || fields_[place].kind != ValueKind::kNone) return error;
        values[place].clear();  // no field can have it
        fault = {};
      }
    }
    return json::kSuccess;
  }

  json::ErrorCode odd(const char* reason, Fault& fault) {
    fault = {.reason = reason, .field = &name_, .hint = kJsonHint};
    return json::kOther;
  }

  json::ErrorCode read_value(json::Value& value, json::Type type, int depth, FieldValues& to,
                             Fault& fault) {
    if (type == json::Type::array) {
      if (depth == kNestedMax) return odd("is nested too deep", fault);
      json::Array array;
      if (const json::ErrorCode error = value.get_array().get(array)) return error;
      to.list = true;
      for (auto element : array) {
        json::Value inner;
        json::Type inner_type;
        if (const json::ErrorCode error = element.get(inner)) return error;
        if (const json::ErrorCode error = inner.type().get(inner_type)) return error;
        if (inner_type == json::Type::null || inner_type == json::Type::object)
          return odd("is a list that contains null or an object", fault);
        if (const json::ErrorCode error = read_value(inner, inner_type, depth + 1, to, fault))
          return error;
      }
      return json::kSuccess;
    }
    if (type == json::Type::null) {
      bool is_null = false;
      return value.is_null().get(is_null);
    }
    bool fits = false;
    if (type == json::Type::number) {
      const json::ErrorCode error = json::read_number(value, [&]<typename T>(T number) {
        if constexpr (std::is_same_v<T, uint64_t>) {
          return odd("is above the largest int64", fault);
        } else if constexpr (std::is_same_v<T, int64_t>) {
          fits = to.add(number);
        } else {
          fits = to.add_real(number, false);
        }
        return json::kSuccess;
      });
      if (error != json::kSuccess) return error;
    } else if (type == json::Type::string) {
      std::string_view text;
      if (const json::ErrorCode error = value.get_string().get(text)) return error;
      fits = to.add_text(text);
    } else {
      bool flag = false;
      if (const json::ErrorCode error = value.get_bool().get(flag)) return error;
      fits = to.add(int64_t(flag));
    }
    return fits ? json::kSuccess : odd("is a list that mixes numbers and strings", fault);
  }

  json::Parser parser_;
  std::string name_;
};

class JsonEncoder final : public RecordEncoder {
 public:
  explicit JsonEncoder(std::vector<ValueField> fields) : fields_(std::move(fields)) {
    for (const ValueField& field : fields_) {
      names_.emplace_back();
      append_json_text(names_.back(), field.name);
    }
  }

  bool encode(const std::vector<FieldValues>& values, std::string& out, Fault& fault) override {
    out += '{';
    bool any = false;
    for (size_t i = 0; i < fields_.size(); ++i) {
      const FieldValues& each = values[i];
      if (each.missing() && !each.list) continue;
      for (const double value : each.reals) {
        if (!std::isfinite(value))
          return refuse_value("is a number that JSON can't represent", fields_[i], fault);
      }
      for (const std::string_view text : each.texts) {
        if (!is_utf8(text))
          return refuse_value("is not UTF-8, as JSON requires", fields_[i], fault);
      }
      out.append(any ? ", " : "").append(names_[i]).append(": ");
      append_json_value(out, each, fields_[i].shape.empty() && !each.list);
      any = true;
    }
    out += "}\n";
    return true;
  }

 private:
  std::vector<ValueField> fields_;
  std::vector<std::string> names_;  // as JSON strings
};

Result<std::unique_ptr<RecordDecoder>> make_json_decoder(const DataSpec& /*data*/,
                                                         const std::string& /*path*/,
                                                         std::vector<ValueField> fields,
                                                         Unnamed unnamed) {
  return std::unique_ptr<RecordDecoder>(std::make_unique<JsonDecoder>(std::move(fields), unnamed));
}

Result<std::unique_ptr<RecordEncoder>> make_json_encoder(const Encoding& encoding) {
  return std::unique_ptr<RecordEncoder>(std::make_unique<JsonEncoder>(encoding.fields));
}

}  // namespace

const Codec kJsonCodec{.layout = RecordLayout::kJsonLines,
                       .make_decoder = make_json_decoder,
                       .make_encoder = make_json_encoder};

}  // namespace downpour::data
