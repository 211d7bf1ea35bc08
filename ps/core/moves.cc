// PsCore: partitions that are frozen while they move to another core.
#include <algorithm>

#include "ps/core/ps_core.h"
#include "shared/base/defence.h"
#include "shared/base/mutate.h"

namespace downpour::ps {

void PsCore::on_freeze(const wire::Envelope& envelope, const wire::Freeze& freeze,
                       Effects& effects) {
  for (Freezing& known : freezing_) {
    if (known.ownership_generation != freeze.ownership_generation) continue;
    known.request = envelope.request;  // a repeated request
    defended(Defence::kPsFreezeRepeated);
    if (known.done) send(kChiefPeer, envelope.request, *known.done, known.inlined, effects);
    return;
  }
  const auto refuse = [&](std::string why) {
    send(kChiefPeer, envelope.request,
         wire::Frozen{.ownership_generation = freeze.ownership_generation,
                      .ok = false,
                      .error = std::move(why),
                      .images = {}},
         {}, effects);
  };
  if (freeze.ownership_generation <= session_.view().id ||
      freeze.ownership_generation.term < session_.term()) {
    defended(Defence::kPsFreezeOld);
    return refuse(str("superseded: view ", session_.view().id, " of term ", session_.term(),
                      " is known here"));
  }
  if (freezing_.size() >= config_.limits.freezes_max) return refuse("too many moves at once");
  if (const auto outside = session_.check_folder(freeze.folder)) return refuse(outside->what);
  Freezing freezing{.ownership_generation = freeze.ownership_generation,
                    .request = envelope.request,
                    .folder = freeze.folder,
                    .parts = bits_for(partitions_.count()),
                    .done = {},
                    .inlined = {}};
  for (const PartitionId p : freeze.partitions) {
    if (raw(p) >= partitions_.count() || !partitions_.serves(p)) {
      defended(Defence::kPsFreezeNotServed);
      return refuse(str("partition ", p, " is not served here"));
    }
    insert(freezing.parts, p);
  }
  Export images{
      .ownership_generation = freeze.ownership_generation, .folder = freeze.folder, .images = {}};
  for_each(freezing.parts, [&](PartitionId p) {
    partitions_.freeze(p);
    images.images.push_back(partitions_.export_image(p));
    if (DP_MUTATE("move-drops-watermarks")) images.images.back().shards.clear();
  });
  effects.exports.push_back(std::move(images));
  freezing_.push_back(std::move(freezing));
}

void PsCore::on_exported(ViewId ownership_generation, Result<std::vector<wire::ImageRef>> images,
                         Bytes inlined, Effects& effects) {
  const auto found = std::find_if(freezing_.begin(), freezing_.end(), [&](const Freezing& f) {
    return f.ownership_generation == ownership_generation;
  });
  if (session_.stopped() || found == freezing_.end()) return;
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
  send(kChiefPeer, request, answer, found->inlined, effects);
}

/// Ends the freezes that are not newer than the view. If the view names this core as owner of a
/// partition, the core serves it again, under the ownership generation in the view. (A core that
/// loaded the images of a cancelled move holds them under an older generation.) Partitions of other
/// owners become `lost`.
void PsCore::settle_frozen(const wire::View& view, Bits& lost, Effects& effects) {
  for (const Freezing& freezing : freezing_) {
    if (view.id < freezing.ownership_generation) continue;  // the view is older than the request
    for_each(freezing.parts, [&](PartitionId p) {
      if (!partitions_.frozen(p)) return;  // dropped in the meantime
      if (session_.is_owner(p)) {
        defended(Defence::kPsFrozenReturns);
        partitions_.thaw(p, view.partitions[raw(p)].ownership_generation);
      } else {
        insert(lost, p);
      }
    });
    if (freezing.inlined.empty())
      effects.discards.push_back({freezing.ownership_generation, freezing.folder});
  }
  std::erase_if(freezing_, [&](const Freezing& f) { return f.ownership_generation <= view.id; });
}

}  // namespace downpour::ps
