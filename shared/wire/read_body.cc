#include <algorithm>

#include "shared/wire/bodies.h"
#include "shared/wire/read_members.h"
#include "shared/wire/read_parts.h"

namespace downpour::wire {
namespace {

using wire::read;

// ---- leases

void read(schema::LeaseRequest::Reader in, LeaseRequest& out, Checks&) {
  out.wanted = in.getWanted();
}

void read(schema::LeaseGrant::Reader in, LeaseGrant& out, Checks& checks) {
  read_list(in.getLeases(), kLeasesMax, "too many leases", out.leases, checks,
            [&](auto from, Lease& to) { read(from, to, checks); });
  out.retry_ns = in.getRetryNs();
  checks.require(out.retry_ns >= 0, "negative retry time");
}

void read(schema::ShardProgress::Reader in, ShardProgress& out, Checks& checks) {
  read(in.getLease(), out.lease, checks);
  out.batches_acked = in.getBatchesAcked();
  out.ended = in.getEnded();
  out.bytes_done = in.getBytesDone();
  if (in.hasCounts()) read(in.getCounts(), out.counts);
}

void read(schema::ShardFailed::Reader in, ShardFailed& out, Checks& checks) {
  read(in.getLease(), out.lease, checks);
  out.batch = in.getBatch();
  out.code = read(in.getCode(), checks);
  out.what = prose(in.getWhat());
  out.where = prose(in.getWhere());
  out.hint = prose(in.getHint());
  out.id = name(in.getId());
  const auto kind = uint16_t(in.getKind());
  checks.require(kind <= uint16_t(raw(FailureKind::kMarkersDiffer)), "failure of an unknown kind");
  out.kind = FailureKind(kind);
}

void read(schema::LeaseRevoked::Reader in, LeaseRevoked& out, Checks& checks) {
  read(in.getLease(), out.lease, checks);
}

void read(schema::Clock::Reader in, Clock& out, Checks& checks) {
  out = {.batches = in.getBatches(), .floor = in.getFloor(), .sent_ns = in.getSentNs()};
  checks.require(out.batches <= kBatchesMax && out.floor <= out.batches && out.sent_ns >= 0,
                 "impossible clock");
}

void read(schema::Floor::Reader in, Floor& out, Checks& checks) {
  out = {.batches = in.getBatches(), .report_ns = in.getReportNs()};
  checks.require(out.batches <= kBatchesMax && out.report_ns >= 0, "impossible floor");
}

void read_parts(capnp::List<schema::StepPart>::Reader in, auto& out, Checks& checks) {
  read_list(in, kStepPartsMax, "too many replicas", out.parts, checks, [](auto from, StepPart& to) {
    to = {from.getReplica(), {from.getEpoch(), from.getShard(), from.getBatch()}};
  });
  const auto unordered = [](const StepPart& a, const StepPart& b) {
    return a.replica >= b.replica;
  };
  checks.require(std::ranges::adjacent_find(out.parts, unordered) == out.parts.end(),
                 "replicas out of order");
}

void read_step(uint64_t step, capnp::List<schema::StepPart>::Reader in, auto& out, Checks& checks) {
  out.step = step;
  checks.require(step != 0, "step is missing");
  read_parts(in, out, checks);
}

void read(schema::Expect::Reader in, Expect& out, Checks& checks) {
  out.version = in.getVersion();
  checks.require(out.version != 0, "version is missing");
  read_parts(in.getParts(), out, checks);
}

void read(schema::Staged::Reader in, Staged& out, Checks& checks) {
  read_step(in.getStep(), in.getParts(), out, checks);
  out.expects = in.getExpects();
}

void read(schema::Commit::Reader in, Commit& out, Checks& checks) {
  read_step(in.getStep(), in.getParts(), out, checks);
  out.measure = in.getMeasure();
  read_words(in.getFactors(), kFactorsMax, "too many factors", out.factors, checks);
}

void read(schema::Committed::Reader in, Committed& out, Checks& checks) {
  out.step = in.getStep();
  checks.require(out.step != 0, "step is missing");
  out.measured = in.getMeasured();
  read_list(in.getPartitions(), kPartitionsMax, "too many partitions", out.partitions, checks,
            [&](uint32_t from, PartitionId& to) { to = read_partition(from, checks); });
}

void read(schema::EvalReport::Reader in, EvalReport& out, Checks& checks) {
  read(in.getLease(), out.lease, checks);
  if (in.hasCounts()) read(in.getCounts(), out.counts);
  read(in.getOutputs(), out.outputs, checks);
  read(in.getSlices(), out.slices, checks);
}

void read(schema::PredictReport::Reader in, PredictReport& out, Checks& checks) {
  read(in.getLease(), out.lease, checks);
  out.batch = in.getBatch();
  out.records = in.getRecords();
  out.ended = in.getEnded();
  if (in.hasCounts()) read(in.getCounts(), out.counts);
}

// ---- completion, checkpoints, end

void read(schema::StatusRequest::Reader in, StatusRequest& out, Checks& checks) {
  out.round = in.getRound();
  out.epoch = in.getEpoch();
  out.shards = in.getShards();
  read(in.getMarkers(), out.markers, checks);
  out.markers_known = in.getMarkersKnown();
}

void read_intervals(capnp::List<schema::Interval>::Reader in, std::vector<Interval>& out,
                    Checks& checks) {
  read_list(in, kShardsListedMax, "too many shards", out, checks, [&](auto from, Interval& to) {
    to = {from.getBegin(), from.getEnd()};
    checks.require(to.begin < to.end, "empty interval of shards");
  });
  const auto in_order = [](const Interval& a, const Interval& b) { return a.end > b.begin; };
  checks.require(std::adjacent_find(out.begin(), out.end(), in_order) == out.end(),
                 "intervals of shards out of order");
}

void read(schema::StatusReply::Reader in, StatusReply& out, Checks& checks) {
  out.round = in.getRound();
  out.epoch = in.getEpoch();
  out.view = {in.getViewTerm(), in.getViewN()};
  read_list(in.getPartitions(), kPartitionsMax, "too many partitions", out.partitions, checks,
            [&](auto from, PartitionStatus& to) { read(from, to, checks); });
  read_intervals(in.getEnded(), out.ended, checks);
  read_list(in.getOpen(), kShardsListedMax, "too many shards", out.open, checks,
            [](auto from, ShardWatermark& to) {
              to = {from.getShard(), from.getWatermark()};
            });
  read(in.getMetrics(), out.metrics, checks);
  out.failure = prose(in.getFailure());
  read(in.getMarkers(), out.markers, checks);
  read_intervals(in.getBegun(), out.begun, checks);
}

void read(schema::Save::Reader in, Save& out, Checks& checks) {
  out.checkpoint = {in.getTerm(), in.getN()};
  out.base = {in.getBaseTerm(), in.getBaseN()};
  out.folder = text(in.getFolder());
  checks.require(!out.folder.empty(), "folder is missing");
  out.partial_epoch = in.getPartialEpoch();
  out.partial_shards = in.getPartialShards();
  out.step = in.getStep();
}

void read(schema::Saved::Reader in, Saved& out, Checks& checks) {
  out.checkpoint = {in.getTerm(), in.getN()};
  out.ok = in.getOk();
  out.rows = in.getRows();
  out.error = prose(in.getError());
  if (in.hasImages()) read(in.getImages(), out.images, checks);
  out.beyond_partial_epoch = in.getBeyondPartialEpoch();
  out.sealed_epochs = in.getSealedEpochs();
}

void read(schema::Freeze::Reader in, Freeze& out, Checks& checks) {
  out.ownership_generation = {in.getGenerationTerm(), in.getGenerationN()};
  const auto partitions = in.getPartitions();
  const uint32_t n = partitions.size();
  if (!checks.fits(n, kPartitionsMax, "too many partitions")) return;
  checks.require(n > 0, "partitions are missing");
  out.partitions.resize(n);
  for (uint32_t i = 0; i < n; ++i) out.partitions[i] = read_partition(partitions[i], checks);
  out.folder = text(in.getFolder());
  checks.require(!out.folder.empty(), "folder is missing");
}

void read(schema::Frozen::Reader in, Frozen& out, Checks& checks) {
  out.ownership_generation = {in.getGenerationTerm(), in.getGenerationN()};
  out.ok = in.getOk();
  out.error = prose(in.getError());
  if (in.hasImages()) read(in.getImages(), out.images, checks);
}

void read(schema::Leave::Reader in, Leave& out, Checks& checks) {
  out.incarnation = Incarnation(in.getIncarnation());
  checks.require(out.incarnation != Incarnation{}, "incarnation is missing");
  out.signal = in.getSignal();
}

void read(schema::Sealed::Reader in, Sealed& out, Checks&) { out.epochs = in.getEpochs(); }

void read(schema::Stop::Reader in, Stop& out, Checks&) {
  out.code = in.getCode();
  out.reason = prose(in.getReason());
}

void read(schema::Goodbye::Reader in, Goodbye& out, Checks& checks) {
  read(in.getLast(), out.last, checks);
}

// ---- pulls and pushes

void read(schema::Pull::Reader in, Pull& out, Checks& checks) {
  out.worker = Incarnation(in.getWorker());
  checks.require(out.worker != Incarnation{}, "worker is missing");
  out.purpose = enum_in(in.getPurpose(), Purpose::kPredict, "purpose is unset or unknown", checks);
  out.keep_handle = in.getKeepHandle();
  out.step = in.getStep();
  read(in.getSections(), out.sections, checks);
}

void read(schema::PullReply::Reader in, PullReply& out, Checks& checks) {
  out.status =
      enum_in(in.getStatus(), PullStatus::kOverloaded, "status is unset or unknown", checks);
  out.view = {in.getViewTerm(), in.getViewN()};
  read_words(in.getVersions(), kPartitionsMax, "too many versions", out.versions, checks);
}

void read(schema::Push::Reader in, Push& out, Checks& checks) {
  out.worker = Incarnation(in.getWorker());
  checks.require(out.worker != Incarnation{}, "worker is missing");
  out.batch = {in.getEpoch(), in.getShard(), in.getBatch()};
  out.records = in.getRecords();
  out.records_hash = in.getRecordsHash();
  out.handle = RequestId(in.getHandle());
  out.fragment = in.getFragment();
  out.fragments = in.getFragments();
  checks.require(out.fragment < out.fragments && out.fragments <= kFragmentsMax,
                 "fragment out of range");
  out.end = in.getEnd();
  if (in.hasCounts()) read(in.getCounts(), out.counts);
  read_words(in.getCovered(), kPartitionsMax / 64, "too many partitions", out.covered.words,
             checks);
  checks.require(out.covered.size() > 0, "push that covers no partition");
  read_words(in.getPulledVersions(), kPartitionsMax, "too many versions", out.pulled_versions,
             checks);
  read(in.getSections(), out.sections, checks);
  checks.require(!out.end || out.sections.empty(), "shard-end marker with keys");
  read(in.getMetrics(), out.metrics, checks);
  out.quarantined = in.getQuarantined();
  checks.require(!out.quarantined || (!out.end && out.sections.empty()),
                 "a quarantined batch with keys");
  out.batches_quarantined = in.getBatchesQuarantined();
  out.step = in.getStep();
  out.replica = in.getReplica();
  out.rate_reductions = in.getRateReductions();
}

void read(schema::PushReply::Reader in, PushReply& out, Checks& checks) {
  out.batch = {in.getEpoch(), in.getShard(), in.getBatch()};
  out.view = {in.getViewTerm(), in.getViewN()};
  read_words(in.getApplied(), kPartitionsMax / 64, "too many partitions", out.applied.words,
             checks);
  read_list(in.getOthers(), kPartitionsMax, "too many parts", out.others, checks,
            [&](auto from, PartReply& to) {
              to = {read_partition(from.getPartition(), checks),
                    enum_in(from.getStatus(), PartStatus::kSendAgain, "status is unset or unknown",
                            checks),
                    from.getWatermark()};
            });
}

// ---- reading in another process

void read_shard_read_id(uint64_t in, uint64_t& out, Checks& checks) {
  out = in;
  checks.require(out != 0, "shard read is missing");
}

void read(schema::InputList::Reader in, InputList& out, Checks& checks) {
  read_list(in.getInputs(), kInputsMax, "too many input processes", out.inputs, checks,
            [&](auto from, InputProcess& to) {
              to = {from.getIndex(), Incarnation(from.getIncarnation()), text(from.getEndpoint())};
              checks.require(to.incarnation != Incarnation{} && !to.endpoint.empty(),
                             "an input process without incarnation or endpoint");
            });
}

void read(schema::ReadShard::Reader in, ReadShard& out, Checks& checks) {
  read_shard_read_id(in.getShardRead(), out.shard_read, checks);
  read(in.getLease(), out.lease, checks);
  out.first_batch = in.getFirstBatch();
  out.window = in.getWindow();
  checks.require(out.window > 0, "number of batches in flight is 0");
}

void read(schema::ReadMore::Reader in, ReadMore& out, Checks& checks) {
  read_shard_read_id(in.getShardRead(), out.shard_read, checks);
  out.next = in.getNext();
  out.stop = in.getStop();
}

void read(schema::ReadBatch::Reader in, ReadBatch& out, Checks& checks) {
  read_shard_read_id(in.getShardRead(), out.shard_read, checks);
  out.batch = in.getBatch();
  out.piece = in.getPiece();
  out.pieces = in.getPieces();
  checks.require(out.piece < out.pieces && out.pieces <= kPiecesMax, "piece is out of range");
}

void read(schema::ReadEnd::Reader in, ReadEnd& out, Checks& checks) {
  read_shard_read_id(in.getShardRead(), out.shard_read, checks);
  if (in.hasCounts()) read(in.getCounts(), out.counts);
  out.records_hash = in.getRecordsHash();
}

void read(schema::ReadFailed::Reader in, ReadFailed& out, Checks& checks) {
  read_shard_read_id(in.getShardRead(), out.shard_read, checks);
  out.code = read(in.getCode(), checks);
  out.what = prose(in.getWhat());
  out.where = prose(in.getWhere());
  out.hint = prose(in.getHint());
  out.id = name(in.getId());
  out.of_record = in.getOfRecord();
  out.batch = in.getBatch();
}

void read(schema::Reject::Reader in, Reject& out, Checks& checks) {
  out.code = read(in.getCode(), checks);
  out.what = prose(in.getWhat());
}

template <typename Plain, typename Schema>
Result<Body> read_as(capnp::MessageReader& reader) {
  Body body(std::in_place_type<Plain>);
  Checks checks;
  read(reader.getRoot<Schema>(), std::get<Plain>(body), checks);
  if (checks.what() == nullptr) return body;
  return Error{.code = ErrorCode::kMalformed, .what = checks.what()};
}

}  // namespace

Result<Body> read_body(Kind kind, capnp::MessageReader& reader) {
#define DP_READ(Name) \
  case Kind::k##Name: \
    return read_as<Name, schema::Name>(reader)
  const auto read_kind = [&]() -> Result<Body> {
    switch (kind) {
      DP_READ(Hello);
      DP_READ(Welcome);
      DP_READ(Refused);
      DP_READ(View);
      DP_READ(Adopt);
      DP_READ(Adopted);
      DP_READ(Heartbeat);
      DP_READ(LeaseRequest);
      DP_READ(LeaseGrant);
      DP_READ(ShardProgress);
      DP_READ(ShardFailed);
      DP_READ(LeaseRevoked);
      DP_READ(EvalReport);
      DP_READ(PredictReport);
      DP_READ(StatusRequest);
      DP_READ(StatusReply);
      DP_READ(Save);
      DP_READ(Saved);
      DP_READ(Sealed);
      DP_READ(Stop);
      DP_READ(Goodbye);
      DP_READ(Pull);
      DP_READ(PullReply);
      DP_READ(Push);
      DP_READ(PushReply);
      DP_READ(Reject);
      DP_READ(Freeze);
      DP_READ(Frozen);
      DP_READ(Leave);
      DP_READ(InputList);
      DP_READ(ReadShard);
      DP_READ(ReadMore);
      DP_READ(ReadBatch);
      DP_READ(ReadEnd);
      DP_READ(ReadFailed);
      DP_READ(Clock);
      DP_READ(Floor);
      DP_READ(Staged);
      DP_READ(Commit);
      DP_READ(Committed);
      DP_READ(Expect);
    }
    return Error{.code = ErrorCode::kUnsupported,
                 .what = str("message of unknown kind ", raw(kind))};
  };
#undef DP_READ
  return read_kind().context(kind_name(kind));
}

}  // namespace downpour::wire
