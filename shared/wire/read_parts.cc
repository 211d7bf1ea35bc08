#include "shared/wire/read_parts.h"

#include <algorithm>

#include "shared/wire/copy_counts.h"

namespace downpour::wire {

void read(schema::FileInfo::Reader in, plan::FileInfo& out, Checks& checks) {
  out.path = text(in.getPath());
  out.bytes = in.getBytes();
  out.fingerprint = in.getFingerprint();
  out.splittable = in.getSplittable();
  checks.require(!out.path.empty(), "file without a path");
  out.cuts.clear();
  uint64_t before = 0;
  for (const uint64_t cut : in.getCuts()) {
    checks.require(cut > before && cut < out.bytes, "cut is outside the file");
    out.cuts.push_back(cut);
    before = cut;
  }
  checks.require(!out.is_open() || (out.cuts.size() == 1 && !out.splittable),
                 "stream of unknown length without a piece size");
  out.records_before.clear();
  before = 0;
  for (const uint64_t records : in.getRecordsBefore()) {
    checks.require(before <= records, "record numbers do not ascend");
    if (records != plan::kNotChosen) before = records;
    out.records_before.push_back(records);
  }
}

void read(schema::OutputSums::Reader in, OutputSums& out) { out = read_sums(in); }

void read(capnp::List<schema::OutputSums>::Reader in, std::vector<OutputSums>& out,
          Checks& checks) {
  read_list(in, kOutputsMax, "too many outputs", out, checks,
            [](auto from, OutputSums& to) { read(from, to); });
}

void read(schema::OutputMetrics::Reader in, OutputMetrics& out, Checks& checks) {
  read(in.getSums(), out.sums);
  const auto buckets = in.getAucBuckets();
  const auto negatives = in.getAucNegatives();
  const auto positives = in.getAucPositives();
  const uint32_t n = buckets.size();
  checks.require(negatives.size() == n && positives.size() == n, "AUC lists of different lengths");
  if (!checks.fits(n, kBucketsMax, "too many AUC buckets")) return;
  out.auc.resize(n);
  for (uint32_t i = 0; i < n; ++i) out.auc[i] = {buckets[i], negatives[i], positives[i]};
  const auto ascending = [](const AucBucket& a, const AucBucket& b) {
    return a.bucket >= b.bucket;
  };
  checks.require(std::adjacent_find(out.auc.begin(), out.auc.end(), ascending) == out.auc.end() &&
                     (n == 0 || out.auc.back().bucket < kBucketsMax),
                 "AUC buckets out of order");
  read_words(in.getClassCounts(), kClassesMax, "too many classes", out.class_counts, checks);
}

void read(capnp::List<schema::OutputMetrics>::Reader in, std::vector<OutputMetrics>& out,
          Checks& checks) {
  read_list(in, kOutputsMax, "too many outputs", out, checks,
            [&](auto from, OutputMetrics& to) { read(from, to, checks); });
}

void read(schema::Owner::Reader in, Owner& out, Checks& checks) {
  out.index = in.getIndex();
  out.thread = in.getThread();
  out.incarnation = Incarnation(in.getIncarnation());
  out.endpoint = text(in.getEndpoint());
  checks.require(out.incarnation != Incarnation{} && !out.endpoint.empty(),
                 "owner without incarnation or endpoint");
}

void read(schema::Images::Reader in, std::vector<ImageRef>& out, Checks& checks) {
  const auto names = in.getFiles();
  const auto refs = in.getRefs();
  // Each image may name a long file. Bound the total length of names, so that the result stays a
  // small multiple of the frame.
  if (!checks.fits(refs.size(), kPartitionsMax, "too many images")) return;
  std::vector<std::string> files;
  read_list(names, refs.size(), "more files than images", files, checks,
            [](auto from, std::string& to) { to = text(from); });
  uint64_t name_bytes = 0;
  read_list(refs, kPartitionsMax, "too many images", out, checks, [&](auto from, ImageRef& to) {
    const uint32_t file = from.getFile();
    checks.require(file < files.size(), "image in a file that is not listed");
    if (checks.what() != nullptr) return;
    name_bytes += files[file].size();
    checks.require(name_bytes <= 16 * kHeaderBytesMax, "names of image files too long");
    if (checks.what() != nullptr) return;
    to = {.partition = read_partition(from.getPartition(), checks),
          .file = files[file],
          .offset = from.getOffset(),
          .bytes = from.getBytes(),
          .checksum = from.getChecksum(),
          .base = from.getBase(),
          .checkpoint = {from.getTerm(), from.getN()}};
    checks.require(!to.file.empty(), "image without a file");
  });
}

void read(schema::Lease::Reader in, Lease& out, Checks& checks) {
  out.purpose = enum_in(in.getPurpose(), Purpose::kPredict, "purpose is unset or unknown", checks);
  out.shard = {in.getEpoch(), in.getShard()};
  out.attempt = in.getAttempt();
  out.first_batch = in.getFirstBatch();
  out.evaluation = in.getEvaluation();
  out.plan_hash = in.getPlanHash();
  read_words(in.getQuarantinedBatches(), kMarkersMax, "too many quarantined batches",
             out.quarantined_batches, checks);
  checks.require(std::adjacent_find(out.quarantined_batches.begin(), out.quarantined_batches.end(),
                                    std::greater_equal<>()) == out.quarantined_batches.end(),
                 "quarantined batches out of order");
  out.single_step = in.getSingleStep();
  out.replica = in.getReplica();
  out.rate_reductions = in.getRateReductions();
}

void read(capnp::List<schema::QuarantineMarker>::Reader in, std::vector<QuarantineMarker>& out,
          Checks& checks) {
  read_list(in, kMarkersMax, "too many quarantined batches", out, checks,
            [](auto from, QuarantineMarker& to) {
              to = {{from.getEpoch(), from.getShard(), from.getBatch()},
                    from.getWithdrawn(),
                    from.getHad(),
                    from.getPassed()};
            });
}

void read(schema::ShardCounts::Reader in, ShardCounts& out) { out = read_counts(in); }

void read(schema::PartitionStatus::Reader in, PartitionStatus& out, Checks& checks) {
  out.partition = read_partition(in.getPartition(), checks);
  out.ownership_generation = {in.getGenerationTerm(), in.getGenerationN()};
  out.shards_ended = in.getShardsEnded();
  out.version = in.getVersion();
  out.records_hash = in.getRecordsHash();
  if (in.hasCounts()) read(in.getCounts(), out.counts);
}

void read(capnp::List<schema::Section>::Reader in, std::vector<Section>& out, Checks& checks) {
  read_list(in, kSectionsMax, "too many sections", out, checks, [](auto from, Section& to) {
    to = {TableId(from.getTable()), from.getKeys()};
  });
}

}  // namespace downpour::wire
