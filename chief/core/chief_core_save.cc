// ChiefCore: checkpoints. The job continues while one is written. Only the end of the job, a stop,
// and too many unsealed epochs wait for one (Phase::kSaving).
#include <algorithm>

#include "chief/core/chief_core.h"
#include "chief/core/placement.h"
#include "shared/base/defence.h"
#include "shared/base/mutate.h"

namespace downpour::chief {

/// Requests a checkpoint, which begins as soon as possible.
void ChiefCore::want_save(Turn& turn) {
  schedule_.want();
  check_save(turn);
}

/// Begins a checkpoint that is due, and abandons one that takes too long.
void ChiefCore::check_save(Turn& turn) {
  if (saving_.under_way()) {
    // A manifest that is being written may still appear, so it does not time out.
    const bool waits = saving_.state == Saving::State::kWriting;
    if (waits && turn.now_ns() - saving_.begun_ns > config_.save_timeout_ns)
      save_failed(turn, "it took too long");
  } else if (save_due(turn)) {
    begin_save(turn);
  }
  if (phase_ == Phase::kSaving && stop_overdue(turn)) {
    schedule_.begun(turn.now_ns(), steps());  // so that no other one begins
    save_failed(turn, "it took too long");
  }
}

/// Returns true if a checkpoint is due. The number of complete epochs must be certain, because the
/// checkpoint seals them.
bool ChiefCore::save_due(const Turn& turn) const {
  return settled() && config_.mode == wire::Purpose::kTrain &&
         (phase_ == Phase::kTraining || phase_ == Phase::kCompleting || phase_ == Phase::kSaving) &&
         schedule_.due(turn.now_ns(), steps());
}

void ChiefCore::begin_save(Turn& turn) {
  DP_CHECK(!saving_.under_way());
  schedule_.begun(turn.now_ns(), steps());
  saving_partial_epoch_ = partial_epoch_;
  saving_best_ = phase_ == Phase::kSaving && is_best();
  saving_.begin(turn.now_ns(), DP_MUTATE("manifest-number-forgets-the-term") ? 1 : config_.term,
                config_.checkpoint_root, epochs_complete_, ownership_.view().owners.size(),
                base_for_save());
  turn.log(turn.event("save")
               .add("term", saving_.id.term)
               .add("n", saving_.id.n)
               .add("base_term", saving_.base.term)
               .add("base_n", saving_.base.n)
               .add("epochs", saving_.sealed_epochs));
  const wire::Save save{.checkpoint = saving_.id,
                        .folder = saving_.folder,
                        .base = saving_.base,
                        .partial_epoch = partial_epoch_ ? epochs_.back().epoch : 0,
                        .partial_shards = partial_epoch_ ? epochs_.back().shards : 0};
  for_each_owner([&](uint32_t, const Member& member) {
    saving_.outbox.put(turn.now_ns(), member, save);
    turn.send(member, save, turn.next_request());
  });
}

/// Returns true if the partitions hold exactly the variables with the lowest evaluation loss: the
/// trained epochs are evaluated, and no shard of another epoch has begun.
bool ChiefCore::is_best() const {
  return config_.job.eval.keep_best && evaluates() && evaluated() &&
         epochs_begun_ <= epochs_trained() &&
         best_epochs(config_.job, evaluations_) == epochs_trained();
}

/// Returns the newest published checkpoint if the next one may be incremental; otherwise {}. A
/// chain ends after `full_every` images, and before the images are too many to list.
ViewId ChiefCore::base_for_save() const {
  const CheckpointSpec& spec = config_.job.train.checkpoint;
  if (!spec.incremental || published_images_.empty()) return {};
  size_t longest = 0, images = published_images_.size();
  for (const auto& chain : published_images_) {
    longest = std::max(longest, chain.size());
    images += chain.size();
  }
  const bool room = longest < spec.full_every && images <= config_.images_listed_max;
  return room ? published_checkpoint_ : ViewId{};
}

/// Checks that each image builds on a published one, and stores the chains of images.
Result<void> ChiefCore::chain(const std::vector<wire::ImageRef>& images) {
  saving_.chains.resize(images.size());
  for (size_t p = 0; p < images.size(); ++p) {
    std::vector<wire::ImageRef>& chain = saving_.chains[p];
    if (images[p].base != 0) {
      const bool known = saving_.base != ViewId{} && saving_.base == published_checkpoint_ &&
                         published_images_[p].back().checksum == images[p].base;
      if (!known) {
        return Error{ErrorCode::kMalformed,
                     str("the image of partition ", p, " builds on one that is not published")};
      }
      chain = published_images_[p];
    }
    chain.push_back(images[p]);
    chain.back().checkpoint = saving_.id;
  }
  return {};
}

void ChiefCore::on_saved(Turn& turn, Member& member, wire::Saved&& saved) {
  const auto owner = owner_of(member);
  if (saving_.state != Saving::State::kWriting || !owner || saved.checkpoint != saving_.id ||
      !saving_.outbox.waits_for(member)) {
    return defended(Defence::kChiefSavedLate);
  }
  saving_.outbox.answered(member);
  if (saved.beyond_partial_epoch && saving_partial_epoch_)
    return reopen_partial_epoch(turn, member);
  if (!saved.ok) return save_failed(turn, str(member.full_name(), ": ", saved.error));
  if (saved.sealed_epochs > saving_.sealed_epochs) {  // no chief could restore from these images
    return save_failed(turn, str(member.full_name(), " has sealed ", saved.sealed_epochs,
                                 " epochs, and this checkpoint holds ", saving_.sealed_epochs));
  }
  saving_.images[*owner] = std::move(saved.images);
  saving_.rows += saved.rows;
  if (saving_.outbox.empty()) publish(turn);
}

void ChiefCore::publish(Turn& turn) {
  auto images = join_images(ownership_.view(), saving_.images);
  if (!images) return save_failed(turn, images.error().what);
  if (auto chained = chain(*images); !chained) return save_failed(turn, chained.error().what);
  saving_.state = Saving::State::kPublishing;
  PublishManifest manifest{.checkpoint = saving_.id,
                           .folder = saving_.folder,
                           .images = std::move(*images),
                           .bases = {},
                           .ownership_generations = {},
                           .given = ownership_.last_given(),
                           .best = saving_best_ ? saving_.id : best_checkpoint_,
                           .sealed_epochs = saving_.sealed_epochs,
                           .rows = saving_.rows,
                           .epochs = epochs_,
                           .evaluations = evaluations_};
  // The owners are those that wrote the images, because a change of owners abandons the checkpoint.
  for (const wire::Placement& p : ownership_.view().partitions)
    manifest.ownership_generations.push_back(p.ownership_generation);
  // Remove what happened after the images were begun, because they do not hold it.
  const uint32_t held = saving_.sealed_epochs + (saving_partial_epoch_ ? 1 : 0);
  std::erase_if(manifest.epochs, [&](const auto& e) { return e.epoch >= held; });
  std::erase_if(manifest.evaluations, [&](const auto& e) { return e.epochs_trained > held; });
  for (const auto& chain : saving_.chains) {
    manifest.bases.insert(manifest.bases.end(), chain.begin(), chain.end() - 1);
  }
  turn.emit(std::move(manifest));
}

void ChiefCore::on_published(int64_t now_ns, ViewId checkpoint, Result<void> result,
                             Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  if (saving_.state != Saving::State::kPublishing || checkpoint != saving_.id) return;
  if (!result && !DP_MUTATE("publish-error-ignored")) return save_failed(turn, result.error().what);
  partial_epoch_saved_ = saving_partial_epoch_ && partial_epoch_;
  published_checkpoint_ = saving_.id;
  published_folder_ = saving_.folder;
  if (saving_best_) {
    best_checkpoint_ = saving_.id;
    best_epochs_saved_ = epochs_trained();
  }
  const bool builds = std::any_of(saving_.chains.begin(), saving_.chains.end(),
                                  [](const auto& chain) { return chain.size() > 1; });
  published_images_ = std::move(saving_.chains);
  epochs_sealed_ = saving_.sealed_epochs;
  quarantine_.forget_below(epochs_sealed_);
  const uint64_t bytes = saving_.bytes();
  saved_since_stop_ = stop_signal_ != 0;
  turn.log(turn.event("published")
               .add("term", checkpoint.term)
               .add("n", checkpoint.n)
               .add("sealed_epochs", epochs_sealed_)
               .add("bytes", bytes)
               .add("whole", !builds)
               .add("rows", saving_.rows));
  turn.emit(CheckpointDone{.checkpoint = saving_.id,
                           .base = builds ? saving_.base : ViewId{},
                           .folder = saving_.folder,
                           .sealed_epochs = epochs_sealed_,
                           .rows = saving_.rows,
                           .bytes = bytes});
  if (epochs_sealed_ > 0) {
    for_each_owner(
        [&](uint32_t, const Member& member) { turn.send(member, wire::Sealed{epochs_sealed_}); });
  }
  saving_.end();
  after_save(turn, {});
}

/// Ends a failed checkpoint. Training continues, and the epochs stay unsealed until the next one.
void ChiefCore::save_failed(Turn& turn, const std::string& why) {
  const std::string what = why.empty() ? "no reason given" : why;
  if (saving_.under_way()) {
    defended(Defence::kChiefSaveFailed);
    turn.log(turn.event("save_failed").add("n", saving_.id.n).add("why", what));
    turn.emit(Notice{NoticeLevel::kError, str("checkpoint ", saving_.id, " failed: ", what)});
    schedule_.failed(turn.now_ns());
  }
  saving_.end();
  after_save(turn, what);
}

/// Abandons the checkpoint that is being written, because the owners have changed. The next one
/// begins as soon as possible. When all images have arrived, the checkpoint is not abandoned: then
/// lost partitions are restored from it.
void ChiefCore::abandon_save(Turn& turn, const std::string& why) {
  if (saving_.state != Saving::State::kWriting) return;
  defended(Defence::kChiefSaveAbandoned);
  turn.log(turn.event("save_abandoned").add("n", saving_.id.n).add("why", why));
  saving_.end();
  schedule_.want();
}

/// Continues whatever waited for the checkpoint, which was published, or failed because of `error`.
void ChiefCore::after_save(Turn& turn, const std::string& error) {
  if (schedule_.wanted()) return check_save(turn);  // the next checkpoint decides
  if (phase_ != Phase::kSaving) return;
  if (!error.empty() && stop_signal_ == 0 && !trained() && waits_for_best()) {
    best_epochs_lost_ = epochs_trained();
    turn.notice(NoticeLevel::kWarning,
                str("epoch ", epochs_trained(),
                    " has the lowest evaluation loss, but its checkpoint failed: "
                    "eval and predict will use another epoch"));
    return next_epoch(turn);
  }
  if (!error.empty() && !saved_since_stop_) {
    return fail(turn,
                Error{ErrorCode::kIo, str("the last checkpoint could not be written: ", error),
                      saving_.folder, "free the disk or mend the folder, then run the job again"});
  }
  const bool last =
      trained() && epochs_sealed_ >= epochs_complete_ && (!partial_epoch_ || partial_epoch_saved_);
  if (last && (evaluated() || stop_signal_ == 0)) return begin_stop(turn, 0, {});
  if (stop_signal_ != 0) {
    error_ = interrupted(stop_signal_, true);
    return begin_stop(turn, 128 + stop_signal_, error_->what);
  }
  next_epoch(turn);
}

}  // namespace downpour::chief
