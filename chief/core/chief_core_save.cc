// ChiefCore: checkpoints, and what follows them.
#include "chief/core/chief_core.h"
#include "chief/core/placement.h"

namespace downpour::chief {

void ChiefCore::begin_save() {
  enter(Phase::kSaving);
  if (!settled()) return;  // begun when every partition has an owner again
  checkpoint_ = {config_.term, checkpoint_.n + 1};
  checkpoint_folder_ = str(config_.checkpoint_root, "/", checkpoint_.term, "-", checkpoint_.n);
  saving_epochs_ = epochs_complete_;
  saved_images_.assign(ownership_.view().owners.size(), {});
  saved_rows_ = 0;
  round_at_ns_ = 0;
  outbox_.drop<wire::StatusRequest>();
  log(event("save")
          .add("term", checkpoint_.term)
          .add("n", checkpoint_.n)
          .add("epochs", saving_epochs_));
  for_each_owner([&](uint32_t, const Member& member) {
    ask(member, wire::Save{.checkpoint = checkpoint_, .folder = checkpoint_folder_});
  });
}

void ChiefCore::on_saved(Member& member, wire::Saved&& saved) {
  const auto owner = owner_of(member);
  if (phase_ != Phase::kSaving || !owner || saved.checkpoint != checkpoint_) return;
  if (!outbox_.waits_for<wire::Save>(member)) return;  // again
  outbox_.answered(member);
  if (!saved.ok) return save_failed(str(member.full_name(), ": ", saved.error));
  saved_images_[*owner] = std::move(saved.images);
  saved_rows_ += saved.rows;
  if (!outbox_.waits<wire::Save>()) publish();
}

void ChiefCore::publish() {
  auto images = join_images(ownership_.view(), saved_images_);
  if (!images) return save_failed(images.error().what);
  enter(Phase::kPublishing);
  saving_images_ = std::move(*images);
  emit(PublishManifest{.checkpoint = checkpoint_,
                       .folder = checkpoint_folder_,
                       .images = saving_images_,
                       .sealed_epochs = saving_epochs_,
                       .rows = saved_rows_,
                       .epochs = epochs_,
                       .evaluations = evaluations_});
}

void ChiefCore::on_published(int64_t now_ns, ViewId checkpoint, Result<void> result,
                             Effects& effects) {
  if (finished()) return;
  const Turn turn(*this, now_ns, effects);
  if (phase_ != Phase::kPublishing || checkpoint != checkpoint_) return;
  if (!result) return save_failed(result.error().what);
  save_error_.clear();
  published_checkpoint_ = checkpoint_;
  published_folder_ = checkpoint_folder_;
  published_images_ = std::move(saving_images_);
  epochs_sealed_ = saving_epochs_;
  uint64_t bytes = 0;
  for (const auto& images : saved_images_) {
    for (const wire::ImageRef& image : images) bytes += image.bytes;
  }
  log(event("published")
          .add("term", checkpoint.term)
          .add("n", checkpoint.n)
          .add("sealed_epochs", epochs_sealed_)
          .add("bytes", bytes)
          .add("rows", saved_rows_));
  emit(CheckpointDone{checkpoint_, checkpoint_folder_, epochs_sealed_, saved_rows_, bytes});
  if (epochs_sealed_ > 0) {
    for_each_owner(
        [&](uint32_t, const Member& member) { send(member, wire::Sealed{epochs_sealed_}); });
  }
  after_save();
}

/// Who owns what has changed: the images under way can not become a checkpoint any more. The phase
/// waits until every partition has an owner again.
void ChiefCore::abandon_save(const std::string& why) {
  if (phase_ != Phase::kSaving || !outbox_.waits<wire::Save>()) return;
  log(event("save_abandoned").add("n", checkpoint_.n).add("why", why));
  outbox_.drop<wire::Save>();
  saved_images_.clear();
}

/// Training goes on without this checkpoint: the epochs stay unsealed until the next one.
void ChiefCore::save_failed(const std::string& why) {
  save_error_ = why.empty() ? "no reason given" : why;
  outbox_.drop<wire::Save>();
  notice(NoticeLevel::kError, str("checkpoint ", checkpoint_, " failed: ", save_error_));
  after_save();
}

void ChiefCore::after_save() {
  saved_images_.clear();
  const bool last = epochs_complete_ >= config_.job.train.epochs;
  if ((stop_signal_ != 0 || last) && !save_error_.empty()) {
    return fail(
        Error{ErrorCode::kIo, str("the last checkpoint could not be written: ", save_error_),
              checkpoint_folder_, "free the disk or mend the folder, then run the job again"});
  }
  if (last && (evaluated() || stop_signal_ == 0)) return begin_stop(0, {});
  if (stop_signal_ != 0) {
    error_ = interrupted(stop_signal_, true);
    return begin_stop(128 + stop_signal_, error_->what);
  }
  epoch_ = epochs_complete_;
  begin_epoch(claimed_ || epoch_ < epochs_begun_);
}

}  // namespace downpour::chief
