#include "shared/data/formats/codec.h"

#include <algorithm>
#include <map>

#include "shared/base/check.h"
#include "shared/base/str.h"

namespace downpour::data {
namespace {

const Codec& codec_of(DataFormat format) {
  const Codec& found = *kCodecTable[size_t(layout_of(format))];
  DP_CHECK(found.layout == layout_of(format), size_t(format));  // kCodecTable has the enum's order
  return found;
}

/// Returns "libsvm, csv, tsv or npy".
std::string encodable_names() {
  std::vector<std::string_view> names;
  for (const FormatTraits& traits : kFormats)
    if (traits.encodable) names.push_back(traits.name);
  std::string out;
  for (size_t i = 0; i < names.size(); ++i)
    out += str(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  return out;
}

}  // namespace

RecordDecoder::RecordDecoder(std::vector<ValueField> fields, Unnamed unnamed)
    : fields_(std::move(fields)), unnamed_(unnamed) {
  std::map<std::string_view, size_t> first;
  for (size_t i = 0; i < fields_.size(); ++i) {
    const auto [earlier, is_first] = first.try_emplace(fields_[i].spec.source_name(), i);
    if (!is_first) repeated_.push_back({i, earlier->second});
  }
}

void RecordDecoder::copy_repeated(std::vector<FieldValues>& values) const {
  for (const Repeated& each : repeated_) values[each.field] = values[each.first];
}

size_t RecordDecoder::place_of(std::string_view name, std::vector<FieldValues>& values) {
  for (size_t i = 0; i < fields_.size(); ++i) {
    const size_t at = last_ + i < fields_.size() ? last_ + i : last_ + i - fields_.size();
    if (fields_[at].spec.source_name() != name) continue;
    if (std::ranges::find(repeated_, at, &Repeated::field) != repeated_.end()) continue;
    last_ = at + 1 < fields_.size() ? at + 1 : 0;
    return at;
  }
  if (unnamed_ == Unnamed::kIgnore) return kIgnored;
  if (unnamed_ == Unnamed::kRefuse || fields_.size() >= kFieldsMax) return kRefused;
  fields_.push_back({.name = std::string(name), .spec = {.name = std::string(name)}});
  values.emplace_back();
  return fields_.size() - 1;
}

bool RecordDecoder::refuse(std::string_view name, Fault& fault) {
  refused_ = name;
  fault = {.reason = unnamed_ == Unnamed::kRefuse
                         ? "is not in any of the first records, from which the fields were detected"
                         : "exceeds the maximum of 10,000 fields",
           .field = &refused_,
           .hint = "declare the fields in a job file: data.fields.NAME = { type = ... }"};
  return false;
}

Result<std::unique_ptr<RecordDecoder>> make_decoder(const DataSpec& data, const std::string& path,
                                                    std::vector<ValueField> fields,
                                                    Unnamed unnamed) {
  const auto make = codec_of(data.format).make_decoder;
  if (make != nullptr) return make(data, path, std::move(fields), unnamed);
  return Error{ErrorCode::kConfig, "the format of the data is not known", "data.format",
               "for example --format csv"};
}

Result<std::unique_ptr<RecordEncoder>> make_encoder(const Encoding& encoding) {
  if (encoding.fields.empty()) {
    return Error{ErrorCode::kConfig,
                 "the data can't be converted, because their fields are not known", "data.fields",
                 "write a job that declares the fields, and use it instead of the files"};
  }
  const FormatTraits& traits = traits_of(encoding.format);
  if (!traits.encodable) {
    return Error{ErrorCode::kUsage, str("conversion is not supported to ", traits.name), "--to",
                 str("to ", encodable_names())};
  }
  const auto make = codec_of(encoding.format).make_encoder;
  DP_CHECK(make != nullptr, size_t(encoding.format));
  return make(encoding);
}

}  // namespace downpour::data
