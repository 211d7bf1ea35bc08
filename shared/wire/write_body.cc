#include "shared/wire/bodies.h"
#include "shared/wire/write_parts.h"

namespace downpour::wire {
namespace {

using wire::write;

// ---- membership

void write(const Hello& in, schema::Hello::Builder out) {
  out.setRole(enum_out<schema::Role>(in.role));
  out.setIndex(in.index);
  out.setThread(in.thread);
  out.setPid(in.pid);
  out.setThreads(in.threads);
  out.setIncarnation(raw(in.incarnation));
  out.setBuild(text_out(in.build));
  out.setHost(text_out(in.host));
  out.setEndpoint(text_out(in.endpoint));
  write_list(
      in.claims, [&](uint32_t n) { return out.initClaims(n); },
      [](const PartitionClaim& claim, auto to) {
        to.setPartition(raw(claim.partition));
        write_generation(claim.ownership_generation, to);
        to.setSealedEpochs(claim.sealed_epochs);
      });
  out.setPlanHash(in.plan_hash);
  out.setHoldsUnsealed(in.holds_unsealed);
}

void write(const Welcome& in, schema::Welcome::Builder out) {
  out.setIndex(in.index);
  out.setPlanHash(in.plan_hash);
  out.setShardBytes(in.shard_bytes);
  out.setHeartbeatNs(in.heartbeat_ns);
  out.setLeaseNs(in.lease_ns);
  out.setTrainShards(in.train_shards);
  out.setSaves(in.saves);
  out.setJob(text_out(in.job));
  out.setBaseDir(text_out(in.base_dir));
  out.setRunDir(text_out(in.run_dir));
  const auto one = [](const plan::FileInfo& file, auto to) { write(file, to); };
  write_list(
      in.train_files, [&](uint32_t n) { return out.initTrainFiles(n); }, one);
  write_list(
      in.eval_files, [&](uint32_t n) { return out.initEvalFiles(n); }, one);
}

void write(const Refused& in, schema::Refused::Builder out) {
  out.setCode(enum_out<schema::ErrorCode>(in.code));
  out.setWhat(text_out(in.what));
  out.setHint(text_out(in.hint));
}

void write(const View& in, schema::View::Builder out) {
  write_id(in.id, out);
  write_list(
      in.owners, [&](uint32_t n) { return out.initOwners(n); },
      [](const Owner& owner, auto to) { write(owner, to); });
  const auto n = uint32_t(in.partitions.size());
  auto owners = out.initPlacementOwners(n);
  auto terms = out.initPlacementTerms(n);
  auto ns = out.initPlacementNs(n);
  for (uint32_t p = 0; p < n; ++p) {
    owners.set(p, in.partitions[p].owner);
    terms.set(p, in.partitions[p].ownership_generation.term);
    ns.set(p, in.partitions[p].ownership_generation.n);
  }
  out.setPlanHash(in.plan_hash);
}

void write(const Adopt& in, schema::Adopt::Builder out) {
  write_generation(in.ownership_generation, out);
  out.setSealedEpochs(in.sealed_epochs);
  write_partitions(in.partitions, out);
  out.setFolder(text_out(in.folder));
  if (!in.images.empty()) write(in.images, out.initImages());
  write_markers(in.markers, out);
  out.setMarkersKnown(in.markers_known);
  out.setPlanHash(in.plan_hash);
}

void write(const Adopted& in, schema::Adopted::Builder out) {
  write_generation(in.ownership_generation, out);
  out.setOk(in.ok);
  if (!in.ok) out.setCode(enum_out<schema::ErrorCode>(in.code));
  out.setError(text_out(in.error));
}

void write(const Heartbeat& in, schema::Heartbeat::Builder out) {
  out.setIncarnation(raw(in.incarnation));
  out.setRssBytesMax(in.rss_bytes_max);
  out.setCpuNs(in.cpu_ns);
  out.setRows(in.rows);
  out.setTableBytes(in.table_bytes);
  out.setPulledBytes(in.pulled_bytes);
  out.setPushedBytes(in.pushed_bytes);
  out.setRecords(in.records);
  out.setReadBytes(in.read_bytes);
  out.setDuplicateParts(in.duplicate_parts);
  out.setGaps(in.gaps);
  write_list(
      in.recent, [&](uint32_t n) { return out.initRecent(n); },
      [](const OutputMetrics& metrics, auto to) { write(metrics, to); });
  write_words(in.staleness, [&](uint32_t n) { return out.initStaleness(n); });
  out.setLoadNs(in.load_ns);
  out.setBusyNs(in.busy_ns);
  out.setComputeNs(in.work.compute_ns);
  out.setNetworkNs(in.work.network_ns);
  out.setInputNs(in.work.input_ns);
  out.setQueuedNs(in.work.queued_ns);
  out.setQueueNs(in.work.queue_ns);
  if (!in.failure.what.empty()) {
    out.setFailure(text_out(in.failure.what));
    out.setFailureHint(text_out(in.failure.hint));
    out.setFailureId(text_out(in.failure.id));
    out.setFailureCode(enum_out<schema::ErrorCode>(in.failure.code));
  }
  if (in.loads.empty()) return;
  const auto count = uint32_t(in.loads.size());
  auto partitions = out.initLoadPartitions(count);
  auto rows = out.initLoadRows(count);
  auto bytes = out.initLoadBytes(count);
  for (uint32_t i = 0; i < count; ++i) {
    partitions.set(i, raw(in.loads[i].partition));
    rows.set(i, in.loads[i].rows);
    bytes.set(i, in.loads[i].bytes);
  }
}

// ---- leases

void write(const LeaseRequest& in, schema::LeaseRequest::Builder out) { out.setWanted(in.wanted); }

void write(const LeaseGrant& in, schema::LeaseGrant::Builder out) {
  write_list(
      in.leases, [&](uint32_t n) { return out.initLeases(n); },
      [](const Lease& lease, auto to) { write(lease, to); });
  out.setRetryNs(in.retry_ns);
}

void write(const ShardProgress& in, schema::ShardProgress::Builder out) {
  write(in.lease, out.initLease());
  out.setBatchesAcked(in.batches_acked);
  out.setEnded(in.ended);
  out.setBytesDone(in.bytes_done);
  if (in.counts != ShardCounts{}) write(in.counts, out.initCounts());
}

void write(const ShardFailed& in, schema::ShardFailed::Builder out) {
  write(in.lease, out.initLease());
  out.setBatch(in.batch);
  out.setCode(enum_out<schema::ErrorCode>(in.code));
  out.setWhat(text_out(in.what));
  out.setWhere(text_out(in.where));
  out.setHint(text_out(in.hint));
  out.setId(text_out(in.id));
  if (in.kind != FailureKind::kOther) out.setKind(schema::FailureKind(raw(in.kind)));
}

void write(const LeaseRevoked& in, schema::LeaseRevoked::Builder out) {
  write(in.lease, out.initLease());
}

void write(const Clock& in, schema::Clock::Builder out) {
  out.setBatches(in.batches);
  out.setFloor(in.floor);
  out.setSentNs(in.sent_ns);
}

void write(const Floor& in, schema::Floor::Builder out) {
  out.setBatches(in.batches);
  out.setReportNs(in.report_ns);
}

void write_parts(const auto& in, auto out) {
  write_list(
      in.parts, [&](uint32_t n) { return out.initParts(n); },
      [](const StepPart& part, auto to) {
        to.setReplica(part.replica);
        to.setEpoch(part.batch.epoch);
        to.setShard(part.batch.shard);
        to.setBatch(part.batch.batch);
      });
}

void write_step(const auto& in, auto out) {
  out.setStep(in.step);
  write_parts(in, out);
}

void write(const Expect& in, schema::Expect::Builder out) {
  out.setVersion(in.version);
  write_parts(in, out);
}

void write(const Staged& in, schema::Staged::Builder out) {
  write_step(in, out);
  out.setExpects(in.expects);
}

void write(const Commit& in, schema::Commit::Builder out) {
  write_step(in, out);
  out.setMeasure(in.measure);
  write_words(in.factors, [&](uint32_t n) { return out.initFactors(n); });
}

void write(const Committed& in, schema::Committed::Builder out) {
  out.setStep(in.step);
  out.setMeasured(in.measured);
  if (in.partitions.empty()) return;
  auto partitions = out.initPartitions(uint32_t(in.partitions.size()));
  for (uint32_t i = 0; i < in.partitions.size(); ++i) partitions.set(i, raw(in.partitions[i]));
}

void write(const EvalReport& in, schema::EvalReport::Builder out) {
  write(in.lease, out.initLease());
  if (in.counts != ShardCounts{}) write(in.counts, out.initCounts());
  write_list(
      in.outputs, [&](uint32_t n) { return out.initOutputs(n); },
      [](const OutputMetrics& metrics, auto to) { write(metrics, to); });
  write_list(
      in.slices, [&](uint32_t n) { return out.initSlices(n); },
      [](const OutputMetrics& metrics, auto to) { write(metrics, to); });
}

void write(const PredictReport& in, schema::PredictReport::Builder out) {
  write(in.lease, out.initLease());
  out.setBatch(in.batch);
  out.setRecords(in.records);
  out.setEnded(in.ended);
  if (in.counts != ShardCounts{}) write(in.counts, out.initCounts());
}

// ---- completion, checkpoints, end

void write(const StatusRequest& in, schema::StatusRequest::Builder out) {
  out.setRound(in.round);
  out.setEpoch(in.epoch);
  out.setShards(in.shards);
  write_markers(in.markers, out);
  out.setMarkersKnown(in.markers_known);
}

template <typename Init>
void write_intervals(const std::vector<Interval>& in, Init init) {
  write_list(in, init, [](const Interval& interval, auto to) {
    to.setBegin(interval.begin);
    to.setEnd(interval.end);
  });
}

void write(const StatusReply& in, schema::StatusReply::Builder out) {
  out.setRound(in.round);
  out.setEpoch(in.epoch);
  out.setViewTerm(in.view.term);
  out.setViewN(in.view.n);
  write_list(
      in.partitions, [&](uint32_t n) { return out.initPartitions(n); },
      [](const PartitionStatus& status, auto to) { write(status, to); });
  write_intervals(in.ended, [&](uint32_t n) { return out.initEnded(n); });
  write_list(
      in.open, [&](uint32_t n) { return out.initOpen(n); },
      [](const ShardWatermark& open, auto to) {
        to.setShard(open.shard);
        to.setWatermark(open.watermark);
      });
  write_list(
      in.metrics, [&](uint32_t n) { return out.initMetrics(n); },
      [](const OutputSums& sums, auto to) { write(sums, to); });
  out.setFailure(text_out(in.failure));
  write_markers(in.markers, out);
  write_intervals(in.begun, [&](uint32_t n) { return out.initBegun(n); });
}

void write(const Save& in, schema::Save::Builder out) {
  write_id(in.checkpoint, out);
  out.setFolder(text_out(in.folder));
  out.setBaseTerm(in.base.term);
  out.setBaseN(in.base.n);
  out.setPartialEpoch(in.partial_epoch);
  out.setPartialShards(in.partial_shards);
  out.setStep(in.step);
}

void write(const Saved& in, schema::Saved::Builder out) {
  write_id(in.checkpoint, out);
  out.setOk(in.ok);
  out.setRows(in.rows);
  out.setError(text_out(in.error));
  if (!in.images.empty()) write(in.images, out.initImages());
  out.setBeyondPartialEpoch(in.beyond_partial_epoch);
  out.setSealedEpochs(in.sealed_epochs);
}

void write(const Freeze& in, schema::Freeze::Builder out) {
  write_generation(in.ownership_generation, out);
  write_partitions(in.partitions, out);
  out.setFolder(text_out(in.folder));
}

void write(const Frozen& in, schema::Frozen::Builder out) {
  write_generation(in.ownership_generation, out);
  out.setOk(in.ok);
  out.setError(text_out(in.error));
  if (!in.images.empty()) write(in.images, out.initImages());
}

void write(const Leave& in, schema::Leave::Builder out) {
  out.setIncarnation(raw(in.incarnation));
  out.setSignal(in.signal);
}

void write(const Sealed& in, schema::Sealed::Builder out) { out.setEpochs(in.epochs); }

void write(const Stop& in, schema::Stop::Builder out) {
  out.setCode(in.code);
  out.setReason(text_out(in.reason));
}

void write(const Goodbye& in, schema::Goodbye::Builder out) { write(in.last, out.initLast()); }

// ---- pulls and pushes

void write(const Pull& in, schema::Pull::Builder out) {
  out.setWorker(raw(in.worker));
  out.setPurpose(enum_out<schema::Purpose>(in.purpose));
  out.setKeepHandle(in.keep_handle);
  out.setStep(in.step);
  write_sections(in.sections, out);
}

void write(const PullReply& in, schema::PullReply::Builder out) {
  out.setStatus(enum_out<schema::PullStatus>(in.status));
  out.setViewTerm(in.view.term);
  out.setViewN(in.view.n);
  write_words(in.versions, [&](uint32_t n) { return out.initVersions(n); });
}

void write(const Push& in, schema::Push::Builder out) {
  out.setWorker(raw(in.worker));
  out.setEpoch(in.batch.epoch);
  out.setShard(in.batch.shard);
  out.setBatch(in.batch.batch);
  out.setRecords(in.records);
  out.setRecordsHash(in.records_hash);
  out.setHandle(raw(in.handle));
  out.setFragment(in.fragment);
  out.setFragments(in.fragments);
  out.setEnd(in.end);
  if (in.counts != ShardCounts{}) write(in.counts, out.initCounts());
  write_words(in.covered.words, [&](uint32_t n) { return out.initCovered(n); });
  write_words(in.pulled_versions, [&](uint32_t n) { return out.initPulledVersions(n); });
  write_sections(in.sections, out);
  write_list(
      in.metrics, [&](uint32_t n) { return out.initMetrics(n); },
      [](const OutputSums& sums, auto to) { write(sums, to); });
  out.setQuarantined(in.quarantined);
  out.setBatchesQuarantined(in.batches_quarantined);
  out.setStep(in.step);
  out.setReplica(in.replica);
  out.setRateReductions(in.rate_reductions);
}

void write(const PushReply& in, schema::PushReply::Builder out) {
  out.setEpoch(in.batch.epoch);
  out.setShard(in.batch.shard);
  out.setBatch(in.batch.batch);
  out.setViewTerm(in.view.term);
  out.setViewN(in.view.n);
  write_words(in.applied.words, [&](uint32_t n) { return out.initApplied(n); });
  write_list(
      in.others, [&](uint32_t n) { return out.initOthers(n); },
      [](const PartReply& part, auto to) {
        to.setPartition(raw(part.partition));
        to.setStatus(enum_out<schema::PartStatus>(part.status));
        to.setWatermark(part.watermark);
      });
}

// ---- reading in another process

void write(const InputList& in, schema::InputList::Builder out) {
  write_list(
      in.inputs, [&](uint32_t n) { return out.initInputs(n); },
      [](const InputProcess& input, auto to) {
        to.setIndex(input.index);
        to.setIncarnation(raw(input.incarnation));
        to.setEndpoint(text_out(input.endpoint));
      });
}

void write(const ReadShard& in, schema::ReadShard::Builder out) {
  out.setShardRead(in.shard_read);
  write(in.lease, out.initLease());
  out.setFirstBatch(in.first_batch);
  out.setWindow(in.window);
}

void write(const ReadMore& in, schema::ReadMore::Builder out) {
  out.setShardRead(in.shard_read);
  out.setNext(in.next);
  out.setStop(in.stop);
}

void write(const ReadBatch& in, schema::ReadBatch::Builder out) {
  out.setShardRead(in.shard_read);
  out.setBatch(in.batch);
  out.setPiece(in.piece);
  out.setPieces(in.pieces);
}

void write(const ReadEnd& in, schema::ReadEnd::Builder out) {
  out.setShardRead(in.shard_read);
  write(in.counts, out.initCounts());
  out.setRecordsHash(in.records_hash);
}

void write(const ReadFailed& in, schema::ReadFailed::Builder out) {
  out.setShardRead(in.shard_read);
  out.setCode(enum_out<schema::ErrorCode>(in.code));
  out.setWhat(text_out(in.what));
  out.setWhere(text_out(in.where));
  out.setHint(text_out(in.hint));
  out.setId(text_out(in.id));
  out.setOfRecord(in.of_record);
  out.setBatch(in.batch);
}

void write(const Reject& in, schema::Reject::Builder out) {
  out.setCode(enum_out<schema::ErrorCode>(in.code));
  out.setWhat(text_out(in.what));
}

template <typename Plain>
struct SchemaOf;
#define DP_BODY(Name)          \
  template <>                  \
  struct SchemaOf<Name> {      \
    using Type = schema::Name; \
  }
DP_BODY(Hello);
DP_BODY(Welcome);
DP_BODY(Refused);
DP_BODY(View);
DP_BODY(Adopt);
DP_BODY(Adopted);
DP_BODY(Heartbeat);
DP_BODY(LeaseRequest);
DP_BODY(LeaseGrant);
DP_BODY(ShardProgress);
DP_BODY(ShardFailed);
DP_BODY(LeaseRevoked);
DP_BODY(EvalReport);
DP_BODY(PredictReport);
DP_BODY(StatusRequest);
DP_BODY(StatusReply);
DP_BODY(Save);
DP_BODY(Saved);
DP_BODY(Sealed);
DP_BODY(Stop);
DP_BODY(Goodbye);
DP_BODY(Pull);
DP_BODY(PullReply);
DP_BODY(Push);
DP_BODY(PushReply);
DP_BODY(Reject);
DP_BODY(Freeze);
DP_BODY(Frozen);
DP_BODY(Leave);
DP_BODY(InputList);
DP_BODY(ReadShard);
DP_BODY(ReadMore);
DP_BODY(ReadBatch);
DP_BODY(ReadEnd);
DP_BODY(ReadFailed);
DP_BODY(Clock);
DP_BODY(Floor);
DP_BODY(Staged);
DP_BODY(Commit);
DP_BODY(Committed);
DP_BODY(Expect);
#undef DP_BODY

}  // namespace

void write_body(const Body& body, capnp::MessageBuilder& builder) {
  std::visit(
      [&]<typename Plain>(const Plain& plain) {
        write(plain, builder.initRoot<typename SchemaOf<Plain>::Type>());
      },
      body);
}

}  // namespace downpour::wire
