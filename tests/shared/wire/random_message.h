// Random messages of every kind with every field filled, from a seed.
#pragma once

#include <string>
#include <vector>

#include "shared/base/rng.h"
#include "shared/wire/frame.h"
#include "shared/wire/messages.h"

namespace downpour::wire {

class RandomMessages {
 public:
  explicit RandomMessages(uint64_t seed) : rng_(seed) {}

  Message next(Kind kind) {
    Message message;
    message.envelope = {.run = word(), .view = view(), .request = RequestId(word() | 1)};
    message.body = body(kind);
    if (const auto* pull = std::get_if<Pull>(&message.body)) message.keys = keys_of(pull->sections);
    if (const auto* push = std::get_if<Push>(&message.body)) {
      if (push->handle == RequestId{}) message.keys = keys_of(push->sections);
      if (!push->end) message.values = floats();
    }
    if (kind == Kind::kPullReply || kind == Kind::kPredictReport || kind == Kind::kReadBatch)
      message.values = floats();
    return message;
  }

 private:
  uint64_t word() { return rng_.next() >> rng_.below(64); }
  uint32_t number() { return uint32_t(word()); }
  size_t few() { return size_t(rng_.below(5)); }
  bool coin() { return rng_.below(2) == 1; }
  double real() { return rng_.normal() * 1e3; }
  ViewId view() { return {number(), number()}; }
  PartitionId partition() { return PartitionId(uint32_t(rng_.below(65536))); }
  std::string text(size_t least = 0) {
    std::string out(least + size_t(rng_.below(40)), 'a');
    for (char& c : out) c = char(rng_.below(256));  // any byte, including NUL and invalid UTF-8
    return out;
  }
  /// Returns text that passes printable_line() unchanged, because text for people travels in that
  /// form.
  std::string prose() {
    std::string out = text();
    for (char& c : out) c = char(' ' + uint8_t(c) % 95);
    return out;
  }
  template <typename Make>
  auto list(Make&& make, size_t least = 0) {
    std::vector<decltype(make())> out;
    for (size_t n = least + few(); n > 0; --n) out.push_back(make());
    return out;
  }
  Bytes floats() {
    std::vector<float> out(1 + size_t(rng_.below(300)));
    for (float& x : out) x = float(real());
    return Bytes::of(std::move(out));
  }
  Bytes keys_of(const std::vector<Section>& sections) {
    std::vector<uint64_t> keys;
    for (const Section& section : sections) {
      for (uint32_t i = 0; i < section.keys; ++i) keys.push_back(rng_.next());
    }
    return keys.empty() ? Bytes{} : Bytes::of(std::move(keys));
  }
  std::vector<Section> sections() {
    return list([&] { return Section{TableId(number()), uint32_t(rng_.below(40))}; });
  }
  PartitionSet partitions(size_t least) {
    PartitionSet set;
    for (size_t n = least + few(); n > 0; --n) set.insert(partition());
    return set;
  }
  OutputSums sums() {
    return {real(), real(), real(), real(), real(), real(), real(), real(), real()};
  }
  OutputMetrics metrics() {
    OutputMetrics out{.sums = sums(), .auc = {}, .class_counts = list([&] { return word(); })};
    for (uint32_t bucket = 0, n = uint32_t(few()); n > 0; --n) {
      bucket += 1 + uint32_t(rng_.below(1000));
      out.auc.push_back({bucket, number(), number()});
    }
    return out;
  }
  ShardCounts counts() {
    return {number(), word(), word(), word(), word(), word(), word(), word(), word()};
  }
  Lease lease() {
    Lease out{Purpose(rng_.below(3)), {number(), number()}, number(), number(), word(), number()};
    for (uint32_t batch = 0, n = uint32_t(few()); n > 0; --n) {
      batch += 1 + uint32_t(rng_.below(9));
      out.quarantined_batches.push_back(batch);
    }
    out.single_step = coin();
    out.replica = number();
    out.rate_reductions = number();
    return out;
  }
  plan::FileInfo file() {
    plan::FileInfo out{text(1), word(), word(), coin(), {}};
    if (out.bytes > 2 && coin()) out.cuts = {1, out.bytes - 1};
    return out;
  }
  ErrorCode code() { return ErrorCode(rng_.below(13)); }
  Incarnation incarnation() { return Incarnation(word() | 1); }
  ImageRef image() {
    return {partition(),
            text(1),
            word(),
            word(),
            word(),
            coin() ? word() : 0,
            coin() ? view() : ViewId{}};
  }
  BatchId batch() { return {number(), number(), number()}; }
  std::vector<StepPart> step_parts() {
    std::vector<StepPart> out;
    for (uint32_t replica = 0, n = uint32_t(few()); n > 0; --n) {
      replica += 1 + uint32_t(rng_.below(9));
      out.push_back({replica, batch()});
    }
    return out;
  }
  std::vector<QuarantineMarker> markers() {
    return list([&] { return QuarantineMarker{batch(), coin(), coin(), coin()}; });
  }
  Heartbeat heartbeat() {
    Heartbeat out{incarnation(),
                  word(),
                  word(),
                  word(),
                  word(),
                  word(),
                  word(),
                  word(),
                  word(),
                  list([&] { return metrics(); }),
                  list([&] { return word(); }),
                  word(),
                  word()};
    out.load_ns = int64_t(word() >> 1);
    out.busy_ns = rng_.below(uint64_t(out.load_ns) + 1);
    for (uint32_t p = 0; p < 3; ++p) out.loads.push_back({PartitionId(7 * p + 1), word(), word()});
    out.work = {word(), word(), word()};
    if (coin()) out.failure = {ErrorCode::kConfig, "full", prose(), prose()};
    return out;
  }
  View whole_view() {
    View out{.id = view(),
             .owners = list(
                 [&] {
                   return Owner{number(), number(), incarnation(), text(1)};
                 },
                 1)};
    out.partitions = list(
        [&] {
          return Placement{coin() ? UINT32_MAX : uint32_t(rng_.below(out.owners.size())), view()};
        },
        1);
    out.plan_hash = word();
    return out;
  }
  Adopt adopt() {
    Adopt out{.ownership_generation = view(), .sealed_epochs = number(), .partitions = list([&] {
                                                                           return partition();
                                                                         })};
    out.folder = text();
    for (size_t i = 0; i < out.partitions.size(); ++i) out.images.push_back(image());
    if (out.images.size() > 1) out.images[1].file = out.images[0].file;
    out.markers = markers();
    out.markers_known = coin();
    out.plan_hash = word();
    return out;
  }
  std::vector<Interval> intervals() {
    std::vector<Interval> out;
    for (uint32_t at = 0, n = uint32_t(few()); n > 0; --n) {
      const uint32_t begin = at + 1 + uint32_t(rng_.below(9));
      at = begin + 1 + uint32_t(rng_.below(9));
      out.push_back({begin, at});
    }
    return out;
  }
  StatusReply status_reply() {
    StatusReply out{.round = word(), .epoch = number(), .view = view()};
    out.partitions = list([&] {
      return PartitionStatus{partition(), view(), word(), number(), counts()};
    });
    out.ended = intervals();
    out.begun = intervals();
    out.open = list([&] { return ShardWatermark{number(), number()}; });
    out.metrics = list([&] { return sums(); });
    out.failure = prose();
    out.markers = markers();
    return out;
  }
  Push push() {
    Push out{.worker = incarnation(),
             .batch = batch(),
             .records = number(),
             .records_hash = word(),
             .end = coin()};
    if (out.end) out.counts = counts();
    out.covered = partitions(1);
    out.handle = coin() ? RequestId(word()) : RequestId{};
    out.fragments = 1 + uint32_t(rng_.below(5));
    out.fragment = uint32_t(rng_.below(out.fragments));
    out.pulled_versions = list([&] { return word(); });
    if (!out.end) out.sections = sections();
    out.metrics = list([&] { return sums(); });
    if (out.sections.empty() && !out.end) out.quarantined = coin();
    out.batches_quarantined = number();
    out.rate_reductions = number();
    return out;
  }

