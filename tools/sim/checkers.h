// Checkers: check the invariants I1 to I13 of a simulated run from outside the code under test.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "shared/checkpoint/image.h"
#include "shared/checkpoint/manifest.h"
#include "tools/sim/applied_order.h"
#include "tools/sim/oracle.h"
#include "tools/sim/world.h"

namespace downpour::sim {

/// Checks a world while it runs. Construct it before World::run(). A broken invariant ends the run.
/// If `oracle` is null, the correct values of the job are unknown and are not checked.
class Checkers {
 public:
  Checkers(World& world, const Oracle* oracle);

 private:
  using CoreId = std::pair<ProcessNumber, uint32_t>;  // process, index of the core in it
  /// A ps core.
  struct Core {
    CoreId id;
    std::string name;
    Incarnation incarnation{};
    const ps::PsCore* core = nullptr;
    const ps::Partitions& partitions() const { return core->partitions(); }
  };
  /// The batches that a partition of a core has applied, derived from the messages to the core.
  struct Holding {
    ViewId ownership_generation;
    uint64_t version = 0;
    AppliedOrder::Node node = 0;
    std::vector<uint64_t> steps;  // per batch
  };

  void on_message(Process& to, const wire::Message& message);
  void on_turn(Process& process);
  void on_event(const Process& chief, const std::string& line);
  void on_end(const chief::Finish& finish);
  static std::vector<Core> cores_of(const Process& process);
  void on_core_turn(const Core& core);

  /// Updates the order in which a core has applied batches. `last` is the batch of the last push,
  /// if any.
  void follow(const Core& core, std::optional<BatchId> last);
  std::optional<BatchId> last_push_of(ProcessNumber process) const;
  Holding find_holding(const Core& core, PartitionId p) const;

  /// I1, I3: check that the values of a ps follow from its watermarks, for all partitions that it
  /// owns or for the rows of one batch.
  void check_values(const Core& core);
  void check_batch(const Core& core, BatchId batch);
  /// Returns the steps that a partition's values must contain, from its watermarks and its order.
  StepOf steps_of(const Core& core, PartitionId p) const;
  /// Describes the first wrong row of an image; empty if all rows are right.
  std::string wrong_row(const checkpoint::PartitionImage& image, const StepOf& step_of) const;
  std::string describe(const Oracle::Row& row, size_t element, float stored, double expected,
                       const StepOf& step_of) const;
  /// I4: checks that no owner holds less than the newest published checkpoint.
  void check_floor(const Core& core);
  /// I9: checks that a synchronous step has the next batch of every replica, in the order of the
  /// replica's shards, whatever has happened before.
  void check_commit(ViewId view, const wire::Commit& commit);
  /// I9 with backups: checks that a step has the next batch of each of its shards, and of enough
  /// shards, and that each step is applied with one set of batches.
  void check_step_with_backups(ViewId view, const wire::Commit& commit);
  void check_staleness(const std::string& name, const worker::WorkerCore& core);
  void check_floor_rise(ProcessNumber chief, const chief::ChiefCore& core);
  /// I5: check that views never go back, and that a partition has one owner per ownership
  /// generation.
  void check_view(const CoreId& id, const std::string& name, ViewId view);
  void check_owners(const Core& core);
  bool quarantined(const ps::Partitions& partitions, PartitionId p, BatchId batch) const;
  bool counts(const ps::Partitions& partitions, PartitionId p, BatchId batch) const;
  /// I2: checks that each epoch is sealed without the same batches at every partition, and stores
  /// these batches.
  void take_quarantined(const std::vector<checkpoint::PartitionImage>& images,
                        uint32_t sealed_epochs);
  ViewId views_latest() const;
  struct Published {
    checkpoint::Manifest manifest;
    std::vector<checkpoint::PartitionImage> images;
  };
  std::optional<Published> newest_whole(Storage& storage);
  /// I7, I8: checks that the newest manifest and its images are whole, and that their values follow
  /// from their watermarks.
  void read_published(ViewId told);
  bool batches_are_known() const;
  void check_image(const checkpoint::PartitionImage& image);
  bool counts(const checkpoint::PartitionImage& image, BatchId batch) const;
  uint64_t records_in(const checkpoint::PartitionImage& image) const;
  /// I1, I2: the checks at the end of the job.
  void check_account(const chief::Finish& finish);
  void check_metrics(const chief::EpochAccount& epoch);
  void check_evaluations(const chief::JobSummary& summary);
  void check_model(const chief::JobSummary& summary);
  void check_sums_of_keys(const std::vector<checkpoint::PartitionImage>& images);

  World& world_;
  const Oracle* oracle_;
  AppliedOrder order_;                                              // if the order matters
  std::map<CoreId, std::vector<std::optional<Holding>>> holdings_;  // per partition
  std::map<ProcessNumber, BatchId> last_push_;                      // pushes not yet followed
  std::map<CoreId, ViewId> views_;
  std::map<ProcessNumber, std::vector<BatchId>> touched_;  // batches pushed during this turn
  std::map<CoreId, int64_t> checked_ns_;                   // time of the last full check
  std::map<std::pair<uint32_t, ViewId>, CoreId> owners_;   // by partition and generation
  uint64_t staleness_floor_ = 0;  // the newest one that a chief has published
  /// With backups: a step as it was committed. A rollback drops steps from the end.
  struct CommittedStep {
    ViewId view;
    std::vector<wire::StepPart> parts;
  };
  std::vector<CommittedStep> committed_;
  ViewId commit_view_;     // newest view of a Commit
  bool returned_ = false;  // steps were committed anew after a rollback
  struct ChiefClocks {
    using Lease = std::tuple<Incarnation, uint32_t, uint32_t>;  // worker, shard, attempt
    uint64_t floor = 0;
    std::set<Lease> leases;  // held after the last turn
  };
  std::map<ProcessNumber, ChiefClocks> chief_clocks_;
  std::vector<uint64_t> floor_;  // records applied in the published checkpoint, per partition
  ViewId published_;             // newest published checkpoint
  std::set<ViewId> broken_;      // checkpoints that are not whole because of damage
  uint32_t sealed_epochs_ = 0;   // by the newest published checkpoint
  std::set<BatchId> quarantined_batches_;  // of the sealed epochs
  bool round_open_ = false, ownership_changed_ = false;
};

}  // namespace downpour::sim
