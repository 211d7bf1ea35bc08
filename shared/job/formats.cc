#include "shared/job/formats.h"

#include "shared/base/str.h"

namespace downpour {
namespace {

constexpr int kCriteoNumbers = 13, kCriteoCategories = 26;
constexpr uint64_t kCriteoBuckets = uint64_t{1} << 20;
constexpr int64_t kMnistPixels = 28 * 28;

}  // namespace

std::vector<FieldSpec> sparse_line_fields() {
  return {{.name = "label"}, {.name = "features", .type = FieldType::kInt64, .shape = {-1}}};
}

std::vector<FieldSpec> criteo_fields() {
  std::vector<FieldSpec> fields = {{.name = "label"}};
  for (int i = 1; i <= kCriteoNumbers; ++i) {
    fields.push_back(
        {.name = str("I", i), .fallback = "0", .transform = {ops::Clip{.min = 0.0}, ops::Log1p{}}});
  }
  for (int i = 1; i <= kCriteoCategories; ++i) {
    fields.push_back({.name = str("C", i),
                      .type = FieldType::kString,
                      .fallback = "",
                      .transform = {ops::Hash{.buckets = kCriteoBuckets}}});
  }
  return fields;
}

std::vector<FieldSpec> mnist_fields() {
  // The pixels are bytes; the reader scales them to 0 to 1.
  return {{.name = "image", .shape = {kMnistPixels}}, {.name = "label", .type = FieldType::kInt64}};
}

bool DataSpec::boundaries_need_scan() const {
  return is_frames(format) || (traits_of(format).quotes && quoted_newlines);
}

std::vector<FieldSpec> default_fields(DataFormat format) {
  const FormatTraits& traits = traits_of(format);
  return traits.default_fields == nullptr ? std::vector<FieldSpec>() : traits.default_fields();
}

std::vector<std::string> default_columns(DataFormat format) {
  std::vector<std::string> names;
  if (!traits_of(format).own_columns) return names;
  for (const FieldSpec& field : default_fields(format)) names.push_back(field.name);
  return names;
}

DataSpec for_source(DataSpec data, const SourceSpec& source) {
  if (source.format == DataFormat::kAuto || source.format == data.format) return data;
  const bool has_names = has_named_columns(data.format) && !data.columns.empty() && !data.header;
  data.format = source.format;
  data.header = has_named_columns(data.format) && !has_names;
  data.skip_lines = 0;
  data.delimiter.clear();
  data.quoted_newlines = data.quoted_newlines && traits_of(data.format).quotes;
  return data;
}

}  // namespace downpour
