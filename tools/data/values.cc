#include "tools/data/values.h"

#include <algorithm>
#include <charconv>

#include "shared/data/reading/dataset.h"
#include "shared/job/formats.h"
#include "tools/data/data_set.h"

namespace downpour::tools {
namespace {

/// Counts of the values of one field in the sampled records.
struct Met {
  uint64_t integers = 0, reals = 0, texts = 0, pairs = 0;  // in records
  size_t fewest = SIZE_MAX, most = 0;
  bool list = false, wide = false;
};

void meet(const FieldValues& values, Met& met) {
  if (values.missing() && !values.list) return;
  met.integers += values.kind == ValueKind::kInteger;
  met.reals += values.kind == ValueKind::kReal;
  met.texts += values.kind == ValueKind::kText;
  met.pairs += values.kind == ValueKind::kPairs;
  met.list |= values.list;
  met.wide |= values.kind == ValueKind::kReal && !values.single;
  met.fewest = std::min(met.fewest, values.count());
  met.most = std::max(met.most, values.count());
}

void conclude(const Met& met, bool table, ValueField& field) {
  if (met.pairs > 0) {
    field.kind = ValueKind::kPairs;
    field.shape = {-1};
    return;
  }
  const bool numbers = met.integers + met.reals > 0;
  if (numbers && met.texts > 0) {
    field.kind = table ? ValueKind::kText : ValueKind::kNone;
  } else if (met.texts > 0) {
    field.kind = ValueKind::kText;
  } else if (numbers) {
    field.kind = met.reals > 0 ? ValueKind::kReal : ValueKind::kInteger;
  }
  field.single = !met.wide;
  if (!met.list && met.most <= 1) return;
  const bool fixed = met.fewest == met.most && met.most > 0;
  field.shape = {fixed ? int64_t(met.most) : -1};
}

}  // namespace

const char* kind_name(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNone:
      return "values of several types";
    case ValueKind::kInteger:
      return "integers";
    case ValueKind::kReal:
      return "numbers";
    case ValueKind::kText:
      return "strings";
    case ValueKind::kPairs:
      return "keys with values";
  }
  return "";
}

bool FieldValues::add(int64_t value) {
  if (kind == ValueKind::kReal) return add_real(double(value), single);
  if (kind != ValueKind::kNone && kind != ValueKind::kInteger) return false;
  kind = ValueKind::kInteger;
  integers.push_back(value);
  return true;
}

bool FieldValues::add_real(double value, bool is_single) {
  if (kind == ValueKind::kInteger) {
    for (const int64_t each : integers) reals.push_back(double(each));
    integers.clear();
    kind = ValueKind::kReal;
  }
  if (kind == ValueKind::kNone) {
    kind = ValueKind::kReal;
    single = is_single;
  }
  if (kind != ValueKind::kReal) return false;
  single &= is_single;
  reals.push_back(value);
  return true;
}

bool FieldValues::add_text(std::string_view value) {
  if (kind != ValueKind::kNone && kind != ValueKind::kText) return false;
  kind = ValueKind::kText;
  texts.push_back(value);
  return true;
}

size_t RecordDecoder::place_of(std::string_view name, std::vector<FieldValues>& values) {
  for (size_t i = 0; i < fields_.size(); ++i) {
    const size_t at = last_ + i < fields_.size() ? last_ + i : last_ + i - fields_.size();
    if (fields_[at].spec.source_name() != name) continue;
    last_ = at + 1 < fields_.size() ? at + 1 : 0;
    return at;
  }
  if (unnamed_ == Unnamed::kIgnore) return kIgnored;
  if (unnamed_ == Unnamed::kRefuse || fields_.size() >= kFieldsMax) return kRefused;
  fields_.push_back({.name = std::string(name), .spec = {.name = std::string(name)}});
  values.emplace_back();
  return fields_.size() - 1;
}

bool RecordDecoder::refuse(std::string_view name, data::Fault& fault) {
  refused_ = name;
  fault = {.reason = unnamed_ == Unnamed::kRefuse
                         ? "is not in any of the first records, from which the fields were detected"
                         : "exceeds the maximum of 10,000 fields",
           .field = &refused_,
           .hint = "declare the fields in a job file: data.fields.NAME = { type = ... }"};
  return false;
}

std::vector<ValueField> declared_fields(const DataSpec& data) {
  std::vector<ValueField> fields;
  for (const FieldSpec& spec : data.fields.empty() ? default_fields(data.format) : data.fields) {
    ValueField& field = fields.emplace_back();
    field.name = spec.name;
    field.spec = spec;
    field.shape = spec.shape;
    // `positive` lists the texts that are read as 1, so the values are texts.
    field.kind = !spec.positive.empty()             ? ValueKind::kText
                 : spec.type == FieldType::kFloat32 ? ValueKind::kReal
                 : spec.type == FieldType::kInt64   ? ValueKind::kInteger
                                                    : ValueKind::kText;
    const bool svm = data.format == DataFormat::kLibsvm || data.format == DataFormat::kLibffm;
    if (svm && spec.is_bag()) field.kind = ValueKind::kPairs;
  }
  return fields;
}

Result<std::vector<ValueField>> found_fields(const DataSpec& data, const plan::FileInfo& info) {
  DP_TRY(const auto decoder, make_decoder(data, info.path, {}, Unnamed::kAdd));
  DP_TRY(const auto cursor, open_cursor(data, info, {}));
  std::vector<FieldValues> values;
  std::vector<Met> met;
  RawRecord record;
  for (uint64_t records = 0, bytes = 0; records < kSampledRecords && bytes < kSampledBytes;
       ++records) {
    DP_TRY(const bool more, cursor->next(record));
    if (!more) break;
    bytes += record.bytes.size();
    data::Fault fault;
    if (record.fault.reason != nullptr || !decoder->decode(record, values, fault)) continue;
    met.resize(decoder->fields().size());
    for (size_t i = 0; i < values.size(); ++i) meet(values[i], met[i]);
  }
  std::vector<ValueField> fields = decoder->fields();
  const bool table = data.format == DataFormat::kCsv || data.format == DataFormat::kTsv ||
                     data.format == DataFormat::kCriteo;
  met.resize(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) conclude(met[i], table, fields[i]);
  return fields;
}

void append_number(std::string& out, double value, bool single) {
  char text[40];
  const auto end = single ? std::to_chars(text, text + sizeof text, float(value))
                          : std::to_chars(text, text + sizeof text, value);
  out.append(text, end.ptr);
}

void append_number(std::string& out, int64_t value) {
  char text[24];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

}  // namespace downpour::tools
