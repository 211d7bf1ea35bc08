#include "shared/wire/write_parts.h"

#include <map>
#include <string_view>

#include "shared/wire/copy_counts.h"

namespace downpour::wire {

void write(const plan::FileInfo& in, schema::FileInfo::Builder out) {
  out.setPath(text_out(in.path));
  out.setBytes(in.bytes);
  out.setFingerprint(in.fingerprint);
  out.setSplittable(in.splittable);
  write_words(in.cuts, [&](uint32_t n) { return out.initCuts(n); });
  write_words(in.records_before, [&](uint32_t n) { return out.initRecordsBefore(n); });
}

void write(const OutputSums& in, schema::OutputSums::Builder out) { write_sums(in, out); }

void write(const OutputMetrics& in, schema::OutputMetrics::Builder out) {
  write(in.sums, out.initSums());
  if (!in.auc.empty()) {
    const auto n = uint32_t(in.auc.size());
    auto buckets = out.initAucBuckets(n);
    auto negatives = out.initAucNegatives(n);
    auto positives = out.initAucPositives(n);
    for (uint32_t i = 0; i < n; ++i) {
      buckets.set(i, in.auc[i].bucket);
      negatives.set(i, in.auc[i].negatives);
      positives.set(i, in.auc[i].positives);
    }
  }
  write_words(in.class_counts, [&](uint32_t n) { return out.initClassCounts(n); });
}

void write(const Owner& in, schema::Owner::Builder out) {
  out.setIndex(in.index);
  out.setThread(in.thread);
  out.setIncarnation(raw(in.incarnation));
  out.setEndpoint(text_out(in.endpoint));
}

void write(const std::vector<ImageRef>& in, schema::Images::Builder out) {
  std::map<std::string_view, uint32_t> index_of;
  std::vector<const std::string*> files;
  auto refs = out.initRefs(uint32_t(in.size()));
  for (uint32_t i = 0; i < in.size(); ++i) {
    const auto [at, is_new] = index_of.try_emplace(in[i].file, uint32_t(files.size()));
    if (is_new) files.push_back(&in[i].file);
    auto ref = refs[i];
    ref.setPartition(raw(in[i].partition));
    ref.setFile(at->second);
    ref.setOffset(in[i].offset);
    ref.setBytes(in[i].bytes);
    ref.setChecksum(in[i].checksum);
    ref.setBase(in[i].base);
    write_id(in[i].checkpoint, ref);
  }
  auto names = out.initFiles(uint32_t(files.size()));
  for (uint32_t i = 0; i < files.size(); ++i) names.set(i, text_out(*files[i]));
}

void write(const Lease& in, schema::Lease::Builder out) {
  out.setPurpose(enum_out<schema::Purpose>(in.purpose));
  out.setEpoch(in.shard.epoch);
  out.setShard(in.shard.shard);
  out.setAttempt(in.attempt);
  out.setFirstBatch(in.first_batch);
  out.setEvaluation(in.evaluation);
  out.setPlanHash(in.plan_hash);
  write_words(in.quarantined_batches, [&](uint32_t n) { return out.initQuarantinedBatches(n); });
  out.setSingleStep(in.single_step);
  out.setReplica(in.replica);
  out.setRateReductions(in.rate_reductions);
}

void write(const ShardCounts& in, schema::ShardCounts::Builder out) { write_counts(in, out); }

void write(const PartitionStatus& in, schema::PartitionStatus::Builder out) {
  out.setPartition(raw(in.partition));
  write_generation(in.ownership_generation, out);
  out.setShardsEnded(in.shards_ended);
  out.setVersion(in.version);
  out.setRecordsHash(in.records_hash);
  if (in.counts != ShardCounts{}) write(in.counts, out.initCounts());
}

}  // namespace downpour::wire
