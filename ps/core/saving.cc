#include "ps/core/saving.h"

#include <algorithm>

#include "shared/base/defence.h"

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

/// Whether `step` is the next step of every partition that applies steps.
bool is_at(const Partitions& partitions, uint64_t step) {
  bool all = true;
  for_each(partitions.stepped(),
           [&](PartitionId p) { all = all && partitions.next_steps()[raw(p)] == step; });
  return all;
}

}  // namespace

void Saving::on_save(const wire::Envelope& envelope, const wire::Save& save, Turn& turn) {
  if (saved_ && saved_->checkpoint == save.checkpoint) {
    defended(Defence::kPsSaveAnswered);
    return turn.send(kChiefPeer, envelope.request, *saved_);
  }
  if (current_ && current_->checkpoint == save.checkpoint) {
    current_->request = envelope.request;  // a repeated request
    defended(Defence::kPsSaveRepeated);
    return;
  }
  // A late request: the checkpoint was abandoned, or it is published and its file must not change.
  if ((current_ && save.checkpoint < current_->checkpoint) ||
      (saved_ && save.checkpoint < saved_->checkpoint)) {
    return defended(Defence::kPsSaveLate);
  }
  if (const auto outside = session_.check_folder(save.folder)) {
    return turn.send(
        kChiefPeer, envelope.request,
        wire::Saved{.checkpoint = save.checkpoint, .ok = false, .error = outside->what});
  }
  if (save.step != 0 && !is_at(partitions_, save.step)) {
    return turn.send(kChiefPeer, envelope.request,
                     wire::Saved{.checkpoint = save.checkpoint,
                                 .ok = false,
                                 .error = str("a partition is not at step ", save.step)});
  }
  settle_snapshots(save.base);
  unpublished_ = Unpublished{
      .checkpoint = save.checkpoint, .parts = bits_for(partitions_.count()), .images = {}};
  current_ = Current{.checkpoint = save.checkpoint,
                     .base = save.base,
                     .partial_epoch = save.partial_epoch,
                     .partial_shards = save.partial_shards,
                     .folder = save.folder,
                     .request = envelope.request,
                     .parts = partitions_.owned(),
                     .waiting = partitions_.owned()};
  if (none(current_->parts)) answer(std::vector<wire::ImageRef>{}, turn);
}

/// Settles the copies for the previous checkpoint. If it was published, later images may build on
/// them. If it was abandoned, their rows must be saved again.
void Saving::settle_snapshots(ViewId published) {
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

bool Saving::copies() const {
  return current_ && !session_.stopped() && !none(current_->waiting) &&
         current_->unwritten_bytes < config_.limits.save_bytes_max;
}

void Saving::continue_copying(Turn& turn) {
  for (uint64_t copied = 0; copies() && copied < config_.limits.save_copy_bytes;) {
    Current& current = *current_;
    const PartitionId p = first(current.waiting);
    if (!partitions_.owns(p)) {
      defended(Defence::kPsSaveGone);
      return answer(Error{ErrorCode::kUnavailable,
                          str("partition ", p, " moved to another ps before it was copied")},
                    turn);
    }
    erase(current.waiting, p);
    Store store{.checkpoint = current.checkpoint, .folder = current.folder, .image = {}};
    if (!spare_images_.empty()) {
      store.image = std::move(spare_images_.back());
      spare_images_.pop_back();
    }
    const Base& base = bases_[raw(p)];
    const bool may_build =
        config_.incremental_saves && current.base != ViewId{} && base.checkpoint == current.base;
    current.rows += partitions_.snapshot(p, may_build ? base.checksum : 0, store.image);
    insert(unpublished_->parts, p);
    current.sealed_epochs = std::max(current.sealed_epochs, store.image.sealed_epochs);
    if (current.partial_shards > 0)
      current.beyond_partial_epoch |=
          !is_partial(store.image, current.partial_epoch, current.partial_shards);
    store.last = none(current.waiting);
    const uint64_t bytes = checkpoint::bulk_bytes(store.image);
    copied += bytes;
    current.unwritten_bytes += bytes;
    turn.effects().stores.push_back(std::move(store));
  }
}

void Saving::on_image_written(ViewId checkpoint, checkpoint::PartitionImage&& image) {
  if (current_ && current_->checkpoint == checkpoint) {
    current_->unwritten_bytes -= std::min(current_->unwritten_bytes, checkpoint::bulk_bytes(image));
  }
  constexpr size_t kSpareImagesMax = 16;
  const bool useful =
      current_ && !none(current_->waiting) && spare_images_.size() < kSpareImagesMax;
  if (useful) spare_images_.push_back(std::move(image));
}

void Saving::on_stored(ViewId checkpoint, Result<std::vector<wire::ImageRef>> images, Turn& turn) {
  if (session_.stopped() || !current_ || current_->checkpoint != checkpoint) return;
  if (images) unpublished_->images = *images;
  answer(std::move(images), turn);
}

void Saving::answer(Result<std::vector<wire::ImageRef>> images, Turn& turn) {
  wire::Saved saved{.checkpoint = current_->checkpoint,
                    .ok = images.has_value(),
                    .error = {},
                    .images = {},
                    .rows = current_->rows,
                    .beyond_partial_epoch = current_->beyond_partial_epoch,
                    .sealed_epochs = current_->sealed_epochs};
  if (current_->beyond_partial_epoch) defended(Defence::kPsImageBeyondPartialEpoch);
  const RequestId request = current_->request;
  current_.reset();
  spare_images_.clear();
  partitions_.end_snapshots();
  if (images) {
    saved.images = *std::move(images);
    saved_ = saved;
  } else {
    saved.error = images.error().what;  // not stored: a repeated Save tries again
    if (!images.error().where.empty()) saved.error += str(" (", images.error().where, ")");
  }
  turn.send(kChiefPeer, request, std::move(saved));
}

void Saving::on_dropped(const Bits& parts) {
  for_each(parts, [&](PartitionId p) {
    bases_[raw(p)] = {};
    if (unpublished_) erase(unpublished_->parts, p);
  });
}

}  // namespace downpour::ps
