#include "shared/plan/plan_hash.h"

#include <bit>
#include <type_traits>
#include <variant>

#include "shared/data/reading/read_plan.h"

namespace downpour::data {
namespace {

/// Must be incremented by every change after which the same plan names other records or other
/// values.
constexpr uint64_t kReaderVersion = 3;

void hash_op(plan::PlanHash& hash, const TransformSpec& spec) {
  hash.add("op", spec.index());
  std::visit(
      [&]<typename Op>(const Op& op) {
        if constexpr (std::is_empty_v<Op>) {
          ops::hash_always(hash);
        } else {
          op.hash(hash);
        }
      },
      spec);
}

void hash_fields(plan::PlanHash& hash, const std::vector<FieldSpec>& fields) {
  for (const FieldSpec& field : fields) {
    hash.add("field", field.name).add("column", field.column).add("type", uint64_t(field.type));
    if (!field.feature.empty()) hash.add("feature", field.feature);
    if (!field.path.empty()) hash.add("path", field.path);
    if (!field.encoding.empty()) hash.add("encoding", field.encoding);
    for (const int64_t d : field.shape) hash.add("shape", uint64_t(d));
    if (field.fallback) hash.add("default", *field.fallback);
    for (const std::string& text : field.positive) hash.add("positive", text);
    for (const std::string& text : field.classes) hash.add("class", text);
    for (const TransformSpec& op : field.transform) hash_op(hash, op);
  }
}

}  // namespace

uint64_t plan_hash(const ReadPlan& plan, const std::vector<plan::ShardRange>& shards) {
  plan::PlanHash hash;
  hash.add("reader", kReaderVersion).add("seed", plan.seed).add("batch_size", plan.batch_size);
  hash.add("drop_remainder", plan.drop_remainder)
      .add("holdout", std::bit_cast<uint64_t>(plan.holdout));
  if (plan.holdout > 0) hash.add("held_out_by", "name");
  for (const plan::FileInfo& file : plan.files) {
    hash.add("file", file.name());
    hash.add("bytes", file.bytes).add("fingerprint", file.fingerprint);
  }
  for (const plan::ShardRange& range : shards) {
    hash.add("range", range.file).add("begin", range.begin).add("end", range.end);
    if (range.stream > 0) hash.add("stream", range.stream);
    if (range.modulus > 1) hash.add("modulus", range.modulus);
    if (range.records_before > 0) hash.add("records_before", range.records_before);
  }
  if (!plan.source.takes_all()) {
    hash.add("skip", plan.source.skip).add("take", plan.source.take);
    hash.add("shard_count", plan.source.shard_count).add("shard_index", plan.source.shard_index);
  }
  for (const SourcePart& split : plan.source.parts) {
    if (split.weight > 0)
      hash.add("weight", std::bit_cast<uint64_t>(split.weight))
          .add("files", split.files)
          .add("record_bytes", split.record_bytes);
  }
  const DataSpec& data = plan.data;
  hash.add("format", uint64_t(data.format))
      .add("header", data.header)
      .add("skip_lines", data.skip_lines);
  if (!data.record.empty()) hash.add("record", data.record);
  if (data.quoted_newlines) hash.add("quoted_newlines", true);
  if (data.interleave.cycle > 1)
    hash.add("cycle", data.interleave.cycle).add("block", data.interleave.block);
  if (plan.shares > 0) hash.add("shares", plan.shares);
  if (plan.batches_max > 0) hash.add("batches_max", plan.batches_max);
  hash.add("delimiter", data.delimiter).add("trim", data.trim).add("shuffle", data.shuffle);
  for (const std::string& text : data.columns) hash.add("column", text);
  for (const std::string& text : data.missing) hash.add("missing", text);
  hash_fields(hash, data.fields);
  if (!data.filter.empty()) hash.add("filter", data.filter).add("filter_rules", 2);
  for (const std::string& word : data.program) hash.add("program", word);
  if (!data.program.empty() && chooses_by_number(plan.source, stream_spec(data)))
    hash.add("program_reads", "chosen");  // separates these plans from older ones, whose program
                                          // read all records
  // bad_records is not hashed. A run that failed at a bad record can be resumed with "skip",
  // because no batch from that record on was applied. The layout is hashed, because it decides
  // which fields are read, and so which records are bad.
  for (const FloatInput& input : plan.layout.floats)
    hash.add("float", input.field).add("width", input.width);
  for (const BagInput& input : plan.layout.bags) {
    hash.add("bag", input.field).add("table", input.table_index);
    if (input.salt != 0) hash.add("salt", input.salt);
  }
  for (const TargetRule& rule : plan.targets)
    hash.add("target", rule.field).add("kind", uint64_t(rule.kind)).add("classes", rule.classes);
  return hash.value();
}

}  // namespace downpour::data
