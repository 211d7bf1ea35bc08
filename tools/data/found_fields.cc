#include "tools/data/found_fields.h"

#include <algorithm>

#include "shared/job/field_output.h"
#include "shared/job/formats.h"
#include "tools/data/record_cursor.h"

namespace downpour::tools {
namespace {

/// Counts of the values of one field in the sampled records.
struct Met {
  uint64_t integers = 0, reals = 0, texts = 0, pairs = 0;  // in records
  size_t fewest = SIZE_MAX, most = 0;
  bool list = false, wide = false;
};

void meet(const data::FieldValues& values, Met& met) {
  if (values.missing() && !values.list) return;
  met.integers += values.kind == data::ValueKind::kInteger;
  met.reals += values.kind == data::ValueKind::kReal;
  met.texts += values.kind == data::ValueKind::kText;
  met.pairs += values.kind == data::ValueKind::kPairs;
  met.list |= values.list;
  met.wide |= values.kind == data::ValueKind::kReal && !values.single;
  met.fewest = std::min(met.fewest, values.count());
  met.most = std::max(met.most, values.count());
}

void conclude(const Met& met, bool table, data::ValueField& field) {
  if (met.pairs > 0) {
    field.kind = data::ValueKind::kPairs;
    field.shape = {-1};
    return;
  }
  const bool numbers = met.integers + met.reals > 0;
  if (numbers && met.texts > 0) {
    field.kind = table ? data::ValueKind::kText : data::ValueKind::kNone;
  } else if (met.texts > 0) {
    field.kind = data::ValueKind::kText;
  } else if (numbers) {
    field.kind = met.reals > 0 ? data::ValueKind::kReal : data::ValueKind::kInteger;
  }
  field.single = !met.wide;
  if (!met.list && met.most <= 1) return;
  const bool fixed = met.fewest == met.most && met.most > 0;
  field.shape = {fixed ? int64_t(met.most) : -1};
}

}  // namespace

std::vector<data::ValueField> declared_fields(const DataSpec& data) {
  std::vector<data::ValueField> fields;
  for (const FieldSpec& spec : data.fields.empty() ? default_fields(data.format) : data.fields) {
    if (is_cross(spec)) continue;  // made of other fields
    data::ValueField& field = fields.emplace_back();
    field.name = spec.name;
    field.spec = spec;
    field.shape = spec.shape;
    // `positive` lists the texts that are read as 1, so the values are texts.
    field.kind = !spec.positive.empty()             ? data::ValueKind::kText
                 : spec.type == FieldType::kFloat32 ? data::ValueKind::kReal
                 : spec.type == FieldType::kInt64   ? data::ValueKind::kInteger
                                                    : data::ValueKind::kText;
    if (has_sparse_lines(data.format) && spec.is_bag()) field.kind = data::ValueKind::kPairs;
  }
  return fields;
}

Result<std::vector<data::ValueField>> found_fields(const DataSpec& data,
                                                   const plan::FileInfo& info) {
  DP_TRY(const auto decoder, make_decoder(data, info.path, {}, data::Unnamed::kAdd));
  DP_TRY(const auto cursor, open_cursor(data, info, {}));
  std::vector<data::FieldValues> values;
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
  std::vector<data::ValueField> fields = decoder->fields();
  const bool table = is_table(data.format);
  met.resize(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) conclude(met[i], table, fields[i]);
  return fields;
}

}  // namespace downpour::tools
