#include "shared/plan/plan_hash.h"

#include <bit>

#include "shared/data/reading/read_plan.h"

namespace downpour::data {
namespace {

/// Must be incremented by every change after which the same plan names other records or other
/// values.
constexpr uint64_t kReaderVersion = 2;

/// Hashes options of ops that were added later. They are hashed only if they are set, so that older
/// plans keep their hash.
void hash_options(plan::PlanHash& hash, const TransformSpec& op) {
  const TransformSpec plain;
  if (op.fallback) hash.add("op_default", *op.fallback);
  for (const std::string& word : op.words) hash.add("word", word);
  if (op.op == TransformOp::kVocabulary)
    hash.add("unknown", uint64_t(op.unknown)).add("vocabulary", op.fingerprint);
  for (const double boundary : op.boundaries)
    hash.add("boundary", std::bit_cast<uint64_t>(boundary));
  if (!op.separators.empty()) hash.add("separators", op.separators);
  if (op.lower) hash.add("lower", 1);
  if (op.ngrams != plain.ngrams) hash.add("ngrams", op.ngrams);
  if (op.length != 0) hash.add("length", op.length).add("keep", op.keep);
  if (op.value != 0) hash.add("value", std::bit_cast<uint64_t>(op.value));
  if (op.how != plain.how) hash.add("how", op.how);
  for (const std::string& field : op.fields) hash.add("of", field);
  if (op.rate != 0) hash.add("rate", std::bit_cast<uint64_t>(op.rate));
  if (op.stddev != 0) hash.add("stddev", std::bit_cast<uint64_t>(op.stddev));
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
    for (const TransformSpec& op : field.transform) {
      hash.add("op", uint64_t(op.op)).add("buckets", op.buckets);
      if (op.min) hash.add("min", std::bit_cast<uint64_t>(*op.min));
      if (op.max) hash.add("max", std::bit_cast<uint64_t>(*op.max));
      hash.add("mean", std::bit_cast<uint64_t>(op.mean.value_or(0)))
          .add("scale", std::bit_cast<uint64_t>(op.scale.value_or(1)));
      hash_options(hash, op);
    }
  }
}

}  // namespace

uint64_t plan_hash(const ReadPlan& plan, const std::vector<plan::ShardRange>& shards) {
  plan::PlanHash hash;
  hash.add("reader", kReaderVersion).add("seed", plan.seed).add("batch_size", plan.batch_size);
  hash.add("drop_remainder", plan.drop_remainder)
      .add("holdout", std::bit_cast<uint64_t>(plan.holdout));
  for (const plan::FileInfo& file : plan.files) {
    // Only the name counts, not the folder: a data set may be mounted at another place on another
    // machine.
    const size_t slash = file.path.rfind('/');
    hash.add("file",
             std::string_view(file.path).substr(slash == std::string::npos ? 0 : slash + 1));
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
  if (plan.batches_max > 0) hash.add("batches_max", plan.batches_max);
  hash.add("delimiter", data.delimiter).add("trim", data.trim).add("shuffle", data.shuffle);
  for (const std::string& text : data.columns) hash.add("column", text);
  for (const std::string& text : data.missing) hash.add("missing", text);
  hash_fields(hash, data.fields);
  if (!data.filter.empty()) hash.add("filter", data.filter);
  for (const std::string& word : data.program) hash.add("program", word);
  if (!data.program.empty() && chooses_by_number(plan.source, stream_spec(data)))
    hash.add("program_reads", "chosen");  // separates these plans from older ones, whose program
                                          // read all records
  // bad_records is not hashed. A run that failed at a bad record can be resumed with "skip",
  // because no batch from that record on was applied. The layout is hashed, because it decides
  // which fields are read, and so which records are bad.
  for (const FloatInput& input : plan.layout.floats)
    hash.add("float", input.field).add("width", input.width);
  for (const BagInput& input : plan.layout.bags)
    hash.add("bag", input.field).add("table", input.table_index);
  for (const TargetRule& rule : plan.targets)
    hash.add("target", rule.field).add("kind", uint64_t(rule.kind)).add("classes", rule.classes);
  return hash.value();
}

}  // namespace downpour::data
