// Freezing: partitions of a ps core that are frozen while they move to another core.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ps/core/bits.h"
#include "ps/core/events.h"
#include "ps/core/partition.h"
#include "ps/core/session.h"
#include "ps/core/turn.h"

namespace downpour::ps {

/// Frozen partitions are not served until a view names their owner. If their images cannot be
/// handed out, they are served again at once.
class Freezing {
 public:
  /// Keeps the references.
  Freezing(const PsConfig& config, Partitions& partitions, const Session& session)
      : config_(config), partitions_(partitions), session_(session) {}

  /// Freezes the partitions and hands out their images, or answers a repeated request.
  void on_freeze(const wire::Envelope& envelope, const wire::Freeze& freeze, Turn& turn);
  /// Answers the Freeze with this ownership generation: with the images, or with the error.
  void on_exported(ViewId ownership_generation, Result<std::vector<wire::ImageRef>> images,
                   Bytes inlined, Turn& turn);
  /// Ends the moves that are not newer than `view`, the newest view. If the view names this core as
  /// owner of a partition, the core serves it again, under the ownership generation in the view. (A
  /// core that loaded the images of a cancelled move holds them under an older generation.) Adds
  /// the partitions of other owners to `lost`; the caller drops them.
  void settle(const wire::View& view, Bits& lost, Turn& turn);

 private:
  struct Move {
    ViewId ownership_generation;
    RequestId request{};
    std::string folder;
    Bits parts;
    std::optional<wire::Frozen> done;
    Bytes inlined;
  };

  const PsConfig& config_;
  Partitions& partitions_;
  const Session& session_;
  std::vector<Move> moves_;
};

}  // namespace downpour::ps
