#include "ps/core/ps_core.h"

#include <algorithm>
#include <utility>

#include "shared/base/defence.h"
#include "shared/base/mutate.h"
#include "shared/base/plain_name.h"

namespace downpour::ps {
namespace {

constexpr size_t kStalenessBuckets = 64;
constexpr int64_t kRoleNoticeNs = 10 * kSecond;

/// The role that the peer of this connection must have.
wire::Role role_of(PeerKey from) {
  return from == kChiefPeer ? wire::Role::kChief : wire::Role::kWorker;
}

template <typename... Bodies>
bool is_any_of(const wire::Body& body) {
  return (std::holds_alternative<Bodies>(body) || ...);
}

}  // namespace

PsCore::PsCore(PsConfig config)
    : config_(std::move(config)),
      partitions_(config_),
      handles_(config_.limits),
      load_meter_(partitions_.count()),
      staging_(config_.limits),
      budget_(config_.table_bytes_max),
      buffers_(config_.limits.replies_max),
      bases_(partitions_.count()),
      staleness_(kStalenessBuckets) {
  DP_CHECK(config_.partition_bits >= 1 && config_.partition_bits <= 16, config_.partition_bits);
}

void PsCore::on_message(int64_t now_ns, PeerKey from, const wire::Message& message,
                        Effects& effects, const wire::PeerIdentity& identity) {
  if (stopped_ || std::holds_alternative<wire::Reject>(message.body)) return;
  const wire::Envelope& envelope = message.envelope;
  if (envelope.run != config_.run) {  // only a peer that names the run learns about it
    defended(Defence::kPsOtherRun);
    effects.sends.push_back(
        {from,
         {.envelope = {.request = envelope.request},
          .body = wire::Reject{ErrorCode::kUnavailable, "this ps serves another run"}}});
    return;
  }
  if (!identity.may_be(role_of(from)))
    return refuse_role(now_ns, from, envelope, identity, effects);
  if (std::optional<Error> error = fence(from, envelope)) {
    return reject(from, envelope.request, *std::move(error), effects);
  }
  if (from == kChiefPeer) {
    chief_heard_ns_ = now_ns;
    term_ = std::max(term_, envelope.view.term);
  }
  // The shell handles a repeated Welcome. Here it only shows that the chief is alive.
  if (from == kChiefPeer && std::holds_alternative<wire::Welcome>(message.body)) return;
  if (const auto* pull = std::get_if<wire::Pull>(&message.body)) {
    return on_pull(now_ns, from, message, *pull, effects);
  }
  if (const auto* push = std::get_if<wire::Push>(&message.body)) {
    return on_push(now_ns, from, message, *push, effects);
  }
  if (!is_any_of<wire::Adopt, wire::View, wire::Save, wire::StatusRequest, wire::Sealed, wire::Stop,
                 wire::Refused, wire::Freeze>(message.body)) {
    return reject(from, envelope.request,
                  {ErrorCode::kMalformed, "a ps takes no message of this kind"}, effects);
  }
  if (from != kChiefPeer) {
    return reject(from, envelope.request,
                  {ErrorCode::kPermission, "only the chief may send this to a ps"}, effects);
  }
  from_chief(message, effects);
}

/// Rejects a peer whose identity does not allow its role. A peer can repeat this as often as it
/// likes, so the notice appears at most once per kRoleNoticeNs.
void PsCore::refuse_role(int64_t now_ns, PeerKey from, const wire::Envelope& envelope,
                         const wire::PeerIdentity& identity, Effects& effects) {
  Error error = wire::wrong_role(identity, role_of(from));
  ++roles_refused_;
  if (now_ns >= role_notice_at_ns_) {
    role_notice_at_ns_ = now_ns + kRoleNoticeNs;
    effects.notices.push_back(str("refused a message: ", error.what, " (", error.id, "); ",
                                  roles_refused_, " refused since the start"));
  }
  error.what += str(" (", error.id, ")");
  reject(from, envelope.request, std::move(error), effects);
}

/// Returns an error if a message names a folder that is not below the run folder. No image is
/// written to or read from such a folder.
std::optional<Error> PsCore::check_folder(const std::string& folder) const {
  if (!config_.run_dir || is_plain_path_beneath(*config_.run_dir, folder)) return std::nullopt;
  constexpr size_t kShownBytesMax = 256;
  return Error{ErrorCode::kPermission,
               str("the chief names the folder \"", folder.substr(0, kShownBytesMax),
                   "\", which is not below the run folder \"", *config_.run_dir, "\" (DP-2722)")};
}

std::optional<Error> PsCore::fence(PeerKey from, const wire::Envelope& envelope) const {
  if (from == kChiefPeer && envelope.view.term < term_ && !DP_MUTATE("old-chief-obeyed")) {
    defended(Defence::kPsOldTerm);
    return Error{ErrorCode::kUnavailable,
                 str("a chief of term ", term_, " has taken over from term ", envelope.view.term)};
  }
  return std::nullopt;
}

void PsCore::from_chief(const wire::Message& message, Effects& effects) {
  const wire::Envelope& envelope = message.envelope;
  const wire::Body& body = message.body;
  if (const auto* adopt = std::get_if<wire::Adopt>(&body)) {
    on_adopt(envelope, *adopt, message.values, effects);
  } else if (const auto* view = std::get_if<wire::View>(&body)) {
    on_view(envelope, *view, effects);
  } else if (const auto* freeze = std::get_if<wire::Freeze>(&body)) {
    on_freeze(envelope, *freeze, effects);
  } else if (const auto* save = std::get_if<wire::Save>(&body)) {
    on_save(envelope, *save, effects);
  } else if (const auto* status = std::get_if<wire::StatusRequest>(&body)) {
    on_status(envelope, *status, effects);
  } else if (const auto* sealed = std::get_if<wire::Sealed>(&body)) {
    // If the Sealed belongs to a newer view, this ps missed that view. Its partitions may be
    // outdated copies that lack some of these epochs, so it must not seal them.
    if (envelope.view <= view_.id) {
      partitions_.seal(sealed->epochs);
    } else {
      defended(Defence::kPsSealedAhead);
    }
  } else if (const auto* stop = std::get_if<wire::Stop>(&body)) {
    on_stop(envelope, *stop, effects);
  } else if (const auto* refused = std::get_if<wire::Refused>(&body)) {
    stopped_ = true;
    effects.exit = Exit{exit_code(refused->code), str("refused by the chief: ", refused->what)};
  }
}

void PsCore::on_adopt(const wire::Envelope& envelope, const wire::Adopt& adopt,
                      const Bytes& inlined, Effects& effects) {
  const auto answer = [&](std::string error) {
    const bool ok = error.empty();
    send(kChiefPeer, envelope.request,
         wire::Adopted{.ownership_generation = adopt.ownership_generation,
                       .ok = ok,
                       .error = std::move(error)},
         {}, effects);
  };
  Loading loading{.id = next_load_id_,
                  .request = envelope.request,
                  .ownership_generation = adopt.ownership_generation,
                  .sealed_epochs = adopt.sealed_epochs,
                  .markers = adopt.markers,
                  .markers_known = adopt.markers_known,
                  .plan_hash = adopt.plan_hash,
                  .parts = bits_for(partitions_.count()),
                  .wanted = {},
                  .has_image = bits_for(partitions_.count()),
                  .taken = bits_for(partitions_.count())};
  for (const PartitionId p : adopt.partitions) {
    if (raw(p) >= partitions_.count()) return answer(str("there is no partition ", p));
    insert(loading.parts, p);
  }
  const wire::ImageRef* before = nullptr;
  for (const wire::ImageRef& image : adopt.images) {
    const PartitionId p = image.partition;
    const bool follows = image.base != 0 && before != nullptr && before->partition == p;
    if (raw(p) >= partitions_.count() || !contains(loading.parts, p) ||
        (contains(loading.has_image, p) && !follows)) {
      return answer(str("the image of partition ", p, " is one too many"));
    }
    insert(loading.has_image, p);
    before = &image;
  }
  for (Loading& other : loading_) {
    if (other.ownership_generation != adopt.ownership_generation || other.parts != loading.parts)
      continue;
    other.request = envelope.request;  // a repeated request: answered when the images arrive
    defended(Defence::kPsAdoptRepeated);
    return;
  }
  loading.wanted = loading.parts;
  for_each(loading.parts, [&](PartitionId p) {
    if (partitions_.owns(p) && partitions_.ownership_generation(p) == adopt.ownership_generation)
      erase(loading.wanted, p);
  });
  if (none(loading.wanted)) {
    if (!none(loading.parts)) defended(Defence::kPsAdoptHeld);
    return answer("");
  }
  if ((adopt.ownership_generation <= view_.id && !DP_MUTATE("restored-under-the-old-since")) ||
      adopt.ownership_generation.term < term_) {
    defended(Defence::kPsAdoptOld);
    return answer(str("superseded: view ", view_.id, " of term ", term_, " is known here"));
  }
  if (loading_.size() >= config_.limits.loads_max) return answer("too many loads at once");
  if (!adopt.images.empty() && inlined.empty()) {
    if (const auto outside = check_folder(adopt.folder)) return answer(outside->what);
  }

  for (Loading& other : loading_) {
    if (intersects(other.wanted, loading.wanted)) defended(Defence::kPsAdoptTakesOver);
    for_each(loading.wanted, [&](PartitionId p) { erase(other.wanted, p); });
  }
  release(loading.wanted);
  Load load{.id = loading.id, .folder = adopt.folder, .images = {}, .inlined = inlined};
  for (const wire::ImageRef& image : adopt.images) {
    if (contains(loading.wanted, image.partition)) load.images.push_back(image);
  }
  if (load.images.empty()) {
    for_each(loading.wanted, [&](PartitionId p) {
      partitions_.adopt(p, adopt.ownership_generation, adopt.sealed_epochs);
    });
    take_markers(loading.wanted, loading.markers, loading.markers_known);
    return answer("");
  }
  ++next_load_id_;
  effects.loads.push_back(std::move(load));
  loading_.push_back(std::move(loading));
}

void PsCore::on_loaded(uint64_t id, Result<std::vector<checkpoint::PartitionImage>> images,
                       Effects& effects, bool more) {
  const auto found = std::find_if(loading_.begin(), loading_.end(),
                                  [&](const Loading& loading) { return loading.id == id; });
  if (stopped_ || found == loading_.end()) return;
  Result<void> taken;
  if (!images) {
    taken = std::move(images).error();
  } else {
    taken = take_images(*found, *images, more);
    if (taken && more) return;
  }
  const Loading loading = std::move(*found);
  loading_.erase(found);
  if (!taken) defended(Defence::kPsLoadFailed);
  if (!taken) release(loading.wanted);  // all or nothing: also those adopted so far
  if (taken) take_markers(loading.wanted, loading.markers, loading.markers_known);
  if (!DP_MUTATE("handles-survive-a-move")) handles_.clear();
  staging_.clear();
  send(kChiefPeer, loading.request,
       wire::Adopted{.ownership_generation = loading.ownership_generation,
                     .ok = taken.has_value(),
                     .error = taken ? std::string() : taken.error().what,
                     .code = taken ? ErrorCode::kUnavailable : taken.error().code},
       {}, effects);
}

Result<void> PsCore::take_images(Loading& loading,
                                 const std::vector<checkpoint::PartitionImage>& images, bool more) {
  if (none(loading.wanted)) {
    defended(Defence::kPsLoadSuperseded);
    return Error{ErrorCode::kUnavailable, "superseded while the images were read"};
  }
  for (const checkpoint::PartitionImage& image : images) {
    const PartitionId p = image.partition;
    if (raw(p) >= partitions_.count() || !contains(loading.has_image, p)) {
      return Error{ErrorCode::kBadData, str("partition ", p, " was not asked for")};
    }
    if (!contains(loading.wanted, p)) continue;
    if (contains(loading.taken, p)) {
      return Error{ErrorCode::kBadData, str("partition ", p, " came twice")};
    }
    DP_TRY_VOID(make_room(image));
    DP_TRY_VOID(partitions_.adopt(image, loading.ownership_generation, loading.sealed_epochs,
                                  loading.plan_hash));
    insert(loading.taken, p);
  }
  if (more) return {};
  std::optional<PartitionId> missing;
  for_each(loading.wanted, [&](PartitionId p) {
    if (contains(loading.taken, p)) return;
    if (contains(loading.has_image, p)) {
      missing = p;
    } else {
      partitions_.adopt(p, loading.ownership_generation, loading.sealed_epochs);
    }
  });
  if (missing) return Error{ErrorCode::kBadData, str("no image of partition ", *missing)};
  return {};
}

void PsCore::on_view(const wire::Envelope& envelope, const wire::View& view, Effects& effects) {
  const bool obeyed = DP_MUTATE("old-chief-obeyed") && view.id.term < term_;
  if ((view.id <= view_.id || view.id.term < term_) && !obeyed) {  // repeated or late
    return defended(Defence::kPsViewOld);
  }
  if (view.partitions.size() != partitions_.count()) {
    return reject(kChiefPeer, envelope.request,
                  {ErrorCode::kMalformed, str("view ", view.id, " has ", view.partitions.size(),
                                              " partitions, not ", partitions_.count())},
                  effects);
  }
  term_ = std::max(term_, view.id.term);
  view_ = view;
  if (view.plan_hash != 0) partitions_.set_plan(view.plan_hash);
  Bits lost = bits_for(partitions_.count());
  settle_frozen(view, lost, effects);
  for_each(partitions_.owned(), [&](PartitionId p) {
    if (view.id < partitions_.ownership_generation(p)) {  // adopted for a later view
      return defended(Defence::kPsViewKeepsComing);
    }
    const bool same_generation =
        view.partitions[raw(p)].ownership_generation == partitions_.ownership_generation(p);
    if (DP_MUTATE("old-owner-keeps-its-partitions")) return;
    if (!names_me(view, p) || !same_generation) insert(lost, p);
  });
  if (!none(lost)) {
    defended(Defence::kPsViewDrops);
    release(lost);
  }
  for (Loading& loading : loading_) {
    if (view.id < loading.ownership_generation) continue;
    for (uint32_t p = 0; p < partitions_.count(); ++p) {
      if (!contains(loading.wanted, PartitionId(p)) || names_me(view, PartitionId(p))) continue;
      defended(Defence::kPsViewEndsLoad);
      erase(loading.wanted, PartitionId(p));
    }
  }
}

void PsCore::release(const Bits& parts) {
  Bits held = parts;
  for (size_t w = 0; w < held.size(); ++w) held[w] &= partitions_.owned()[w];
  partitions_.drop(held);
  for_each(held, [&](PartitionId p) {
    bases_[raw(p)] = {};
    if (unpublished_) erase(unpublished_->parts, p);
  });
  if (!DP_MUTATE("handles-survive-a-move")) handles_.clear();
  staging_.clear();
}

namespace {

/// Shortens the shard lists of a reply until it fits a message. An ended shard that is left out is
/// leased again, and its parts are already applied. A shard that is wrongly listed as begun is only
/// leased. An open shard is only a hint.
void bound_shards(const PsLimits& limits, wire::StatusReply& reply) {
  reply.ended.resize(std::min<size_t>(reply.ended.size(), limits.ended_told_max));
  reply.open.resize(std::min<size_t>(reply.open.size(), limits.open_told_max));
  if (reply.begun.size() <= limits.begun_told_max) return;
  const uint32_t end = reply.begun.back().end;
  reply.begun.resize(limits.begun_told_max);
  reply.begun.back().end = end;
}

}  // namespace

void PsCore::on_status(const wire::Envelope& envelope, const wire::StatusRequest& status,
                       Effects& effects) {
  take_markers(partitions_.owned(), status.markers, status.markers_known);
  wire::StatusReply reply{.round = status.round,
                          .epoch = status.epoch,
                          .view = view_.id,
                          .partitions = {},
                          .ended = {},
                          .open = {},
                          .metrics = {},
                          .failure = failure_ ? failure_->what : std::string()};
  const Watermarks& watermarks = partitions_.watermarks();
  std::optional<IntervalSet> ended;
  IntervalSet begun;  // at some partition
  for_each(partitions_.owned(), [&](PartitionId p) {
    wire::PartitionStatus partition{.partition = p,
                                    .ownership_generation = partitions_.ownership_generation(p),
                                    .version = partitions_.version(p)};
    IntervalSet here;
    if (status.epoch < partitions_.sealed(p)) {  // the manifest holds its counts now
      partition.shards_ended = status.shards;
      if (status.shards > 0) here.assign({{0, status.shards}});
    } else if (const Watermarks::Sums* sums = watermarks.sums(status.epoch, p)) {
      partition.shards_ended = uint32_t(sums->ended.size());
      partition.counts = sums->counts;
      partition.records_hash = sums->known_hash();
      here = sums->ended;
      if (reply.metrics.size() < sums->metrics.size()) reply.metrics.resize(sums->metrics.size());
      for (size_t i = 0; i < sums->metrics.size(); ++i) reply.metrics[i] += sums->metrics[i];
    }
    reply.partitions.push_back(partition);
    begun.unite(here);
    if (ended) {
      ended->intersect(here);
    } else {
      ended = std::move(here);
    }
  });
  if (ended) reply.ended = ended->intervals();
  reply.open = watermarks.open(status.epoch, partitions_.owned());
  IntervalSet open;
  for (const wire::ShardWatermark& shard : reply.open) open.insert(shard.shard);
  begun.unite(open);
  reply.begun = begun.intervals();
  bound_shards(config_.limits, reply);
  reply.markers = partitions_.reported_markers();
  send(kChiefPeer, envelope.request, std::move(reply), {}, effects);
}

void PsCore::take_markers(const Bits& parts, const std::vector<wire::QuarantineMarker>& markers,
                          bool known) {
  const Result<void> taken = partitions_.take_markers(parts, markers, known);
  if (!taken && !failure_) failure_ = taken.error();
}

void PsCore::on_stop(const wire::Envelope& envelope, const wire::Stop& stop, Effects& effects) {
  stopped_ = true;
  send(kChiefPeer, envelope.request, wire::Goodbye{.last = heartbeat()}, {}, effects);
  effects.exit = Exit{stop.code, stop.reason};
}

void PsCore::on_tick(int64_t now_ns, Effects& effects) {
  if (stopped_) return;
  handles_.expire(now_ns);
  staging_.expire(now_ns);
  if (!chief_heard_ns_) chief_heard_ns_ = now_ns;
  const int64_t silence_ns = now_ns - *chief_heard_ns_;
  if (config_.chief_silence_ns_max > 0 && silence_ns > config_.chief_silence_ns_max) {
    defended(Defence::kPsChiefSilent);
    stopped_ = true;
    effects.exit = Exit{exit_code(ErrorCode::kPeersLost),
                        str("nothing heard of the chief for ", silence_ns / kSecond,
                            " s; run the job again: it goes on from the newest checkpoint")};
    return;
  }
  if (heartbeat_sent_ns_ && now_ns - *heartbeat_sent_ns_ < config_.heartbeat_ns) return;
  heartbeat_sent_ns_ = now_ns;
  wire::Heartbeat beat = heartbeat();
  constexpr uint64_t kBeatsPerLoad = 4;
  if (heartbeats_++ % kBeatsPerLoad == 0) {
    beat.loads = load_meter_.take(partitions_.owned());
    if (heartbeats_ > 1) {
      beat.load_ns = now_ns - load_since_ns_;
    } else {
      beat.loads.clear();  // the start of the interval is not known
    }
    load_since_ns_ = now_ns;
  }
  send(kChiefPeer, RequestId{}, std::move(beat), {}, effects);
  if (leave_signal_ != 0) leave(leave_signal_, effects);  // the first Leave may be lost
}

std::vector<wire::PartitionClaim> PsCore::claims() const {
  std::vector<wire::PartitionClaim> claims;
  for_each(partitions_.owned(), [&](PartitionId p) {
    claims.push_back({p, partitions_.ownership_generation(p), partitions_.sealed(p)});
  });
  return claims;
}

wire::Heartbeat PsCore::heartbeat() const {
  wire::Heartbeat beat;
  beat.incarnation = config_.incarnation;
  beat.rows = partitions_.rows();
  beat.table_bytes = partitions_.memory_bytes();
  beat.pulled_bytes = pulled_bytes_;
  beat.pushed_bytes = pushed_bytes_;
  beat.staleness = staleness_;
  beat.duplicate_parts = duplicate_parts_;
  beat.gaps = gaps_;
  if (failure_) beat.failure = {failure_->code, failure_->what, failure_->hint, failure_->id};
  return beat;
}

void PsCore::send(PeerKey to, RequestId request, wire::Body body, Bytes values, Effects& effects) {
  effects.sends.push_back(
      {to, wire::Message{.envelope = {.run = config_.run, .view = view_.id, .request = request},
                         .body = std::move(body),
                         .keys = {},
                         .values = std::move(values)}});
}

void PsCore::reject(PeerKey to, RequestId request, Error error, Effects& effects) {
  send(to, request, wire::Reject{.code = error.code, .what = std::move(error.what)}, {}, effects);
}

}  // namespace downpour::ps
