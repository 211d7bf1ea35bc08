// Decoders of tf.train.Example and of serialized tensors, and encoder of tf.train.Example.
#include <span>
#include <utility>

#include "shared/data/formats/codec.h"
#include "shared/data/formats/encode_checks.h"
#include "shared/data/formats/example/example_scan.h"
#include "shared/data/formats/example/tensor_proto.h"
#include "shared/data/formats/example/tfrecord_writer.h"
#include "shared/data/values/number.h"

namespace downpour::data {
namespace {

constexpr const char* kExampleHint = "check data.record, correct the file, or skip bad records";

bool add_value(FieldValues& to, int64_t value) { return to.add(value); }
bool add_value(FieldValues& to, float value) { return to.add_real(double(value), true); }
bool add_value(FieldValues& to, std::string_view value) { return to.add_text(value); }

/// Reads the elements [first, first + count) of a tensor into `to`. Returns null, or the reason why
/// it can't.
const char* read_tensor(std::string_view bytes, uint64_t first, uint64_t count, FieldValues& to) {
  TensorView tensor;
  if (const char* reason = parse_tensor(bytes, tensor)) return reason;
  to.list |= tensor.rank > 0;
  const char* reason = nullptr;
  uint64_t at = 0;
  each_element(
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
  using RecordDecoder::RecordDecoder;

  bool decode(const RawRecord& record, std::vector<FieldValues>& values, Fault& fault) override {
    begin(values);
    fault = {};
    bool malformed = false;
    const bool good = each_feature(
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
    copy_repeated(values);
    return good;
  }

 private:
  static const char* read_feature(std::string_view feature, bool encoded, FieldValues& to) {
    const char* reason = nullptr;
    for (const char *p = feature.data(), *end = p + feature.size(); p < end;) {
      WireField list;
      if ((p = parse_wire_field(p, end, list)) == nullptr)
        return "is not a feature of a tf.train.Example";
      bool malformed = false;
      const auto take = [&](auto value) { return add_value(to, value); };
      if (list.tag == kInt64List) {
        each_int64(list.bytes, take, malformed);
      } else if (list.tag == kFloatList) {
        each_float(list.bytes, take, malformed);
      } else if (list.tag == kBytesList && encoded) {
        each_bytes(
            list.bytes,
            [&](std::string_view bytes) {
              reason = read_tensor(bytes, 0, UINT64_MAX, to);
              return reason == nullptr;
            },
            malformed);
      } else if (list.tag == kBytesList) {
        each_bytes(list.bytes, take, malformed);
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
      if (!column.empty() && parse_uint(column.c_str(), first) != &*column.end()) {
        return Error{ErrorCode::kConfig, str("field ", field.name, ": `column` must be a number"),
                     str("data.fields.", field.name),
                     "set the index of its first element, for example column = \"0\""};
      }
      const bool part = !column.empty();
      out->stretches_.push_back({first, part ? elements_of(field.shape) : UINT64_MAX});
    }
    out->fields_ = std::move(fields);
    return std::unique_ptr<RecordDecoder>(std::move(out));
  }

  bool decode(const RawRecord& record, std::vector<FieldValues>& values, Fault& fault) override {
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

class ExampleEncoder final : public RecordEncoder {
 public:
  static Result<std::unique_ptr<RecordEncoder>> make(const Encoding& encoding) {
    for (const ValueField& field : encoding.fields) {
      if (field.kind == ValueKind::kNone) {
        return cannot_encode(encoding.format, field,
                             "its values have several types, or all are missing",
                             "declare the field in a job file, for example with type = \"string\"");
      }
    }
    auto out = std::make_unique<ExampleEncoder>();
    out->fields_ = encoding.fields;
    return std::unique_ptr<RecordEncoder>(std::move(out));
  }

  bool encode(const std::vector<FieldValues>& values, std::string& out, Fault& fault) override {
    example_.clear();
    for (size_t i = 0; i < fields_.size(); ++i) {
      const ValueField& field = fields_[i];
      const FieldValues& each = values[i];
      if (each.missing()) continue;  // the example has no such feature
      if (!fits_field(field, each, fault)) return false;
      if (field.kind == ValueKind::kInteger || field.kind == ValueKind::kPairs)
        example_.add(field.name, std::span(each.integers));
      if (field.kind == ValueKind::kReal || field.kind == ValueKind::kPairs) {
        floats_.resize(each.count());
        for (size_t v = 0; v < each.count(); ++v) {
          const double value = field.kind == ValueKind::kPairs ? each.reals[v] : each.number(v);
          if (!to_float(value, floats_[v])) return refuse_value(kBeyondFloat, field, fault);
        }
        const bool pairs = field.kind == ValueKind::kPairs;
        example_.add(pairs ? field.name + "_values" : field.name, std::span<const float>(floats_));
      }
      if (field.kind == ValueKind::kText) example_.add(field.name, std::span(each.texts));
      if (!each.groups.empty()) {
        const std::vector<int64_t> groups(each.groups.begin(), each.groups.end());
        example_.add(field.name + "_fields", std::span(groups));
      }
    }
    append_frame(out, example_.bytes());
    return true;
  }

 private:
  std::vector<ValueField> fields_;
  ExampleBuilder example_;
  std::vector<float> floats_;
};

Result<std::unique_ptr<RecordDecoder>> make_frame_decoder(const DataSpec& data,
                                                          const std::string& /*path*/,
                                                          std::vector<ValueField> fields,
                                                          Unnamed unnamed) {
  if (data.record == "tensor") return TensorDecoder::make(std::move(fields), unnamed);
  return std::unique_ptr<RecordDecoder>(
      std::make_unique<ExampleDecoder>(std::move(fields), unnamed));
}

}  // namespace

const Codec kFrameCodec{.layout = RecordLayout::kFrames,
                        .make_decoder = make_frame_decoder,
                        .make_encoder = ExampleEncoder::make};

}  // namespace downpour::data
