#include "chief/core/run/checkpoints.h"

#include <algorithm>
#include <utility>

#include "chief/core/cluster/placement.h"
#include "chief/core/cluster/ps_cores.h"
#include "chief/core/run/selection.h"
#include "shared/base/defence.h"

namespace downpour::chief {

namespace {

/// Returns true for errors of files that another checkpoint may not have.
bool is_damage(ErrorCode code) {
  return code == ErrorCode::kBadData || code == ErrorCode::kNoInput || code == ErrorCode::kIo ||
         code == ErrorCode::kUnsupported || code == ErrorCode::kPermission;
}

}  // namespace

Checkpoints::Checkpoints(const ChiefConfig& config, Membership& members, const Ownership& ownership,
                         History& history)
    : config_(config),
      members_(members),
      ownership_(ownership),
      history_(history),
      saving_(config.resend_ns),
      schedule_(config.job.train.checkpoint.every, config.save_retry_ns) {
  if (!config_.resume) return;
  newest_ = {config_.resume->checkpoint, config_.resume->folder, config_.resume->images};
  kept_ = config_.resume->kept;
  published_best_ = config_.resume->best;
}

void Checkpoints::choose_best() {
  best_ = {};
  if (!config_.job.eval.keep_best || !evaluates(config_)) return;
  for (const KeptModel& model : kept_) {
    if (is_better(config_.job, history_.evaluations(), model.epochs, best_.epochs)) best_ = model;
  }
}

/// Returns true if the partitions hold exactly the variables of an evaluation that is better than
/// that of the best model.
bool Checkpoints::holds_better() const {
  return config_.job.eval.keep_best && history_.at_evaluation() &&
         is_better(config_.job, history_.evaluations(), history_.epochs_trained(), best_.epochs);
}

bool Checkpoints::waits_for_best() const {
  return holds_better() && best_epochs_lost_ != history_.epochs_trained();
}

bool Checkpoints::overdue(const Turn& turn) const {
  return saving_.state == Saving::State::kWriting &&
         turn.now_ns() - saving_.begun_ns > config_.save_timeout_ns;
}

void Checkpoints::begin(Turn& turn, uint64_t steps, bool at_rest, uint64_t step) {
  DP_CHECK(!saving_.under_way());
  const bool partial = history_.partial();
  schedule_.begun(turn.now_ns(), steps);
  saving_partial_epoch_ = partial;
  const bool better = at_rest && holds_better();
  saving_.begin(turn.now_ns(), config_.term, config_.checkpoint_root, history_.complete(),
                ownership_.view().owners.size(), base());
  saving_best_ = better ? KeptModel{saving_.id, history_.epochs_trained()} : best_;
  turn.log(turn.event("save")
               .add("term", saving_.id.term)
               .add("n", saving_.id.n)
               .add("base_term", saving_.base.term)
               .add("base_n", saving_.base.n)
               .add("epochs", saving_.sealed_epochs));
  const wire::Save save{.checkpoint = saving_.id,
                        .folder = saving_.folder,
                        .base = saving_.base,
                        .partial_epoch = partial ? history_.accounts().back().epoch : 0,
                        .partial_shards = partial ? history_.accounts().back().shards : 0,
                        .step = step};
  for_each_owner(members_, ownership_.view(), [&](uint32_t, const Member& member) {
    saving_.outbox.put(turn.now_ns(), member, save);
    turn.send(member, save, turn.next_request());
  });
}

/// Returns the newest published checkpoint if the next one may be incremental; otherwise {}. A
/// chain ends after `full_every` images, and before the images are too many to list.
ViewId Checkpoints::base() const {
  const CheckpointSpec& spec = config_.job.train.checkpoint;
  if (!spec.incremental || newest_.images.empty()) return {};
  size_t longest = 0, images = newest_.images.size();
  for (const auto& chain : newest_.images) {
    longest = std::max(longest, chain.size());
    images += chain.size();
  }
  const bool room = longest < spec.full_every && images <= config_.images_listed_max;
  return room ? newest_.checkpoint : ViewId{};
}

/// Checks that each image builds on a published one, and stores the chains of images.
Result<void> Checkpoints::chain(const std::vector<wire::ImageRef>& images) {
  saving_.chains.resize(images.size());
  for (size_t p = 0; p < images.size(); ++p) {
    std::vector<wire::ImageRef>& chain = saving_.chains[p];
    if (images[p].base != 0) {
      const bool known = saving_.base != ViewId{} && saving_.base == newest_.checkpoint &&
                         newest_.images[p].back().checksum == images[p].base;
      if (!known) {
        return Error{ErrorCode::kMalformed, str("the image of partition ", p,
                                                " builds on an image that is not published")};
      }
      chain = newest_.images[p];
    }
    chain.push_back(images[p]);
    chain.back().checkpoint = saving_.id;
  }
  return {};
}

SaveResult Checkpoints::on_saved(Turn& turn, const Member& member, wire::Saved&& saved) {
  const auto owner =
      member.is_ps() ? ownership_.owner_number(ps_key(member)) : std::optional<uint32_t>();
  if (saving_.state != Saving::State::kWriting || !owner || saved.checkpoint != saving_.id ||
      !saving_.outbox.waits_for(member)) {
    defended(Defence::kChiefSavedLate);
    return {};
  }
  saving_.outbox.answered(member);
  if (saved.beyond_partial_epoch && saving_partial_epoch_) {
    defended(Defence::kChiefPartialEpochReopened);
    turn.log(turn.event("part_reopened").add("n", saving_.id.n).add("who", member.name()));
    saving_.end();
    return {SaveEvent::kPartialEpochGrew, {}};
  }
  if (!saved.ok) return {SaveEvent::kFailed, str(member.full_name(), ": ", saved.error)};
  if (saved.sealed_epochs > saving_.sealed_epochs) {  // no chief could restore from these images
    return {SaveEvent::kFailed, str(member.full_name(), " has sealed ", saved.sealed_epochs,
                                    " epochs, but this checkpoint has ", saving_.sealed_epochs)};
  }
  saving_.images[*owner] = std::move(saved.images);
  saving_.rows += saved.rows;
  return saving_.outbox.empty() ? publish(turn) : SaveResult{};
}

SaveResult Checkpoints::publish(Turn& turn) {
  auto images = join_images(ownership_.view(), saving_.images);
  if (!images) return {SaveEvent::kFailed, images.error().what};
  if (auto chained = chain(*images); !chained) return {SaveEvent::kFailed, chained.error().what};
  saving_.state = Saving::State::kPublishing;
  PublishManifest manifest{.checkpoint = saving_.id,
                           .folder = saving_.folder,
                           .images = std::move(*images),
                           .bases = {},
                           .ownership_generations = {},
                           .given = ownership_.last_given(),
                           .best = saving_best_.checkpoint,
                           .sealed_epochs = saving_.sealed_epochs,
                           .rows = saving_.rows,
                           .epochs = history_.accounts(),
                           .evaluations = history_.evaluations()};
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
  return {};
}

SaveResult Checkpoints::on_published(Turn& turn, ViewId checkpoint, const Result<void>& result,
                                     bool stopping) {
  if (saving_.state != Saving::State::kPublishing || checkpoint != saving_.id) return {};
  if (!result) return {SaveEvent::kFailed, result.error().what};
  published_best_ = saving_best_;
  kept_.clear();  // the others may be removed
  if (published_best_.checkpoint != ViewId{}) kept_ = {published_best_};
  choose_best();  // the History may have lost evaluations since the checkpoint began
  const bool builds = std::any_of(saving_.chains.begin(), saving_.chains.end(),
                                  [](const auto& chain) { return chain.size() > 1; });
  newest_ = {saving_.id, saving_.folder, std::move(saving_.chains)};
  const uint32_t sealed_epochs = saving_.sealed_epochs;
  history_.seal(sealed_epochs, saving_partial_epoch_);
  const uint64_t bytes = saving_.bytes();
  saved_since_stop_ = stopping;
  turn.log(turn.event("published")
               .add("term", checkpoint.term)
               .add("n", checkpoint.n)
               .add("sealed_epochs", sealed_epochs)
               .add("bytes", bytes)
               .add("whole", !builds)
               .add("rows", saving_.rows));
  turn.emit(CheckpointDone{.checkpoint = saving_.id,
                           .base = builds ? saving_.base : ViewId{},
                           .folder = saving_.folder,
                           .sealed_epochs = sealed_epochs,
                           .rows = saving_.rows,
                           .bytes = bytes});
  if (sealed_epochs > 0) {
    for_each_owner(members_, ownership_.view(), [&](uint32_t, const Member& member) {
      turn.send(member, wire::Sealed{sealed_epochs});
    });
  }
  saving_.end();
  return {SaveEvent::kPublished, {}};
}

std::string Checkpoints::fail(Turn& turn, const std::string& why) {
  std::string what = why.empty() ? "no reason given" : why;
  if (saving_.under_way()) {
    defended(Defence::kChiefSaveFailed);
    turn.log(turn.event("save_failed").add("n", saving_.id.n).add("why", what));
    turn.emit(Notice{NoticeLevel::kError, str("checkpoint ", saving_.id, " failed: ", what)});
    schedule_.failed(turn.now_ns());
  }
  saving_.end();
  return what;
}

void Checkpoints::abandon(Turn& turn, const std::string& why) {
  if (saving_.state != Saving::State::kWriting) return;
  defended(Defence::kChiefSaveAbandoned);
  turn.log(turn.event("save_abandoned").add("n", saving_.id.n).add("why", why));
  saving_.end();
  schedule_.want();
}

std::optional<Error> Checkpoints::on_damage(Turn& turn, const Member& member,
                                            const wire::Adopted& adopted, bool in_use) {
  // A read error of the disk does not prove that the files are damaged. The job can be run again.
  const bool files_are_bad = is_damage(adopted.code) && adopted.code != ErrorCode::kIo;
  Error error{files_are_bad ? ErrorCode::kBadData : adopted.code,
              str(member.full_name(), " could not restore its partitions: ", adopted.error),
              newest_.folder};
  if (newest_.images.empty() || !is_damage(adopted.code)) return error;
  error.hint =
      str("no other checkpoint is complete; restore the folder, or ",
          config_.mode == wire::Purpose::kTrain ? "start a new run with --fresh"
                                                : "repeat the command if the run is training");
  if (!config_.job.train.checkpoint.fall_back) {
    error.hint =
        "restore the folder, or set train.checkpoint.fall_back = true to resume from an older, "
        "complete checkpoint";
    return error;
  }
  // The results of an evaluation so far come from this checkpoint.
  if (in_use) return error;
  turn.log(turn.event("damaged")
               .add("term", newest_.checkpoint.term)
               .add("n", newest_.checkpoint.n)
               .add("who", member.name())
               .add("why", adopted.error));
  defended(Defence::kChiefDamage);
  damage_ = std::move(error);
  turn.emit(FindOlder{newest_.checkpoint});
  return std::nullopt;
}

void Checkpoints::fall_back_to(Turn& turn, ResumeState& older, const std::string& damage,
                               bool some) {
  if (older.checkpoint > newest_.checkpoint) {  // only a pass without training looks for one
    turn.notice(NoticeLevel::kInfo,
                str("the run has removed checkpoint ", newest_.checkpoint,
                    " while it was being read; checkpoint ", older.checkpoint, " is used"));
  } else {
    turn.notice(
        NoticeLevel::kWarning,
        str("checkpoint ", newest_.checkpoint, " is damaged: ", damage, "; ",
            some ? "these partitions are restored from" : "all partitions are restored from",
            " checkpoint ", older.checkpoint));
  }
  newest_ = {older.checkpoint, std::move(older.folder), std::move(older.images)};
  kept_ = older.kept;
  published_best_ = older.best;
  choose_best();
  schedule_.want();  // so that the newest checkpoint is whole again
}

}  // namespace downpour::chief
