// Checkers: the invariants I1 ... I12 of a simulated run, from outside of the code under test.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "shared/checkpoint/image.h"
#include "tools/sim/counter.h"
#include "tools/sim/world.h"

namespace downpour::sim {

/// Watches a world from before its run() on; whatever is broken ends the run. `oracle` may be null:
/// then the job is no counter model, and what its values must be is not known.
class Checkers {
 public:
  Checkers(World& world, const CounterOracle* oracle);

 private:
  void on_message(Process& from, Process& to, const wire::Message& message);
  void on_turn(Process& process);
  void on_event(const Process& chief, const std::string& line);
  void on_end(const chief::Finish& finish);

  /// I1, I3: the values of a ps are what its watermarks say, for all it owns or for one batch.
  void check_values(const Process& ps);
  void check_batch(const Process& ps, BatchId batch);
  void check_entry(const Process& ps, const CounterOracle::Entry& entry, float weight);
  /// I4: what was published is never lost by the owner.
  void check_floor(const Process& ps);
  /// I5: views do not go down, one owner a partition and view.
  void check_view(const Process& process, ViewId view);
  void check_owners(const Process& ps);
  bool given_up(const ps::Partitions& partitions, PartitionId p, BatchId batch) const;
  bool counts(const ps::Partitions& partitions, PartitionId p, BatchId batch) const;
  /// I2: what an epoch was sealed without is the same at every partition.
  void take_given_up(const std::vector<checkpoint::PartitionImage>& images, uint32_t sealed_epochs);
  ViewId views_latest() const;
  /// I7, I8: the newest manifest and its images are whole and hold what their watermarks say.
  void read_published(ViewId told);
  /// I1, I2 at the end.
  void check_account(const chief::Finish& finish);
  void check_model(const chief::JobSummary& summary);
  uint32_t weight_in_the_end(const checkpoint::PartitionImage& image, uint64_t key) const;

  World& world_;
  const CounterOracle* oracle_;
  std::map<ProcessNumber, ViewId> views_;
  std::map<ProcessNumber, std::vector<BatchId>> touched_;  // batches whose parts came in this turn
  std::map<ProcessNumber, int64_t> checked_ns_;
  std::map<std::pair<uint32_t, ViewId>, ProcessNumber> owners_;  // of (partition, since)
  std::vector<uint64_t> floor_;  // by partition: records applied in the newest published checkpoint
  ViewId published_;
  uint32_t sealed_epochs_ = 0;  // by it
  std::set<BatchId> given_up_;  // of those
  bool round_open_ = false, ownership_changed_ = false;
};

}  // namespace downpour::sim
