#include "ps/core/ps_core.h"

#include <algorithm>
#include <utility>

#include "shared/base/defence.h"
#include "shared/base/mutate.h"

namespace downpour::ps {
namespace {

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
      session_(config_, partitions_, stats_, load_meter_),
      memory_(config_, partitions_),
      pulls_(config_, partitions_, session_, handles_, load_meter_, stats_),
      pushes_(config_, partitions_, session_, memory_, handles_, staging_, stats_),
      bases_(partitions_.count()) {
  DP_CHECK(config_.partition_bits >= 1 && config_.partition_bits <= 16, config_.partition_bits);
}

void PsCore::on_message(int64_t now_ns, PeerKey from, const wire::Message& message,
                        Effects& effects, const wire::PeerIdentity& identity) {
  if (session_.stopped() || std::holds_alternative<wire::Reject>(message.body)) return;
  const wire::Envelope& envelope = message.envelope;
  Turn turn = turn_with(effects);
  if (!session_.admit(now_ns, from, envelope, identity, turn)) return;
  // The shell handles a repeated Welcome. Here it only shows that the chief is alive.
  if (from == kChiefPeer && std::holds_alternative<wire::Welcome>(message.body)) return;
  if (const auto* pull = std::get_if<wire::Pull>(&message.body)) {
    return pulls_.on_pull(now_ns, from, message, *pull, turn);
  }
  if (const auto* push = std::get_if<wire::Push>(&message.body)) {
    return pushes_.on_push(now_ns, from, message, *push, turn);
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

void PsCore::from_chief(const wire::Message& message, Effects& effects) {
  const wire::Envelope& envelope = message.envelope;
  const wire::Body& body = message.body;
  Turn turn = turn_with(effects);
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
    if (envelope.view <= session_.view().id) {
      partitions_.seal(sealed->epochs);
    } else {
      defended(Defence::kPsSealedAhead);
    }
  } else if (const auto* stop = std::get_if<wire::Stop>(&body)) {
    session_.on_stop(envelope, *stop, turn);
  } else if (const auto* refused = std::get_if<wire::Refused>(&body)) {
    session_.on_refused(*refused, turn);
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
  if ((adopt.ownership_generation <= session_.view().id &&
       !DP_MUTATE("restored-under-the-old-since")) ||
      adopt.ownership_generation.term < session_.term()) {
    defended(Defence::kPsAdoptOld);
    return answer(str("superseded: view ", session_.view().id, " of term ", session_.term(),
                      " is known here"));
  }
  if (loading_.size() >= config_.limits.loads_max) return answer("too many loads at once");
  if (!adopt.images.empty() && inlined.empty()) {
    if (const auto outside = session_.check_folder(adopt.folder)) return answer(outside->what);
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
    stats_.keep_failure(
        partitions_.take_markers(loading.wanted, loading.markers, loading.markers_known));
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
  if (session_.stopped() || found == loading_.end()) return;
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
  if (taken)
    stats_.keep_failure(
        partitions_.take_markers(loading.wanted, loading.markers, loading.markers_known));
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
    DP_TRY_VOID(memory_.make_room(image));
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
  Turn turn = turn_with(effects);
  if (!session_.accept_view(envelope, view, turn)) return;
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
    if (!session_.is_owner(p) || !same_generation) insert(lost, p);
  });
  if (!none(lost)) {
    defended(Defence::kPsViewDrops);
    release(lost);
  }
  for (Loading& loading : loading_) {
    if (view.id < loading.ownership_generation) continue;
    for (uint32_t p = 0; p < partitions_.count(); ++p) {
      if (!contains(loading.wanted, PartitionId(p)) || session_.is_owner(PartitionId(p))) continue;
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
  stats_.keep_failure(
      partitions_.take_markers(partitions_.owned(), status.markers, status.markers_known));
  wire::StatusReply reply{.round = status.round,
                          .epoch = status.epoch,
                          .view = session_.view().id,
                          .partitions = {},
                          .ended = {},
                          .open = {},
                          .metrics = {},
                          .failure = stats_.failure ? stats_.failure->what : std::string()};
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

void PsCore::on_free_memory(uint64_t free_bytes) { memory_.on_free(free_bytes); }

void PsCore::leave(int signal, Effects& effects) {
  Turn turn = turn_with(effects);
  session_.leave(signal, turn);
}

void PsCore::on_tick(int64_t now_ns, Effects& effects) {
  if (session_.stopped()) return;
  handles_.expire(now_ns);
  staging_.expire(now_ns);
  Turn turn = turn_with(effects);
  session_.on_tick(now_ns, turn);
}

void PsCore::send(PeerKey to, RequestId request, wire::Body body, Bytes values, Effects& effects) {
  turn_with(effects).send(to, request, std::move(body), std::move(values));
}

void PsCore::reject(PeerKey to, RequestId request, Error error, Effects& effects) {
  turn_with(effects).reject(to, request, std::move(error));
}

}  // namespace downpour::ps
