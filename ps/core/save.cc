// PsCore: copies partitions for a checkpoint, one at a time, while all are served.
#include <algorithm>

#include "ps/core/ps_core.h"
#include "shared/base/defence.h"
#include "shared/base/mutate.h"

namespace downpour::ps {

namespace {

/// Whether the image holds exactly `shards` ended shards of the epoch and no open shard of it.
bool is_partial(const checkpoint::PartitionImage& image, uint32_t epoch, uint32_t shards) {
  const auto found = std::find_if(image.epochs.begin(), image.epochs.end(),
                                  [&](const auto& known) { return known.epoch == epoch; });
  return found != image.epochs.end() && found->shards_ended == shards &&
         std::none_of(image.shards.begin(), image.shards.end(),
                      [&](const auto& open) { return open.shard.epoch == epoch; });
}

}  // namespace

void PsCore::on_save(const wire::Envelope& envelope, const wire::Save& save, Effects& effects) {
  if (saved_ && saved_->checkpoint == save.checkpoint) {
    defended(Defence::kPsSaveAnswered);
    return send(kChiefPeer, envelope.request, *saved_, {}, effects);
  }
  if (saving_ && saving_->checkpoint == save.checkpoint) {
    saving_->request = envelope.request;  // a repeated request
    defended(Defence::kPsSaveRepeated);
    return;
  }
  // A late request: the checkpoint was abandoned, or it is published and its file must not change.
  if ((saving_ && save.checkpoint < saving_->checkpoint) ||
      (saved_ && save.checkpoint < saved_->checkpoint)) {
    return defended(Defence::kPsSaveLate);
  }
  if (const auto outside = session_.check_folder(save.folder)) {
    return send(kChiefPeer, envelope.request,
                wire::Saved{.checkpoint = save.checkpoint, .ok = false, .error = outside->what}, {},
                effects);
  }
  settle_snapshots(save.base);
  unpublished_ = Unpublished{
      .checkpoint = save.checkpoint, .parts = bits_for(partitions_.count()), .images = {}};
  saving_ = Saving{.checkpoint = save.checkpoint,
                   .base = save.base,
                   .partial_epoch = save.partial_epoch,
                   .partial_shards = save.partial_shards,
                   .folder = save.folder,
                   .request = envelope.request,
                   .parts = partitions_.owned(),
                   .waiting = partitions_.owned()};
  if (none(saving_->parts)) answer_save(std::vector<wire::ImageRef>{}, effects);
}

/// Settles the copies for the previous checkpoint. If it was published, later images may build on
/// them. If it was abandoned, their rows must be saved again.
void PsCore::settle_snapshots(ViewId published) {
  if (!unpublished_) return;
  const bool written = !unpublished_->images.empty();
  const bool became = written && unpublished_->checkpoint == published;
  if (!became && !none(unpublished_->parts)) defended(Defence::kPsSnapshotLost);
  partitions_.settle_snapshots(became);
  for (const wire::ImageRef& image : unpublished_->images) {
    const PartitionId p = image.partition;
    if (became && contains(unpublished_->parts, p)) bases_[raw(p)] = {published, image.checksum};
  }
  unpublished_.reset();
}

bool PsCore::saves() const {
  return saving_ && !session_.stopped() && !none(saving_->waiting) &&
         saving_->unwritten_bytes < config_.limits.save_bytes_max;
}

void PsCore::continue_save(Effects& effects) {
  for (uint64_t copied = 0; saves() && copied < config_.limits.save_copy_bytes;) {
    Saving& saving = *saving_;
    const PartitionId p = first(saving.waiting);
    if (!partitions_.owns(p)) {
      defended(Defence::kPsSaveGone);
      return answer_save(Error{ErrorCode::kUnavailable,
                               str("partition ", p, " was given away before it was copied")},
                         effects);
    }
    erase(saving.waiting, p);
    Store store{.checkpoint = saving.checkpoint, .folder = saving.folder, .image = {}};
    if (!spare_images_.empty()) {
      store.image = std::move(spare_images_.back());
      spare_images_.pop_back();
    }
    const Base& base = bases_[raw(p)];
    const bool may_build =
        config_.incremental_saves && saving.base != ViewId{} && base.checkpoint == saving.base;
    saving.rows += partitions_.snapshot(p, may_build ? base.checksum : 0, store.image);
    insert(unpublished_->parts, p);
    saving.sealed_epochs = std::max(saving.sealed_epochs, store.image.sealed_epochs);
    if (saving.partial_shards > 0 && !DP_MUTATE("part-not-proved"))
      saving.beyond_partial_epoch |=
          !is_partial(store.image, saving.partial_epoch, saving.partial_shards);
    store.last = none(saving.waiting);
    const uint64_t bytes = checkpoint::bulk_bytes(store.image);
    copied += bytes;
    saving.unwritten_bytes += bytes;
    effects.stores.push_back(std::move(store));
  }
}

void PsCore::on_image_written(ViewId checkpoint, checkpoint::PartitionImage&& image) {
  if (saving_ && saving_->checkpoint == checkpoint) {
    saving_->unwritten_bytes -= std::min(saving_->unwritten_bytes, checkpoint::bulk_bytes(image));
  }
  constexpr size_t kSpareImagesMax = 16;
  const bool useful = saving_ && !none(saving_->waiting) && spare_images_.size() < kSpareImagesMax;
  if (useful) spare_images_.push_back(std::move(image));
}

void PsCore::on_stored(ViewId checkpoint, Result<std::vector<wire::ImageRef>> images,
                       Effects& effects) {
  if (session_.stopped() || !saving_ || saving_->checkpoint != checkpoint) return;
  if (images) unpublished_->images = *images;
  answer_save(std::move(images), effects);
}

void PsCore::answer_save(Result<std::vector<wire::ImageRef>> images, Effects& effects) {
  wire::Saved saved{.checkpoint = saving_->checkpoint,
                    .ok = images.has_value(),
                    .error = {},
                    .images = {},
                    .rows = saving_->rows,
                    .beyond_partial_epoch = saving_->beyond_partial_epoch,
                    .sealed_epochs = saving_->sealed_epochs};
  if (saving_->beyond_partial_epoch) defended(Defence::kPsImageBeyondPartialEpoch);
  const RequestId request = saving_->request;
  saving_.reset();
  spare_images_.clear();
  partitions_.end_snapshots();
  if (images) {
    saved.images = *std::move(images);
    saved_ = saved;
  } else {
    saved.error = images.error().what;  // not stored: a repeated Save tries again
    if (!images.error().where.empty()) saved.error += str(" (", images.error().where, ")");
  }
  send(kChiefPeer, request, std::move(saved), {}, effects);
}

}  // namespace downpour::ps
