// Checkers: the invariants I1 ... I12 of a simulated run, from outside of the code under test.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shared/checkpoint/image.h"
#include "shared/checkpoint/manifest.h"
#include "tools/sim/applied_order.h"
#include "tools/sim/oracle.h"
#include "tools/sim/world.h"

namespace downpour::sim {

/// Watches a world from before its run() on; whatever is broken ends the run. `oracle` may be null:
/// then what the job's values must be is not known, and they are not checked.
class Checkers {
 public:
  Checkers(World& world, const Oracle* oracle);

 private:
  using CoreId = std::pair<ProcessNumber, uint32_t>;  // process, core of it
  /// A core of a ps.
  struct Core {
    CoreId id;
    std::string name;
    Incarnation incarnation{};
    const ps::PsCore* core = nullptr;
    const ps::Partitions& partitions() const { return core->partitions(); }
  };
  /// What a partition of a core has applied, as far as its messages were seen.
  struct Holding {
    ViewId ownership_generation;
    uint64_t version = 0;
    AppliedOrder::Node node = 0;
    std::vector<uint64_t> steps;  // by batch
  };

  void on_message(Process& to, const wire::Message& message);
  void on_turn(Process& process);
  void on_event(const Process& chief, const std::string& line);
  void on_end(const chief::Finish& finish);
  static std::vector<Core> cores_of(const Process& process);
  void on_core_turn(const Core& core);

  /// Follows the order in which a core applies batches. `last` is the batch of the last push, if
  /// any.
  void follow(const Core& core, std::optional<BatchId> last);
  std::optional<BatchId> last_push_of(ProcessNumber process) const;
  Holding find_holding(const Core& core, PartitionId p) const;

  /// I1, I3: the values of a ps are what its watermarks say, for all it owns or for one batch.
  void check_values(const Core& core);
  void check_batch(const Core& core, BatchId batch);
  /// The steps behind a partition's values, as its watermarks and its order say.
  StepOf steps_of(const Core& core, PartitionId p) const;
  /// What is wrong with the rows of an image; empty: nothing.
  std::string wrong_row(const checkpoint::PartitionImage& image, const StepOf& step_of) const;
  std::string describe(const Oracle::Row& row, size_t element, float stored, double expected,
                       const StepOf& step_of) const;
  /// I4: what was published is never lost by the owner.
  void check_floor(const Core& core);
  /// I5: views do not go down, one owner a partition and view.
  void check_view(const CoreId& id, const std::string& name, ViewId view);
  void check_owners(const Core& core);
  bool quarantined(const ps::Partitions& partitions, PartitionId p, BatchId batch) const;
  bool counts(const ps::Partitions& partitions, PartitionId p, BatchId batch) const;
  /// I2: what an epoch was sealed without is the same at every partition.
  void take_quarantined(const std::vector<checkpoint::PartitionImage>& images,
                        uint32_t sealed_epochs);
  ViewId views_latest() const;
  struct Published {
    checkpoint::Manifest manifest;
    std::vector<checkpoint::PartitionImage> images;
  };
  std::optional<Published> newest_whole(Storage& storage);
  /// I7, I8: the newest manifest and its images are whole and hold what their watermarks say.
  void read_published(ViewId told);
  bool batches_are_known() const;
  void check_image(const checkpoint::PartitionImage& image);
  bool counts(const checkpoint::PartitionImage& image, BatchId batch) const;
  uint64_t records_in(const checkpoint::PartitionImage& image) const;
  /// I1, I2 at the end.
  void check_account(const chief::Finish& finish);
  void check_metrics(const chief::EpochAccount& epoch);
  void check_evaluations(const chief::JobSummary& summary);
  void check_model(const chief::JobSummary& summary);
  void check_sums_of_keys(const std::vector<checkpoint::PartitionImage>& images);

  World& world_;
  const Oracle* oracle_;
  AppliedOrder order_;                                              // only where it matters
  std::map<CoreId, std::vector<std::optional<Holding>>> holdings_;  // by partition
  std::map<ProcessNumber, BatchId> last_push_;                      // not yet looked at what it did
  std::map<CoreId, ViewId> views_;
  std::map<ProcessNumber, std::vector<BatchId>> touched_;  // batches whose parts came in this turn
  std::map<CoreId, int64_t> checked_ns_;
  std::map<std::pair<uint32_t, ViewId>, CoreId> owners_;  // of (partition, since)
  std::vector<uint64_t> floor_;  // by partition: records applied in the newest published checkpoint
  ViewId published_;
  std::set<ViewId> broken_;                // not whole, because they or their bases were damaged
  uint32_t sealed_epochs_ = 0;             // by it
  std::set<BatchId> quarantined_batches_;  // of those
  bool round_open_ = false, ownership_changed_ = false;
};

}  // namespace downpour::sim
