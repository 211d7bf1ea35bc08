#include "tests/chief/core/chief_harness.h"

#include "tests/support/travel.h"

namespace downpour::chief {

namespace {

std::string peer_name(PeerKey peer) {
  const uint64_t n = raw(peer);
  return n >= 300 ? str("input", n - 300) : n >= 200 ? str("worker", n - 200) : str("ps", n - 100);
}
std::string counts_text(const wire::ShardCounts& c) {
  return str("read=", c.read, " applied=", c.applied, " skipped=", c.skipped,
             " batches=", c.batches);
}
std::string lease_text(const wire::Lease& l) {
  const char* purpose = l.purpose == wire::Purpose::kTrain  ? ""
                        : l.purpose == wire::Purpose::kEval ? " eval"
                                                            : " predict";
  std::string text = str(l.shard, purpose, " attempt=", l.attempt);
  if (l.first_batch > 0) text += str(" first_batch=", l.first_batch);
  if (l.evaluation > 0) text += str(" evaluation=", l.evaluation);
  if (l.single_step) text += " careful";
  if (l.rate_reductions > 0) text += str(" reductions=", l.rate_reductions);
  for (const uint32_t batch : l.quarantined_batches) text += str(" without=", batch);
  return text;
}
std::string markers_text(const std::vector<wire::QuarantineMarker>& markers, bool known) {
  std::string text;
  for (const wire::QuarantineMarker& line : markers) {
    text += str(" line=", line.batch, line.withdrawn ? "(withdrawn)" : "");
  }
  return known ? text : str(text, " and_perhaps_more");
}

struct BodyText {
  std::string operator()(const wire::Welcome& m) const { return str("welcome index=", m.index); }
  std::string operator()(const wire::Refused& m) const {
    return str("refused ", exit_code(m.code), " ", m.what, m.hint.empty() ? "" : " / ", m.hint);
  }
  std::string operator()(const wire::View& m) const {
    return str("view ", m.id, " owners=", m.owners.size());
  }
  std::string operator()(const wire::Adopt& m) const {
    return str("adopt since=", m.ownership_generation, " partitions=", m.partitions.size(),
               " images=", m.images.size(), " sealed=", m.sealed_epochs,
               markers_text(m.markers, m.markers_known));
  }
  std::string operator()(const wire::Freeze& m) const {
    std::string text = str("freeze since=", m.ownership_generation, " partitions=");
    for (const PartitionId p : m.partitions) text += str(p == m.partitions[0] ? "" : ",", p);
    return text;
  }
  std::string operator()(const wire::LeaseGrant& m) const {
    if (m.leases.empty()) return str("grant nothing retry_ms=", m.retry_ns / kMillisecond);
    std::string text = "grant";
    for (const wire::Lease& lease : m.leases) text += str(" [", lease_text(lease), "]");
    return text;
  }
  std::string operator()(const wire::LeaseRevoked& m) const {
    return "revoked " + lease_text(m.lease);
  }
  std::string operator()(const wire::StatusRequest& m) const {
    return str("status? round=", m.round, " epoch=", m.epoch, " shards=", m.shards,
               markers_text(m.markers, m.markers_known));
  }
  std::string operator()(const wire::Save& m) const {
    const std::string base = m.base == ViewId{} ? "" : str(" base=", m.base);
    const std::string part =
        m.partial_shards == 0 ? "" : str(" part=", m.partial_epoch, ":", m.partial_shards);
    return str("save ", m.checkpoint, " ", m.folder, base, part);
  }
  std::string operator()(const wire::Commit& m) const { return str("commit ", m.step); }
  std::string operator()(const wire::Expect& m) const {
    std::string text = "expect";
    for (const wire::StepPart& part : m.parts)
      text += str(' ', part.replica, ':', part.batch.shard);
    return text;
  }
  std::string operator()(const wire::Sealed& m) const { return str("sealed ", m.epochs); }
  std::string operator()(const wire::Stop& m) const {
    return str("stop ", m.code, m.reason.empty() ? "" : " ", m.reason);
  }
  std::string operator()(const wire::Reject& m) const { return str("reject ", m.what); }
  std::string operator()(const wire::Heartbeat&) const { return "heartbeat"; }
  std::string operator()(const wire::Floor& m) const { return str("floor ", m.batches); }
  std::string operator()(const wire::InputList& m) const {
    std::string text = "inputs";
    for (const wire::InputProcess& input : m.inputs)
      text += str(" ", input.index, "=", input.incarnation, "@", input.endpoint);
    return text;
  }
  template <typename Other>
  std::string operator()(const Other&) const {
    return "?";
  }
};

struct EffectText {
  bool with_events = false;
  std::string operator()(const Send& e) const {
    std::string text = str(peer_name(e.peer), " <- ", std::visit(BodyText{}, e.message.body));
    if (const std::string fault = testing::travel_fault(e.message); !fault.empty())
      text += str(" CANNOT TRAVEL: ", fault);
    const bool reply = std::holds_alternative<wire::LeaseGrant>(e.message.body);
    return reply ? str(text, " id=", e.message.envelope.request) : text;
  }
  std::string operator()(const PublishManifest& e) const {
    const std::string bases = e.bases.empty() ? "" : str(" bases=", e.bases.size());
    return str("publish ", e.checkpoint, " images=", e.images.size(), bases,
               e.best == ViewId{} ? std::string() : str(" best=", e.best),
               " sealed=", e.sealed_epochs);
  }
  std::string operator()(const FindOlder& e) const { return str("find older than ", e.below); }
  std::string operator()(const AppendEvent& e) const {
    return with_events ? str("event ", e.line) : "";
  }
  std::string operator()(const ProgressSnapshot&) const { return {}; }
  std::string operator()(const EpochDone& e) const {
    const EpochAccount& a = e.account;
    std::string text = str("epoch ", a.epoch, " done: ", counts_text(a.counts));
    for (const OutputSums& sums : a.metrics) text += str(" loss=", sums.loss, "/", sums.weight);
    if (a.is_partial()) text += str(" shards_left=", a.shards_left);
    return a.attempts_repeated == 0 ? text : str(text, " repeated=", a.attempts_repeated);
  }
  std::string operator()(const EvalDone& e) const {
    std::string text =
        str("evaluation ", e.evaluation.id, " done: ", counts_text(e.evaluation.counts));
    for (const OutputMetrics& o : e.evaluation.outputs)
      text += str(" loss=", o.sums.loss, "/", o.sums.weight);
    return text;
  }
  std::string operator()(const CheckpointDone& e) const {
    return str("checkpoint ", e.checkpoint, " published: sealed=", e.sealed_epochs,
               " rows=", e.rows);
  }
  std::string operator()(const Notice& e) const {
    const char* level = e.level == NoticeLevel::kInfo      ? "note"
                        : e.level == NoticeLevel::kWarning ? "warning"
                                                           : "alarm";
    return str(level, ": ", e.text);
  }
  std::string operator()(const PredictionBatch& e) const {
    return str("predictions ", e.shard, "/", e.batch, " records=", e.records,
               " bytes=", e.values.size(), e.ended ? " ended" : "");
  }
  std::string operator()(const Finish& e) const {
    std::string text = str("finish ", e.code);
    if (e.summary.already_finished) text += " already_finished";
    text += str(" sealed=", e.summary.epochs_sealed, "/", e.summary.epochs_wanted);
    if (e.error) {
      text += str(" error: ", e.error->what);
      if (!e.error->where.empty()) text += str(" / where: ", e.error->where);
      if (!e.error->hint.empty()) text += str(" / hint: ", e.error->hint);
    }
    return text;
  }
};

}  // namespace

std::string to_text(const Effects& effects, bool with_events) {
  std::string text;
  for (const Effect& effect : effects) {
    const std::string line = std::visit(EffectText{with_events}, effect);
    if (!line.empty()) text += str("    ", line, "\n");
  }
  return text;
}

}  // namespace downpour::chief
