// Saving: copies the partitions of a ps core for a checkpoint, a few at a time, while all are
// served.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ps/core/bits.h"
#include "ps/core/events.h"
#include "ps/core/partition.h"
#include "ps/core/session.h"
#include "ps/core/turn.h"

namespace downpour::ps {

/// The checkpoint in progress, and the published images that the next ones may build on.
class Saving {
 public:
  /// Keeps the references.
  Saving(const PsConfig& config, Partitions& partitions, const Session& session)
      : config_(config), partitions_(partitions), session_(session), bases_(partitions.count()) {}

  /// Begins a checkpoint, or answers a repeated request.
  void on_save(const wire::Envelope& envelope, const wire::Save& save, Turn& turn);
  /// Returns whether continue_copying() must be called.
  bool copies() const;
  /// Returns whether some partition still has to be copied.
  bool waits() const { return current_ && !session_.stopped() && !none(current_->waiting); }
  /// Copies the next partitions.
  void continue_copying(Turn& turn);
  /// Reuses the memory of an image that has been written.
  void on_image_written(ViewId checkpoint, checkpoint::PartitionImage&& image);
  /// Answers the Save of `checkpoint`: all images are written, or one could not be written.
  void on_stored(ViewId checkpoint, Result<std::vector<wire::ImageRef>> images, Turn& turn);
  /// Forgets the images of partitions that this core has dropped.
  void on_dropped(const Bits& parts);

 private:
  /// The checkpoint in progress. A newer Save replaces it. It fails if a partition is dropped
  /// before it has been copied.
  struct Current {
    ViewId checkpoint;
    ViewId base;
    uint32_t partial_epoch = 0, partial_shards = 0;  // from the Save
    std::string folder;
    RequestId request{};
    Bits parts;    // partitions of the checkpoint
    Bits waiting;  // of the parts: not copied yet
    uint64_t rows = 0;
    uint64_t unwritten_bytes = 0;  // of the copied images
    bool beyond_partial_epoch = false;
    uint32_t sealed_epochs = 0;  // the most of any image
  };
  /// An image in a published checkpoint. The tables mark the rows touched since then.
  struct Base {
    ViewId checkpoint;
    uint64_t checksum = 0;
  };
  /// Copies for a checkpoint that may be published or not. The next Save reports which.
  struct Unpublished {
    ViewId checkpoint;
    Bits parts;                          // copied, and neither dropped nor restored since
    std::vector<wire::ImageRef> images;  // all images, after they have been written
  };

  void answer(Result<std::vector<wire::ImageRef>> images, Turn& turn);
  void settle_snapshots(ViewId published);

  const PsConfig& config_;
  Partitions& partitions_;
  const Session& session_;
  std::optional<Current> current_;
  std::vector<Base> bases_;  // by partition; empty until an image is published
  std::optional<Unpublished> unpublished_;
  std::vector<checkpoint::PartitionImage> spare_images_;  // reused for the next copies
  std::optional<wire::Saved> saved_;                      // the last answer, for a repeated Save
};

}  // namespace downpour::ps
