#include "ps/core/freezing.h"

#include <algorithm>
#include <utility>

#include "shared/base/defence.h"

namespace downpour::ps {

void Freezing::on_freeze(const wire::Envelope& envelope, const wire::Freeze& freeze, Turn& turn) {
  for (Move& known : moves_) {
    if (known.ownership_generation != freeze.ownership_generation) continue;
    known.request = envelope.request;  // a repeated request
    defended(Defence::kPsFreezeRepeated);
    if (known.done) turn.send(kChiefPeer, envelope.request, *known.done, known.inlined);
    return;
  }
  const auto refuse = [&](std::string why) {
    turn.send(kChiefPeer, envelope.request,
              wire::Frozen{.ownership_generation = freeze.ownership_generation,
                           .ok = false,
                           .error = std::move(why),
                           .images = {}});
  };
  if (std::string why = session_.why_superseded(freeze.ownership_generation); !why.empty()) {
    defended(Defence::kPsFreezeOld);
    return refuse(std::move(why));
  }
  if (moves_.size() >= config_.limits.freezes_max) return refuse("too many moves in progress");
  if (const auto outside = session_.check_folder(freeze.folder)) return refuse(outside->what);
  Move move{.ownership_generation = freeze.ownership_generation,
            .request = envelope.request,
            .folder = freeze.folder,
            .parts = bits_for(partitions_.count()),
            .done = {},
            .inlined = {}};
  for (const PartitionId p : freeze.partitions) {
    if (raw(p) >= partitions_.count() || !partitions_.serves(p)) {
      defended(Defence::kPsFreezeNotServed);
      return refuse(str("partition ", p, " is not served by this ps"));
    }
    insert(move.parts, p);
  }
  Export images{
      .ownership_generation = freeze.ownership_generation, .folder = freeze.folder, .images = {}};
  for_each(move.parts, [&](PartitionId p) {
    partitions_.freeze(p);
    images.images.push_back(partitions_.export_image(p));
  });
  turn.effects().exports.push_back(std::move(images));
  moves_.push_back(std::move(move));
}

void Freezing::on_exported(ViewId ownership_generation, Result<std::vector<wire::ImageRef>> images,
                           Bytes inlined, Turn& turn) {
  const auto found = std::find_if(moves_.begin(), moves_.end(), [&](const Move& m) {
    return m.ownership_generation == ownership_generation;
  });
  if (session_.stopped() || found == moves_.end()) return;
  found->done = wire::Frozen{.ownership_generation = ownership_generation,
                             .ok = images.has_value(),
                             .error = {},
                             .images = {}};
  if (images) {
    found->done->images = *std::move(images);
  } else {
    found->done->error = images.error().what;
  }
  found->inlined = std::move(inlined);
  const wire::Frozen answer = *found->done;
  const RequestId request = found->request;
  if (!answer.ok) {  // no core has received the images: serve the partitions again
    defended(Defence::kPsExportFailed);
    for_each(found->parts, [&](PartitionId p) {
      if (partitions_.frozen(p)) partitions_.thaw(p, partitions_.ownership_generation(p));
    });
  }
  turn.send(kChiefPeer, request, answer, found->inlined);
}

void Freezing::settle(const wire::View& view, Bits& lost, Turn& turn) {
  for (const Move& move : moves_) {
    if (view.id < move.ownership_generation) continue;  // the view is older than the request
    for_each(move.parts, [&](PartitionId p) {
      if (!partitions_.frozen(p)) return;  // dropped in the meantime
      if (session_.is_owner(p)) {
        defended(Defence::kPsFrozenReturns);
        partitions_.thaw(p, view.partitions[raw(p)].ownership_generation);
      } else {
        insert(lost, p);
      }
    });
    if (move.inlined.empty())
      turn.effects().discards.push_back({move.ownership_generation, move.folder});
  }
  std::erase_if(moves_, [&](const Move& m) { return m.ownership_generation <= view.id; });
}

}  // namespace downpour::ps
