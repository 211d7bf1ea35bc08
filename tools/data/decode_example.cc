// Decoders of tf.train.Example and of serialized tensors.
#include <utility>

#include "shared/data/formats/example/example_scan.h"
#include "shared/data/formats/example/tensor_proto.h"
#include "shared/data/values/number.h"
#include "tools/data/decoders.h"

namespace downpour::tools {
namespace {

constexpr const char* kExampleHint = "check data.record, correct the file, or skip bad records";

bool add_value(FieldValues& to, int64_t value) { return to.add(value); }
bool add_value(FieldValues& to, float value) { return to.add_real(double(value), true); }
bool add_value(FieldValues& to, std::string_view value) { return to.add_text(value); }

/// Reads the elements [first, first + count) of a tensor into `to`. Returns null, or the reason why
/// it can't.
const char* read_tensor(std::string_view bytes, uint64_t first, uint64_t count, FieldValues& to) {
  data::TensorView tensor;
  if (const char* reason = data::parse_tensor(bytes, tensor)) return reason;
  to.list |= tensor.rank > 0;
  const char* reason = nullptr;
  uint64_t at = 0;
  data::each_element(
      tensor,
      [&](auto value) {
        const uint64_t place = at++;
        return place < first || place - first >= count || add_value(to, value);
      },
      reason);
  return reason;
}

class ExampleDecoder final : public RecordDecoder {
 public:
  ExampleDecoder(std::vector<ValueField> fields, Unnamed unnamed) {
    fields_ = std::move(fields);
    unnamed_ = unnamed;
  }

  bool decode(const RawRecord& record, std::vector<FieldValues>& values,
              data::Fault& fault) override {
    begin(values);
    fault = {};
    bool malformed = false;
    const bool good = data::each_feature(
        record.bytes,
        [&](std::string_view name, std::string_view feature) {
          const size_t place = place_of(name, values);
          if (place == kIgnored) return true;
          if (place == kRefused) return refuse(name, fault);
          values[place].clear();
          const char* const reason =
              read_feature(feature, fields_[place].spec.encoding == "tensor", values[place]);
          if (reason != nullptr)
            fault = {.reason = reason, .field = &fields_[place].name, .hint = kExampleHint};
          return reason == nullptr;
        },
        malformed);
    if (malformed) fault = {.reason = "is not a tf.train.Example", .hint = kExampleHint};
    return good;
  }

 private:
  static const char* read_feature(std::string_view feature, bool encoded, FieldValues& to) {
    const char* reason = nullptr;
    for (const char *p = feature.data(), *end = p + feature.size(); p < end;) {
      data::WireField list;
      if ((p = data::parse_wire_field(p, end, list)) == nullptr)
        return "is not a feature of a tf.train.Example";
      bool malformed = false;
      const auto take = [&](auto value) { return add_value(to, value); };
      if (list.tag == data::kInt64List) {
        data::each_int64(list.bytes, take, malformed);
      } else if (list.tag == data::kFloatList) {
        data::each_float(list.bytes, take, malformed);
      } else if (list.tag == data::kBytesList && encoded) {
        data::each_bytes(
            list.bytes,
            [&](std::string_view bytes) {
              reason = read_tensor(bytes, 0, UINT64_MAX, to);
              return reason == nullptr;
            },
            malformed);
      } else if (list.tag == data::kBytesList) {
        data::each_bytes(list.bytes, take, malformed);
      }
      if (malformed) return "is not a list of values";
      if (reason != nullptr) return reason;
    }
    return nullptr;
  }
};

class TensorDecoder final : public RecordDecoder {
 public:
  static Result<std::unique_ptr<RecordDecoder>> make(std::vector<ValueField> fields,
                                                     Unnamed unnamed) {
    auto out = std::make_unique<TensorDecoder>();
    if (fields.empty() && unnamed == Unnamed::kAdd)
      fields.push_back({.name = "tensor", .spec = {.name = "tensor"}});
    for (const ValueField& field : fields) {
      uint64_t first = 0;
      const std::string& column = field.spec.column;
      if (!column.empty() && data::parse_uint(column.c_str(), first) != &*column.end()) {
        return Error{ErrorCode::kConfig, str("field ", field.name, ": `column` must be a number"),
                     str("data.fields.", field.name),
                     "set the index of its first element, for example column = \"0\""};
      }
      const bool part = !column.empty();
      out->stretches_.push_back({first, part ? data::elements_of(field.shape) : UINT64_MAX});
    }
    out->fields_ = std::move(fields);
    return std::unique_ptr<RecordDecoder>(std::move(out));
  }

  bool decode(const RawRecord& record, std::vector<FieldValues>& values,
              data::Fault& fault) override {
    begin(values);
    for (size_t i = 0; i < fields_.size(); ++i) {
      const auto [first, count] = stretches_[i];
      const char* const reason = read_tensor(record.bytes, first, count, values[i]);
      if (reason == nullptr) continue;
      fault = {.reason = reason, .field = &fields_[i].name, .hint = kExampleHint};
      return false;
    }
    return true;
  }

 private:
  std::vector<std::pair<uint64_t, uint64_t>> stretches_;
};

}  // namespace

std::unique_ptr<RecordDecoder> make_example_decoder(std::vector<ValueField> fields,
                                                    Unnamed unnamed) {
  return std::make_unique<ExampleDecoder>(std::move(fields), unnamed);
}

Result<std::unique_ptr<RecordDecoder>> make_tensor_decoder(std::vector<ValueField> fields,
                                                           Unnamed unnamed) {
  return TensorDecoder::make(std::move(fields), unnamed);
}

}  // namespace downpour::tools
