// History: the epochs of the run: how many are complete and sealed, their accounts and their
// evaluations.
#pragma once

#include <cstdint>
#include <vector>

#include "chief/core/events.h"
#include "chief/core/work/completion.h"

namespace downpour::chief {

/// Returns true if every epoch of the job is evaluated.
bool evaluates(const ChiefConfig& config);

/// Counts epochs from 0. An epoch is complete when a round has found all its shards at every
/// partition, and sealed when a published checkpoint holds it. With `train.steps` the newest
/// account may cover a partial epoch, which ends the job.
class History {
 public:
  /// Begins with the epochs of config.resume.
  explicit History(const ChiefConfig& config);

  /// Returns the current epoch.
  uint32_t epoch() const { return epoch_; }
  uint32_t complete() const { return complete_; }
  uint32_t sealed() const { return sealed_; }
  /// Partitions may hold batches of the epochs below this number.
  uint32_t begun() const { return begun_; }
  /// Returns true if the newest account covers a partial epoch.
  bool partial() const { return partial_; }
  /// Returns true if the newest checkpoint holds the partial epoch completely.
  bool partial_saved() const { return partial_saved_; }
  const std::vector<EpochAccount>& accounts() const { return accounts_; }
  /// Returns the number of accounts that are from earlier starts of the run.
  uint32_t resumed() const { return resumed_; }
  const std::vector<Evaluation>& evaluations() const { return evaluations_; }

  /// Returns the number of complete epochs, plus 1 if the job ended inside a partial epoch.
  uint32_t epochs_trained() const { return complete_ + (partial_ ? 1 : 0); }
  /// Returns the batches of all epochs that have an account.
  uint64_t steps_accounted() const;
  /// Returns the same as `train.steps` counts it: in batches, or in steps of all replicas.
  uint64_t steps_counted() const;
  /// Returns true if the job has all the training that it asks for.
  bool trained() const;
  /// Returns true if the trained epochs are evaluated, or are never evaluated.
  bool evaluated() const;
  /// Returns true if the partitions hold exactly the variables of the newest evaluation: the
  /// trained epochs are evaluated, and no shard of another epoch has begun.
  bool at_evaluation() const;
  /// Returns true if the job ends with the state that a round has found: enough steps, and every
  /// shard that was begun has ended.
  bool ends_with(const RoundOutcome& outcome) const;

  /// Records that partitions may hold batches of the current epoch from now on.
  void begin_epoch();
  /// Records that no partition holds anything of the current epoch.
  void unbegin_epoch() { begun_ = epoch_; }
  /// Makes the first epoch that is not complete the current one.
  void advance() { epoch_ = complete_; }
  /// Adds the account of the current epoch, which is complete or `partial`.
  void add(EpochAccount account, bool partial);
  /// Returns an identity for the next evaluation, which no chief of this run has used before.
  uint32_t next_evaluation() { return ++last_evaluation_; }
  void add(Evaluation evaluation);
  /// Drops the account of a partial epoch, because more steps are wanted or a partition was
  /// restored. Returns false if there is none.
  bool drop_partial();
  /// Returns to an epoch that was complete and is not any more. Its account, its evaluation, and
  /// everything that followed are void.
  void roll_back_to(uint32_t epoch);

  /// Records a published checkpoint that holds this many epochs, and the partial epoch if
  /// `partial`.
  void seal(uint32_t epochs, bool partial);
  /// Records that the newest whole checkpoint is an older one, which holds this many epochs.
  void unseal(uint32_t epochs) { sealed_ = epochs; }
  /// Continues, before any work has begun, from an older checkpoint.
  void restart_from(uint32_t sealed_epochs) { complete_ = epoch_ = sealed_epochs; }
  /// Replaces, before any work has begun, the results by those of an older checkpoint.
  void replace_results(ResumeState&& older);
  /// Limits the number of accounts from earlier starts.
  void limit_resumed(size_t accounts);

 private:
  const ChiefConfig& config_;
  uint32_t epoch_ = 0;
  uint32_t complete_ = 0;  // decreases if partitions that are restored lack an epoch
  uint32_t sealed_ = 0;
  uint32_t begun_ = 0;
  bool partial_ = false;
  bool partial_saved_ = false;
  std::vector<EpochAccount> accounts_;
  uint32_t resumed_ = 0;
  std::vector<Evaluation> evaluations_;
  uint32_t last_evaluation_ = 0;
};

}  // namespace downpour::chief