  Body body(Kind kind) {
    switch (kind) {
      case Kind::kHello:
        return Hello{Role(rng_.below(4)),
                     number(),
                     number(),
                     incarnation(),
                     prose(),
                     prose(),
                     number(),
                     number(),
                     text(),
                     list([&] {
                       return PartitionClaim{partition(), view(), number()};
                     }),
                     word(),
                     coin()};
      case Kind::kWelcome:
        return Welcome{number(),
                       text(1),
                       text(),
                       text(),
                       word(),
                       uint64_t{1} << 62 | word(),
                       list([&] { return file(); }),
                       list([&] { return file(); }),
                       int64_t(1 + rng_.below(1'000'000'000)),
                       int64_t(1 + rng_.below(1'000'000'000)),
                       number()};
      case Kind::kRefused:
        return Refused{code(), prose(), prose()};
      case Kind::kView:
        return whole_view();
      case Kind::kAdopt:
        return adopt();
      case Kind::kAdopted:
        return coin() ? Adopted{view(), true, prose()} : Adopted{view(), false, prose(), code()};
      case Kind::kHeartbeat:
        return heartbeat();
      case Kind::kLeaseRequest:
        return LeaseRequest{number()};
      case Kind::kLeaseGrant:
        return LeaseGrant{list([&] { return lease(); }), int64_t(word() >> 1)};
      case Kind::kShardProgress:
        return ShardProgress{lease(), number(), coin(), counts(), word()};
      case Kind::kShardFailed:
        return ShardFailed{lease(), number(), code(),  prose(),
                           prose(), prose(),  prose(), FailureKind(rng_.below(4))};
      case Kind::kLeaseRevoked:
        return LeaseRevoked{lease()};
      case Kind::kEvalReport:
        return EvalReport{lease(), counts(), list([&] { return metrics(); }),
                          list([&] { return metrics(); })};
      case Kind::kPredictReport:
        return PredictReport{lease(), number(), number(), coin(), counts()};
      case Kind::kStatusRequest:
        return StatusRequest{word(), number(), number(), markers(), coin()};
      case Kind::kStatusReply:
        return status_reply();
      case Kind::kSave:
        return Save{view(), text(1), coin() ? view() : ViewId{}, number(), number(), word()};
      case Kind::kSaved:
        return Saved{view(), coin(), prose(), list([&] { return image(); }),
                     word(), coin(), number()};
      case Kind::kFreeze:
        return Freeze{view(), list([&] { return partition(); }, 1), text(1)};
      case Kind::kFrozen:
        return Frozen{view(), coin(), prose(), list([&] { return image(); })};
      case Kind::kLeave:
        return Leave{incarnation(), number()};
      case Kind::kSealed:
        return Sealed{number()};
      case Kind::kStop:
        return Stop{int32_t(number()), prose()};
      case Kind::kGoodbye:
        return Goodbye{heartbeat()};
      case Kind::kPull:
        return Pull{incarnation(), Purpose(rng_.below(3)), coin(), sections()};
      case Kind::kPullReply:
        return PullReply{PullStatus(rng_.below(3)), view(), list([&] { return word(); })};
      case Kind::kPush:
        return push();
      case Kind::kPushReply:
        return PushReply{batch(), partitions(0), list([&] {
                           return PartReply{partition(), PartStatus(rng_.below(9)), number()};
                         }),
                         view()};
      case Kind::kReject:
        return Reject{code(), prose()};
      case Kind::kInputList:
        return InputList{list([&] { return InputProcess{number(), incarnation(), text(1)}; })};
      case Kind::kReadShard:
        return ReadShard{word() | 1, lease(), number(), number() | 1};
      case Kind::kReadMore:
        return ReadMore{word() | 1, number(), coin()};
      case Kind::kReadBatch: {
        const auto pieces = uint32_t(1 + rng_.below(256));
        return ReadBatch{word() | 1, number(), uint32_t(rng_.below(pieces)), pieces};
      }
      case Kind::kReadEnd:
        return ReadEnd{word() | 1, counts(), word()};
      case Kind::kClock: {
        const uint64_t batches = word() >> 11;
        return Clock{.batches = batches, .floor = batches / 2, .sent_ns = int64_t(word() >> 1)};
      }
      case Kind::kFloor:
        return Floor{word() >> 11, int64_t(word() >> 1)};
      case Kind::kStaged:
        return Staged{word() | 1, step_parts(), word()};
      case Kind::kCommit:
        return Commit{word() | 1, step_parts(), coin(),
                      list([&] { return float(number()) / 4096.0F; })};
      case Kind::kCommitted:
        return Committed{word() | 1, coin(), list([&] { return partition(); })};
      case Kind::kExpect:
        return Expect{word() | 1, step_parts()};
      case Kind::kReadFailed:
        return ReadFailed{word() | 1, code(), prose(), prose(), prose(), prose(), coin(), number()};
    }
    return {};
  }

  Rng rng_;
};

/// Returns the payloads that are not empty, as the codec expects them.
inline std::vector<Bytes> payloads_of(const Message& message) {
  std::vector<Bytes> out;
  if (!message.keys.empty()) out.push_back(message.keys);
  if (!message.values.empty()) out.push_back(message.values);
  return out;
}

}  // namespace downpour::wire
