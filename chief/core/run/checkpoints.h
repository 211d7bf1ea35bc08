// Checkpoints: the checkpoint that is written while the job continues, the newest published one,
// and the one with the best evaluation.
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
  kFailed,            // Checkpoints::fail() must follow
  kPartialEpochGrew,  // an image holds a shard of the partial epoch that its account lacks
};
struct SaveResult {
  SaveEvent event = SaveEvent::kNone;
  std::string why;  // kFailed: the reason
};

/// Begins, publishes and abandons checkpoints; at most one is written at a time. Stores in History
/// what a published one seals.
class Checkpoints {
 public:
  Checkpoints(const ChiefConfig& config, Membership& members, const Ownership& ownership,
              History& history);

  bool under_way() const { return saving_.under_way(); }
  bool publishing() const { return saving_.state == Saving::State::kPublishing; }
  /// Returns the folder of the current checkpoint, or of the last one.
  const std::string& folder() const { return saving_.folder; }
  /// Returns the requests of the current checkpoint.
  Outbox& outbox() { return saving_.outbox; }
  /// Returns the newest published checkpoint; without images if there is none.
  const RestorePoint& newest() const { return newest_; }
  /// Returns the checkpoint at the lowest evaluation loss; {0, 0} if there is none.
  ViewId best() const { return best_; }
  /// Returns true if the next checkpoint would hold the best variables, and none holds them yet.
  bool waits_for_best() const;
  /// Returns true if a checkpoint was published after the stop request.
  bool saved_since_stop() const { return saved_since_stop_; }

  /// Starts the intervals between checkpoints. `steps` are the batches of this run so far.
  void start(const Turn& turn, uint64_t steps) { schedule_.start(turn.now_ns(), steps); }
  /// Requests a checkpoint, which begins as soon as possible.
  void want() { schedule_.want(); }
  bool wanted() const { return schedule_.wanted(); }
  bool due(const Turn& turn, uint64_t steps) const { return schedule_.due(turn.now_ns(), steps); }
  /// Returns true if the ps take too long to write their images. A manifest that is being written
  /// may still appear, so it does not time out.
  bool overdue(const Turn& turn) const;

  /// Asks all owners to write their images. Requires that none is being written. `at_rest`: no
  /// shard is leased.
  void begin(Turn& turn, uint64_t steps, bool at_rest);
  SaveResult on_saved(Turn& turn, const Member& member, wire::Saved&& saved);
  /// Handles the result of PublishManifest. `stopping`: a stop was requested.
  SaveResult on_published(Turn& turn, ViewId checkpoint, const Result<void>& result, bool stopping);
  /// Ends a failed checkpoint, if one is being written. Training continues, and the epochs stay
  /// unsealed until the next one. Returns the reason for messages.
  std::string fail(Turn& turn, const std::string& why);
  /// Prevents that another checkpoint begins by itself.
  void stop_schedule(const Turn& turn, uint64_t steps) { schedule_.begun(turn.now_ns(), steps); }
  /// Abandons the checkpoint that is being written, because the owners have changed. The next one
  /// begins as soon as possible. When all images have arrived, the checkpoint is not abandoned:
  /// then lost partitions are restored from it.
  void abandon(Turn& turn, const std::string& why);
  /// Drops the current checkpoint, because the job ends.
  void drop() { saving_.end(); }
  /// Records that the checkpoint of the best variables failed.
  void lose_best() { best_epochs_lost_ = history_.epochs_trained(); }

  /// Handles an Adopted that reports a failure. Searches an older checkpoint, or returns the error
  /// that fails the job. `in_use`: results of the job depend on this checkpoint.
  std::optional<Error> on_damage(Turn& turn, const Member& member, const wire::Adopted& adopted,
                                 bool in_use);
  /// Returns the error of the damaged checkpoint, while an older one is searched, and ends the
  /// search.
  std::optional<Error> take_damage() { return std::exchange(damage_, std::nullopt); }
  /// Makes an older checkpoint the newest one. Takes its images and its folder out of `older`.
  /// `some`: only the lost partitions are restored from it.
  void fall_back_to(Turn& turn, ResumeState& older, const std::string& damage, bool some);

 private:
  ViewId base() const;
  Result<void> chain(const std::vector<wire::ImageRef>& images);
  SaveResult publish(Turn& turn);

  const ChiefConfig& config_;
  Membership& members_;
  const Ownership& ownership_;
  History& history_;
  Saving saving_;
  bool saving_partial_epoch_ = false;  // the current checkpoint holds the partial epoch completely
  bool saving_best_ = false;           // the current checkpoint holds exactly the best variables
  SaveSchedule schedule_;
  bool saved_since_stop_ = false;
  RestorePoint newest_;
  ViewId best_;
  uint32_t best_epochs_saved_ = 0;  // epochs trained in the best one, if this chief published it
  uint32_t best_epochs_lost_ = 0;   // best epochs whose checkpoint failed
  std::optional<Error> damage_;     // of a damaged checkpoint, while an older one is searched
};

}  // namespace downpour::chief
