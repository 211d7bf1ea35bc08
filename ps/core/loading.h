// Loading: partitions that a ps core adopts, empty or from images, and partitions that it drops.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/core/bits.h"
#include "ps/core/commits.h"
#include "ps/core/events.h"
#include "ps/core/handles.h"
#include "ps/core/partition.h"
#include "ps/core/ps_stats.h"
#include "ps/core/row_memory.h"
#include "ps/core/saving.h"
#include "ps/core/session.h"
#include "ps/core/staging.h"
#include "ps/core/turn.h"

namespace downpour::ps {

/// Adopts all partitions of a request or none of them: if an image cannot be read, those that were
/// adopted before it are dropped again. Each change of the partitions drops all handles, fragments
/// and staged parts, because they are valid only for the partitions at their time. A request that
/// changes nothing keeps them, because the chief may be committing a step of staged parts.
class Loading {
 public:
  /// Keeps the references.
  Loading(const PsConfig& config, Partitions& partitions, const Session& session, RowMemory& memory,
          Saving& saving, Handles& handles, Staging& staging, Commits& commits, PsStats& stats)
      : config_(config),
        partitions_(partitions),
        session_(session),
        memory_(memory),
        saving_(saving),
        handles_(handles),
        staging_(staging),
        commits_(commits),
        stats_(stats) {}

  /// Adopts partitions, or has their images read first. `inlined`: the images, if they came with
  /// the message.
  void on_adopt(const wire::Envelope& envelope, const wire::Adopt& adopt, const Bytes& inlined,
                Turn& turn);
  /// Adopts partitions from the images of Load effect `id`, or reports why they cannot be read.
  /// `more` means that others follow.
  void on_loaded(uint64_t id, Result<std::vector<checkpoint::PartitionImage>> images, bool more,
                 Turn& turn);
  /// Removes from all requests the partitions that the newest view does not give to this core under
  /// the request's generation.
  void on_view(const wire::View& view);
  /// Drops those of `parts` that the core owns.
  void release(const Bits& parts);

 private:
  /// Partitions that wait for their images.
  struct Adoption {
    uint64_t id = 0;
    RequestId request{};
    ViewId ownership_generation;
    uint32_t sealed_epochs = 0;
    std::vector<wire::QuarantineMarker> markers;
    bool markers_known = true;
    uint64_t plan_hash = 0;
    Bits parts;   // all requested partitions
    Bits wanted;  // to be adopted: not held, and not taken away by a view or another request
    Bits has_image;
    Bits taken;  // those of `wanted` whose images were adopted so far
  };

  Result<void> take_images(Adoption& adoption,
                           const std::vector<checkpoint::PartitionImage>& images, bool more);
  void drop_pushes();

  const PsConfig& config_;
  Partitions& partitions_;
  const Session& session_;
  RowMemory& memory_;
  Saving& saving_;
  Handles& handles_;
  Staging& staging_;
  Commits& commits_;
  PsStats& stats_;
  std::vector<Adoption> adoptions_;
  uint64_t next_load_id_ = 1;
};

}  // namespace downpour::ps
