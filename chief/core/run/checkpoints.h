// Checkpoints: the checkpoint that is written while the job continues, the newest published one,
// and the one with the best evaluation. A checkpoint has an image of every partition. It is
// published, and thereby exists, as soon as its manifest is written. The epochs that it holds
// completely are then *sealed*.
//
// A *partial epoch* is the epoch inside which `train.steps` ends the job. Its *account* has the
// counts of the shards that have ended, and of their records.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chief/core/cluster/ownership.h"
#include "chief/core/cluster/restore_point.h"
#include "chief/core/run/history.h"
#include "chief/core/run/saving.h"
#include "chief/core/turn.h"

namespace downpour::chief {

/// What a reply or a result means for the checkpoint that is being written.
enum class SaveEvent : uint8_t {
  kNone,
  kPublished,
  kFailed,  // Checkpoints::fail() must follow
  // An image holds more or fewer ended shards of the partial epoch than the account, or a shard of
  // it that was begun and has not ended. The account is void, and a reconciliation must follow.
  kPartialEpochGrew,
};
struct SaveResult {
  SaveEvent event = SaveEvent::kNone;
  std::string why;  // kFailed: the reason
};

/// Begins, publishes and abandons checkpoints; at most one is written at a time. When a checkpoint
/// is published, the class records in History which epochs are sealed.
class Checkpoints {
 public:
  Checkpoints(const ChiefConfig& config, Membership& members, const Ownership& ownership,
              History& history);

  bool under_way() const { return saving_.under_way(); }
  bool publishing() const { return saving_.state == Saving::State::kPublishing; }
  /// Returns the folder of the current checkpoint, or of the last one.
  const std::string& folder() const { return saving_.folder; }
  /// Returns the Save requests of the current checkpoint that are not answered yet.
  Outbox& outbox() { return saving_.outbox; }
  /// Returns the newest published checkpoint; without images if there is none.
  const RestorePoint& newest() const { return newest_; }
  /// Returns the model that the newest manifest names as the best one.
  const KeptModel& best() const { return published_best_; }
  /// Chooses the best model of those that earlier chiefs have kept, by the rule of this job and the
  /// evaluations of the History. To be called when work begins, and after the History has lost
  /// evaluations.
  void choose_best();
  /// Returns true if the partitions now hold variables with a better evaluation than the best
  /// model, and this chief has not failed to publish their checkpoint. Training must then wait for
  /// the checkpoint.
  bool waits_for_best() const;
  /// Returns true if a checkpoint was published after the stop request.
  bool saved_since_stop() const { return saved_since_stop_; }

  /// Starts the intervals of `train.checkpoint.every`. `steps` is the number of batches that were
  /// trained in this run so far.
  void start(const Turn& turn, uint64_t steps) { schedule_.start(turn.now_ns(), steps); }
  /// Requests a checkpoint, which begins as soon as possible.
  void want() { schedule_.want(); }
  /// Returns true if a requested checkpoint has not begun yet.
  bool wanted() const { return schedule_.wanted(); }
  /// Returns true if a checkpoint must begin now: it was requested, an interval is over, or the
  /// pause after a failed checkpoint is over.
  bool due(const Turn& turn, uint64_t steps) const { return schedule_.due(turn.now_ns(), steps); }
  /// Returns true if the ps take too long to write their images. The writing of the manifest has no
  /// time limit, because the manifest may still appear.
  bool overdue(const Turn& turn) const;

  /// Asks all owners to write their images. Requires that no checkpoint is being written.
  /// `at_rest`: no shard is leased; only then can the images hold exactly the best variables.
  /// `step`: in synchronous training, the next step of all partitions; otherwise 0.
  void begin(Turn& turn, uint64_t steps, bool at_rest, uint64_t step);
  /// Handles the answer of an owner: its images are written, or could not be written. The last
  /// answer begins the writing of the manifest.
  SaveResult on_saved(Turn& turn, const Member& member, wire::Saved&& saved);
  /// Handles the result of PublishManifest. `stopping`: a stop was requested.
  SaveResult on_published(Turn& turn, ViewId checkpoint, const Result<void>& result, bool stopping);
  /// Ends the current checkpoint because it has failed. Does nothing if none is being written.
  /// Training continues, and the epochs stay unsealed until the next checkpoint. Returns `why` for
  /// messages, or "no reason given" if it is empty.
  std::string fail(Turn& turn, const std::string& why);
  /// Withdraws the request for a checkpoint and starts the intervals anew, so that no checkpoint is
  /// due.
  void stop_schedule(const Turn& turn, uint64_t steps) { schedule_.begun(turn.now_ns(), steps); }
  /// Abandons the checkpoint if its images are still being written, because the owners have
  /// changed. The next one begins as soon as possible. A checkpoint whose images have all arrived
  /// continues, because only its manifest is missing, and lost partitions can be restored from it.
  void abandon(Turn& turn, const std::string& why);
  /// Drops the current checkpoint, because the job ends.
  void drop() { saving_.end(); }
  /// Records that the checkpoint of the best variables has failed, so that training does not wait
  /// for it any more.
  void lose_best() { best_epochs_lost_ = history_.epochs_trained(); }

  /// Handles the answer of a ps core that could not restore its partitions. If the newest
  /// checkpoint is damaged and `train.checkpoint.fall_back` allows it, asks the shell for the
  /// newest undamaged checkpoint before it, and returns nothing. Otherwise returns the error that
  /// fails the job. `in_use`: an evaluation or prediction has begun with the variables of the
  /// newest checkpoint. An older one must not replace it then, so the job fails.
  std::optional<Error> on_damage(Turn& turn, const Member& member, const wire::Adopted& adopted,
                                 bool in_use);
  /// Returns and clears the error of the damaged checkpoint. Returns nothing if the chief is not
  /// looking for an older checkpoint.
  std::optional<Error> take_damage() { return std::exchange(damage_, std::nullopt); }
  /// Makes `older` the newest checkpoint; its `images` and `folder` are moved from (std::move).
  /// Requests another checkpoint. `some`: only the lost partitions are restored from `older`. It
  /// only selects the text of the message to the user.
  void fall_back_to(Turn& turn, ResumeState& older, const std::string& damage, bool some);

 private:
  bool holds_better() const;
  ViewId base() const;
  Result<void> chain(const std::vector<wire::ImageRef>& images);
  SaveResult publish(Turn& turn);

  const ChiefConfig& config_;
  Membership& members_;
  const Ownership& ownership_;
  History& history_;
  Saving saving_;
  bool saving_partial_epoch_ = false;  // the current checkpoint holds all of the partial epoch
  KeptModel saving_best_;              // the best model when the current checkpoint began
  SaveSchedule schedule_;
  bool saved_since_stop_ = false;
  RestorePoint newest_;
  std::vector<KeptModel> kept_;    // models that may be the best one
  KeptModel best_;                 // one of kept_, which the next manifest names
  KeptModel published_best_;       // as in the newest manifest
  uint32_t best_epochs_lost_ = 0;  // trained epochs of the model whose checkpoint failed; 0: none
  std::optional<Error> damage_;    // of the newest checkpoint, while an older one is sought
};

}  // namespace downpour::chief
