#include "shared/wire/read_members.h"

#include <algorithm>

#include "shared/base/units.h"

namespace downpour::wire {
namespace {

void read_loads(schema::Heartbeat::Reader in, std::vector<PartitionLoad>& out, Checks& checks) {
  const auto partitions = in.getLoadPartitions();
  const auto rows = in.getLoadRows();
  const auto bytes = in.getLoadBytes();
  if (!checks.fits(partitions.size(), kLoadsMax, "too many loads")) return;
  checks.require(rows.size() == partitions.size() && bytes.size() == partitions.size(),
                 "loads of different lengths");
  if (checks.what() != nullptr) return;
  for (uint32_t i = 0; i < partitions.size(); ++i) {
    const PartitionId p = read_partition(partitions[i], checks);
    checks.require(out.empty() || p > out.back().partition, "loads that do not ascend");
    if (checks.what() != nullptr) return;
    out.push_back({p, rows[i], bytes[i]});
  }
}

}  // namespace

void read(schema::Hello::Reader in, Hello& out, Checks& checks) {
  out.role = enum_in(in.getRole(), Role::kInput, "role is unset or unknown", checks);
  out.index = in.getIndex();
  out.thread = in.getThread();
  out.pid = in.getPid();
  out.threads = in.getThreads();
  out.incarnation = Incarnation(in.getIncarnation());
  out.build = name(in.getBuild());
  out.host = name(in.getHost());
  out.endpoint = text(in.getEndpoint());
  read_list(in.getClaims(), kPartitionsMax, "too many claims", out.claims, checks,
            [&](auto from, PartitionClaim& to) {
              to = {read_partition(from.getPartition(), checks),
                    {from.getGenerationTerm(), from.getGenerationN()},
                    from.getSealedEpochs()};
            });
  out.plan_hash = in.getPlanHash();
  out.holds_unsealed = in.getHoldsUnsealed();
  checks.require(out.incarnation != Incarnation{}, "incarnation is missing");
}

void read(schema::Welcome::Reader in, Welcome& out, Checks& checks) {
  out.index = in.getIndex();
  out.plan_hash = in.getPlanHash();
  out.shard_bytes = in.getShardBytes();
  out.heartbeat_ns = in.getHeartbeatNs();
  out.lease_ns = in.getLeaseNs();
  out.train_shards = in.getTrainShards();
  out.saves = in.getSaves();
  out.job = text(in.getJob());
  out.base_dir = text(in.getBaseDir());
  out.run_dir = text(in.getRunDir());
  const auto one = [&](auto from, plan::FileInfo& to) { read(from, to, checks); };
  read_list(in.getTrainFiles(), kFilesMax, "too many files", out.train_files, checks, one);
  read_list(in.getEvalFiles(), kFilesMax, "too many files", out.eval_files, checks, one);
  constexpr int64_t kTimeMaxNs = 3600 * kSecond;
  checks.require(!out.job.empty(), "job is missing");
  checks.require(out.shard_bytes > 0, "shard size is 0 bytes");
  checks.require(out.heartbeat_ns > 0 && out.lease_ns > 0, "heartbeat or lease time not positive");
  checks.require(out.heartbeat_ns <= kTimeMaxNs && out.lease_ns <= kTimeMaxNs,
                 "heartbeat or lease time above an hour");
  uint64_t shards = 0;  // each shard takes memory at the receiver
  for (const auto* files : {&out.train_files, &out.eval_files}) {
    for (const plan::FileInfo& file : *files) {
      const bool cut = file.splittable && file.cuts.empty() && out.shard_bytes > 0;
      shards += cut ? std::min(file.bytes / out.shard_bytes, uint64_t(kShardsMax) + 1) : 0;
    }
  }
  checks.require(shards <= kShardsMax, "files of too many shards");
}

void read(schema::Refused::Reader in, Refused& out, Checks& checks) {
  out.code = read(in.getCode(), checks);
  out.what = prose(in.getWhat());
  out.hint = prose(in.getHint());
}

void read(schema::View::Reader in, View& out, Checks& checks) {
  out.id = {in.getTerm(), in.getN()};
  read_list(in.getOwners(), kOwnersMax, "too many owners", out.owners, checks,
            [&](auto from, Owner& to) { read(from, to, checks); });
  out.plan_hash = in.getPlanHash();
  const auto owners = in.getPlacementOwners();
  const auto terms = in.getPlacementTerms();
  const auto ns = in.getPlacementNs();
  const uint32_t n = owners.size();
  checks.require(n > 0, "view without partitions");
  checks.require(terms.size() == n && ns.size() == n, "placement lists of different lengths");
  if (!checks.fits(n, kPartitionsMax, "too many partitions")) return;
  out.partitions.resize(n);
  for (uint32_t p = 0; p < n; ++p) {
    out.partitions[p] = {owners[p], {terms[p], ns[p]}};
    checks.require(
        out.partitions[p].owner < out.owners.size() || out.partitions[p].owner == UINT32_MAX,
        "partition of an owner that is not listed");
  }
}

void read(schema::Adopt::Reader in, Adopt& out, Checks& checks) {
  out.ownership_generation = {in.getGenerationTerm(), in.getGenerationN()};
  out.sealed_epochs = in.getSealedEpochs();
  const auto partitions = in.getPartitions();
  const uint32_t n = partitions.size();
  if (!checks.fits(n, kPartitionsMax, "too many partitions")) return;
  out.partitions.resize(n);
  for (uint32_t i = 0; i < n; ++i) out.partitions[i] = read_partition(partitions[i], checks);
  out.folder = text(in.getFolder());
  if (in.hasImages()) read(in.getImages(), out.images, checks);
  read(in.getMarkers(), out.markers, checks);
  out.markers_known = in.getMarkersKnown();
  out.plan_hash = in.getPlanHash();
}

void read(schema::Adopted::Reader in, Adopted& out, Checks& checks) {
  out.ownership_generation = {in.getGenerationTerm(), in.getGenerationN()};
  out.ok = in.getOk();
  const bool told = uint16_t(in.getCode()) != 0;  // older builds do not set it
  if (!out.ok && told) out.code = read(in.getCode(), checks);
  out.error = prose(in.getError());
}

void read(schema::Heartbeat::Reader in, Heartbeat& out, Checks& checks) {
  out.incarnation = Incarnation(in.getIncarnation());
  checks.require(out.incarnation != Incarnation{}, "incarnation is missing");
  out.rss_bytes_max = in.getRssBytesMax();
  out.cpu_ns = in.getCpuNs();
  out.rows = in.getRows();
  out.table_bytes = in.getTableBytes();
  out.pulled_bytes = in.getPulledBytes();
  out.pushed_bytes = in.getPushedBytes();
  out.records = in.getRecords();
  out.read_bytes = in.getReadBytes();
  out.duplicate_parts = in.getDuplicateParts();
  out.gaps = in.getGaps();
  read(in.getRecent(), out.recent, checks);
  read_words(in.getStaleness(), kBucketsMax, "too many staleness buckets", out.staleness, checks);
  out.load_ns = in.getLoadNs();
  out.busy_ns = in.getBusyNs();
  checks.require(out.load_ns >= 0 && out.busy_ns <= uint64_t(out.load_ns),
                 "busy time is longer than the measured time");
  read_loads(in, out.loads, checks);
  out.work = {.compute_ns = in.getComputeNs(),
              .network_ns = in.getNetworkNs(),
              .input_ns = in.getInputNs(),
              .queued_ns = in.getQueuedNs(),
              .queue_ns = in.getQueueNs()};
  if (!in.hasFailure()) return;
  out.failure = {.what = prose(in.getFailure()),
                 .hint = prose(in.getFailureHint()),
                 .id = name(in.getFailureId())};
  if (uint16_t(in.getFailureCode()) != 0) out.failure.code = read(in.getFailureCode(), checks);
}

}  // namespace downpour::wire
