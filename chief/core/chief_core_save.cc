// ChiefCore: checkpoints. They are written beside whatever the job is doing; only the end of the
// job, a stop, and too many unsealed epochs wait for one (Phase::kSaving).
#include "chief/core/chief_core.h"
#include "chief/core/placement.h"
#include "shared/base/mutate.h"

namespace downpour::chief {

/// Something that the next checkpoint should hold has come about: one is begun as soon as may be.
void ChiefCore::want_save() {
  schedule_.want();
  check_save();
}

/// Begins what is due, and gives up what takes too long.
void ChiefCore::check_save() {
  if (saving_.under_way()) {
    if (now_ns_ - saving_.begun_ns > config_.save_timeout_ns) save_failed("it took too long");
  } else if (save_due()) {
    begin_save();
  }
  if (stop_signal_ != 0 && phase_ == Phase::kSaving && now_ns_ - stop_ns_ > config_.stop_save_ns) {
    schedule_.begun(now_ns_, steps());  // no other one is tried
    save_failed("it took too long");
  }
}

/// Only where the number of complete epochs is settled: a checkpoint seals them.
bool ChiefCore::save_due() const {
  return settled() && config_.mode == wire::Purpose::kTrain &&
         (phase_ == Phase::kTraining || phase_ == Phase::kCompleting || phase_ == Phase::kSaving) &&
         schedule_.due(now_ns_, steps());
}

void ChiefCore::begin_save() {
  DP_CHECK(!saving_.under_way());
  schedule_.begun(now_ns_, steps());
  saving_.begin(now_ns_, DP_MUTATE("manifest-number-forgets-the-term") ? 1 : config_.term,
                config_.checkpoint_root, epochs_complete_, ownership_.view().owners.size());
  log(event("save")
          .add("term", saving_.id.term)
          .add("n", saving_.id.n)
          .add("epochs", saving_.sealed_epochs));
  for_each_owner([&](uint32_t, const Member& member) {
    const wire::Save save{.checkpoint = saving_.id, .folder = saving_.folder};
    saving_.outbox.put(now_ns_, member, save);
    send(member, save, RequestId{++last_request_});
  });
}

void ChiefCore::on_saved(Member& member, wire::Saved&& saved) {
  const auto owner = owner_of(member);
  if (saving_.state != Saving::State::kWriting || !owner || saved.checkpoint != saving_.id) return;
  if (!saving_.outbox.waits_for(member)) return;  // again
  saving_.outbox.answered(member);
  if (!saved.ok) return save_failed(str(member.full_name(), ": ", saved.error));
  saving_.images[*owner] = std::move(saved.images);
  saving_.rows += saved.rows;
  if (saving_.outbox.empty()) publish();
}

void ChiefCore::publish() {
  auto images = join_images(ownership_.view(), saving_.images);
  if (!images) return save_failed(images.error().what);
  saving_.state = Saving::State::kPublishing;
  saving_.joined = *images;
  PublishManifest manifest{.checkpoint = saving_.id,
                           .folder = saving_.folder,
                           .images = std::move(*images),
                           .sealed_epochs = saving_.sealed_epochs,
                           .rows = saving_.rows,
                           .epochs = epochs_,
                           .evaluations = evaluations_};
  // What came about since the images were begun is not in them.
  std::erase_if(manifest.epochs, [&](const auto& e) { return e.epoch >= saving_.sealed_epochs; });
  std::erase_if(manifest.evaluations,
                [&](const auto& e) { return e.epochs_trained > saving_.sealed_epochs; });
  emit(std::move(manifest));
}

void ChiefCore::on_published(int64_t now_ns, ViewId checkpoint, Result<void> result,
                             Effects& effects) {
  if (finished()) return;
  const Turn turn(*this, now_ns, effects);
  if (saving_.state != Saving::State::kPublishing || checkpoint != saving_.id) return;
  if (!result && !DP_MUTATE("publish-error-ignored")) return save_failed(result.error().what);
  published_checkpoint_ = saving_.id;
  published_folder_ = saving_.folder;
  published_images_ = std::move(saving_.joined);
  epochs_sealed_ = saving_.sealed_epochs;
  const uint64_t bytes = saving_.bytes();
  saved_since_stop_ = stop_signal_ != 0;
  log(event("published")
          .add("term", checkpoint.term)
          .add("n", checkpoint.n)
          .add("sealed_epochs", epochs_sealed_)
          .add("bytes", bytes)
          .add("rows", saving_.rows));
  emit(CheckpointDone{saving_.id, saving_.folder, epochs_sealed_, saving_.rows, bytes});
  if (epochs_sealed_ > 0) {
    for_each_owner(
        [&](uint32_t, const Member& member) { send(member, wire::Sealed{epochs_sealed_}); });
  }
  saving_.end();
  after_save({});
}

/// Training goes on without this checkpoint: the epochs stay unsealed until the next one.
void ChiefCore::save_failed(const std::string& why) {
  const std::string what = why.empty() ? "no reason given" : why;
  if (saving_.under_way()) {
    log(event("save_failed").add("n", saving_.id.n).add("why", what));
    emit(Notice{NoticeLevel::kError, str("checkpoint ", saving_.id, " failed: ", what)});
    schedule_.failed(now_ns_);
  }
  saving_.end();
  after_save(what);
}

/// The images under way can not become a checkpoint any more (who owns what has changed). Another
/// one is begun as soon as may be. Once all images are there it is too late, and no harm: whatever
/// is lost then comes back from this checkpoint.
void ChiefCore::abandon_save(const std::string& why) {
  if (saving_.state != Saving::State::kWriting) return;
  log(event("save_abandoned").add("n", saving_.id.n).add("why", why));
  saving_.end();
  schedule_.want();
}

/// The checkpoint is through, or has failed because of `error`: whatever waited for it goes on.
void ChiefCore::after_save(const std::string& error) {
  if (schedule_.wanted()) return check_save();  // that one decides
  if (phase_ != Phase::kSaving) return;
  if (!error.empty() && !saved_since_stop_) {
    return fail(Error{ErrorCode::kIo, str("the last checkpoint could not be written: ", error),
                      saving_.folder, "free the disk or mend the folder, then run the job again"});
  }
  const bool last = epochs_sealed_ >= config_.job.train.epochs;
  if (last && (evaluated() || stop_signal_ == 0)) return begin_stop(0, {});
  if (stop_signal_ != 0) {
    error_ = interrupted(stop_signal_, true);
    return begin_stop(128 + stop_signal_, error_->what);
  }
  next_epoch();
}

}  // namespace downpour::chief
