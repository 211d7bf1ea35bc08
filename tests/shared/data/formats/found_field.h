// What detection finds: the field of a name, and the records that are read as proposed.
#pragma once

#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "shared/job/file_job.h"
#include "tests/shared/data/support.h"

namespace downpour::data {

inline const FieldSpec& field_of(const FileFacts& facts, const std::string& name) {
  const auto field = std::ranges::find(facts.fields, name, &FieldSpec::name);
  if (field == facts.fields.end()) FAIL("no field " << name);
  return *field;
}

/// Reads all fields of the file as proposed, up to at least `records_max` records. Returns the
/// number of records. Fails the test at a bad record.
inline uint64_t records_as_proposed(const std::string& path, const FileFacts& sniffed,
                                    uint64_t records_max = UINT64_MAX) {
  auto plan = plan_of(path, sniffed.format);
  plan->batch_size = 512;
  plan->data.columns = sniffed.columns;
  plan->data.header = sniffed.header;
  plan->data.skip_lines = sniffed.skip_lines;
  plan->data.delimiter = sniffed.delimiter;
  plan->data.trim = sniffed.trim;
  plan->data.quoted_newlines = sniffed.quoted_newlines;
  plan->data.missing = sniffed.missing;
  plan->data.fields = sniffed.fields;
  for (const FieldSpec& field : sniffed.fields) {
    const bool keys = field.is_bag() || (field.type == FieldType::kString && !field.is_label());
    if (keys) {
      plan->layout.bags.push_back({field.name, 0});
    } else {
      plan->layout.floats.push_back(
          {field.name, field.shape.empty() ? 1 : uint32_t(field.shape[0])});
    }
  }
  plan->layout.tables = {TableId(0)};
  // The classes are those of a sample.
  for (FieldSpec& field : plan->data.fields) {
    if (!field.classes.empty()) field.positive = {std::exchange(field.classes, {}).front()};
  }
  if (sniffed.classes == 2) plan->targets = {{sniffed.target, TargetKind::kBinary}};
  if (sniffed.classes > 2) plan->targets = {{sniffed.target, TargetKind::kClass, sniffed.classes}};
  auto reader = open_shard(plan, Split::kAll, {}, {0, 0, plan->files[0].bytes}, 0);
  if (!reader) FAIL(reader.error().what);
  Batch batch;
  uint64_t records = 0;
  for (;;) {
    auto more = (*reader)->next(batch);
    if (!more) FAIL(more.error().where << " " << more.error().what);
    if (!*more) return records;
    records += batch.records;
    if (records >= records_max) return records;
  }
}

}  // namespace downpour::data
