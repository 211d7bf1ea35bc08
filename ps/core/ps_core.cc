#include "ps/core/ps_core.h"

#include <utility>

#include "ps/core/status.h"
#include "shared/base/defence.h"

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
      staging_(config_.limits),
      load_meter_(partitions_.count()),
      session_(config_, partitions_, stats_, load_meter_),
      memory_(config_, partitions_),
      saving_(config_, partitions_, session_),
      commits_(config_, partitions_, session_, memory_, saving_, stats_),
      loading_(config_, partitions_, session_, memory_, saving_, handles_, staging_, commits_,
               stats_),
      freezing_(config_, partitions_, session_),
      pulls_(config_, partitions_, session_, handles_, load_meter_, stats_),
      pushes_(config_, partitions_, session_, memory_, handles_, staging_, commits_, stats_) {
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
                 wire::Refused, wire::Freeze, wire::Commit, wire::Expect>(message.body)) {
    return turn.reject(from, envelope.request,
                       {ErrorCode::kMalformed, "a ps does not accept a message of this kind"});
  }
  if (from != kChiefPeer) {
    return turn.reject(from, envelope.request,
                       {ErrorCode::kPermission, "only the chief may send this to a ps"});
  }
  from_chief(message, turn);
}

void PsCore::from_chief(const wire::Message& message, Turn& turn) {
  const wire::Envelope& envelope = message.envelope;
  const wire::Body& body = message.body;
  if (const auto* adopt = std::get_if<wire::Adopt>(&body)) {
    loading_.on_adopt(envelope, *adopt, message.values, turn);
  } else if (const auto* view = std::get_if<wire::View>(&body)) {
    on_view(envelope, *view, turn);
  } else if (const auto* freeze = std::get_if<wire::Freeze>(&body)) {
    freezing_.on_freeze(envelope, *freeze, turn);
  } else if (const auto* save = std::get_if<wire::Save>(&body)) {
    saving_.on_save(envelope, *save, turn);
  } else if (const auto* status = std::get_if<wire::StatusRequest>(&body)) {
    on_status(envelope, *status, turn);
  } else if (const auto* sealed = std::get_if<wire::Sealed>(&body)) {
    // If the Sealed belongs to a newer view, this ps missed that view. Its partitions may be
    // outdated copies that lack some of these epochs, so it must not seal them.
    if (envelope.view <= session_.view().id) {
      partitions_.seal(sealed->epochs);
    } else {
      defended(Defence::kPsSealedAhead);
    }
  } else if (const auto* commit = std::get_if<wire::Commit>(&body)) {
    commits_.on_commit(envelope, *commit, turn);
    if (stats_.failure) turn.send(kChiefPeer, RequestId{}, session_.heartbeat());
  } else if (const auto* expect = std::get_if<wire::Expect>(&body)) {
    commits_.on_expect(*expect, turn);
  } else if (const auto* stop = std::get_if<wire::Stop>(&body)) {
    session_.on_stop(envelope, *stop, turn);
  } else if (const auto* refused = std::get_if<wire::Refused>(&body)) {
    session_.on_refused(*refused, turn);
  }
}

void PsCore::on_view(const wire::Envelope& envelope, const wire::View& view, Turn& turn) {
  if (!session_.accept_view(envelope, view, turn)) return;
  if (view.plan_hash != 0) partitions_.set_plan(view.plan_hash);
  Bits lost = bits_for(partitions_.count());
  freezing_.settle(view, lost, turn);
  for_each(partitions_.owned(), [&](PartitionId p) {
    if (view.id < partitions_.ownership_generation(p)) {  // adopted for a later view
      return defended(Defence::kPsViewKeepsComing);
    }
    const bool same_generation =
        view.partitions[raw(p)].ownership_generation == partitions_.ownership_generation(p);
    if (!session_.is_owner(p) || !same_generation) insert(lost, p);
  });
  if (!none(lost)) {
    defended(Defence::kPsViewDrops);
    loading_.release(lost);
  }
  loading_.on_view(view);
  pulls_.on_view(view.id);
  commits_.report(turn);
}

void PsCore::on_status(const wire::Envelope& envelope, const wire::StatusRequest& status,
                       Turn& turn) {
  stats_.keep_failure(
      partitions_.take_markers(partitions_.owned(), status.markers, status.markers_known));
  commits_.on_markers(turn);
  turn.send(kChiefPeer, envelope.request,
            status_reply(status, partitions_, config_.limits, session_.view().id, stats_.failure));
}

void PsCore::on_loaded(uint64_t id, Result<std::vector<checkpoint::PartitionImage>> images,
                       Effects& effects, bool more) {
  Turn turn = turn_with(effects);
  loading_.on_loaded(id, std::move(images), more, turn);
}

void PsCore::continue_save(Effects& effects) {
  Turn turn = turn_with(effects);
  saving_.continue_copying(turn);
  commits_.continue_after_copy(turn);
}

bool PsCore::answer_pull(int64_t now_ns, const std::function<bool(PeerKey)>& takes,
                         Effects& effects) {
  Turn turn = turn_with(effects);
  return !session_.stopped() && pulls_.answer_next(now_ns, takes, turn);
}

void PsCore::on_image_written(ViewId checkpoint, checkpoint::PartitionImage&& image) {
  saving_.on_image_written(checkpoint, std::move(image));
}

void PsCore::on_stored(ViewId checkpoint, Result<std::vector<wire::ImageRef>> images,
                       Effects& effects) {
  Turn turn = turn_with(effects);
  saving_.on_stored(checkpoint, std::move(images), turn);
  commits_.continue_after_copy(turn);  // a failed write ends the copying
}

void PsCore::on_exported(ViewId ownership_generation, Result<std::vector<wire::ImageRef>> images,
                         Bytes inlined, Effects& effects) {
  Turn turn = turn_with(effects);
  freezing_.on_exported(ownership_generation, std::move(images), std::move(inlined), turn);
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
  if (session_.on_tick(now_ns, turn)) commits_.report(turn);
}

}  // namespace downpour::ps
