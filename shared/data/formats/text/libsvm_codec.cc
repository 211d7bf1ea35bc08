// Decoder and encoder of libsvm, and decoder of libffm.
#include <algorithm>
#include <cmath>

#include "shared/data/formats/codec.h"
#include "shared/data/formats/encode_checks.h"
#include "shared/data/formats/text/scan_feature.h"
#include "shared/data/formats/text/text_values.h"

namespace downpour::data {
namespace {

/// Decodes "label key:value ..." and "label field:key:value ..." into a label and one field with
/// all features.
class LibsvmDecoder final : public RecordDecoder {
 public:
  LibsvmDecoder(const DataSpec& data, std::vector<ValueField> fields, Unnamed unnamed)
      : RecordDecoder(std::move(fields), unnamed), ffm_(data.format == DataFormat::kLibffm) {
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

  bool decode(const RawRecord& record, std::vector<FieldValues>& values, Fault& fault) override {
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
  bool add_pair(std::string_view word, FieldValues& to, std::string_view line, Fault& fault) const {
    if (word.starts_with("qid:")) return true;
    SparseFeature feature;
    const char* const end = scan_feature(word.data(), ffm_, feature);
    if (end != word.data() + word.size() || feature.key > uint64_t(INT64_MAX)) {
      return bad_line(
          ffm_ ? "has a feature that is not field:key:value with integers and a finite value"
               : "has a feature that is not key:value with an integer and a finite value",
          line, fault);
    }
    if (ffm_) to.groups.push_back(feature.group);
    to.integers.push_back(int64_t(feature.key));
    to.reals.push_back(double(feature.value));
    return true;
  }

  const bool ffm_;
  size_t label_ = kIgnored, features_ = kIgnored;
};

class LibsvmEncoder final : public RecordEncoder {
 public:
  static Result<std::unique_ptr<RecordEncoder>> make(const Encoding& encoding) {
    const DataFormat format = encoding.format;
    const std::vector<ValueField>& fields = encoding.fields;
    auto out = std::make_unique<LibsvmEncoder>();
    out->fields_ = fields;
    const std::string label = encoding.target.empty() ? "label" : encoding.target;
    uint64_t next = 1;
    for (size_t i = 0; i < fields.size(); ++i) {
      const ValueField& field = fields[i];
      const bool numbers = field.kind == ValueKind::kInteger || field.kind == ValueKind::kReal;
      if (field.name == label) {
        if (!numbers || !field.shape.empty())
          return cannot_encode(format, field, "a label must be one number",
                               "choose another field: --target NAME");
        out->label_ = i;
        continue;
      }
      const bool any = field.shape.size() == 1 && field.shape[0] < 0;
      if ((!numbers && field.kind != ValueKind::kPairs) ||
          (any && field.kind != ValueKind::kPairs)) {
        return cannot_encode(
            format, field,
            numbers ? "it has a variable number of values, but a feature has one value"
                    : str("it contains ", kind_name(field.kind), ", but features are numbers"),
            "write tfrecord or jsonl; or omit the field from data.fields of a job");
      }
      out->first_.resize(fields.size());
      out->first_[i] = next;
      next += field.kind == ValueKind::kPairs ? 0 : elements_of(field.shape);
    }
    out->first_.resize(fields.size());
    if (out->label_ == SIZE_MAX) {
      return Error{ErrorCode::kConfig, str("there is no field ", label, "for the label of libsvm"),
                   "data.fields", "set the field that is the label: --target NAME"};
    }
    return std::unique_ptr<RecordEncoder>(std::move(out));
  }

  bool encode(const std::vector<FieldValues>& values, std::string& out, Fault& fault) override {
    const FieldValues& label = values[label_];
    if (label.missing())
      return refuse_value("is missing, but each line starts with it", fields_[label_], fault);
    if (!fits_field(fields_[label_], label, fault)) return false;
    append(label, 0, out);
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (i == label_ || values[i].missing()) continue;
      if (!fits_field(fields_[i], values[i], fault)) return false;
      for (size_t v = 0; v < values[i].count(); ++v) {
        const bool pairs = values[i].kind == ValueKind::kPairs;
        const double value = pairs ? values[i].reals[v] : values[i].number(v);
        if (!std::isfinite(value)) return refuse_value("is not a finite number", fields_[i], fault);
        if (value == 0 && !pairs) continue;  // a feature that the line lacks is 0
        out += ' ';
        append_number(out, pairs ? values[i].integers[v] : int64_t(first_[i] + v));
        out += ':';
        if (pairs) {
          append_number(out, value, true);
        } else {
          append(values[i], v, out);
        }
      }
    }
    out += '\n';
    return true;
  }

 private:
  static void append(const FieldValues& values, size_t i, std::string& out) {
    if (values.kind == ValueKind::kInteger) return append_number(out, values.integers[i]);
    append_number(out, values.reals[i], values.single);
  }

  std::vector<ValueField> fields_;
  std::vector<uint64_t> first_;  // number of the first feature, per field
  size_t label_ = SIZE_MAX;
};

Result<std::unique_ptr<RecordDecoder>> make_libsvm_decoder(const DataSpec& data,
                                                           const std::string& /*path*/,
                                                           std::vector<ValueField> fields,
                                                           Unnamed unnamed) {
  return std::unique_ptr<RecordDecoder>(
      std::make_unique<LibsvmDecoder>(data, std::move(fields), unnamed));
}

}  // namespace

const Codec kSparseLineCodec{.layout = RecordLayout::kSparseLines,
                             .make_decoder = make_libsvm_decoder,
                             .make_encoder = LibsvmEncoder::make};

}  // namespace downpour::data
