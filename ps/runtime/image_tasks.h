// ImageTasks: stores, loads and hands out the images of a ps core, off the core's thread.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ps/core/events.h"
#include "ps/runtime/image_store.h"
#include "shared/env/background.h"
#include "shared/env/storage.h"

namespace downpour::ps {

/// An image is written. `stored`: the result of its checkpoint, with the last image or the first
/// failure.
struct ImageWritten {
  ViewId checkpoint;
  checkpoint::PartitionImage image;
  std::optional<Result<std::vector<wire::ImageRef>>> stored;
};
/// Images of Load effect `id`; `more` means that others follow.
struct ImagesLoaded {
  uint64_t id = 0;
  Result<std::vector<checkpoint::PartitionImage>> images;
  bool more = false;
};
/// The images of an Export effect are in a file, or in `inlined`.
struct ImagesExported {
  ViewId ownership_generation;
  Result<std::vector<wire::ImageRef>> images;
  Bytes inlined;
};
/// Finished work, for the core.
using ImageEvent = std::variant<ImageWritten, ImagesLoaded, ImagesExported>;

class ImageTasks {
 public:
  /// Keeps the references. `tables` may be filled in until begin().
  ImageTasks(Storage& storage, const std::vector<TableSpec>& tables,
             std::unique_ptr<Background> background)
      : storage_(storage), tables_(tables), background_(std::move(background)) {}
  ImageTasks(const ImageTasks&) = delete;
  ImageTasks& operator=(const ImageTasks&) = delete;

  /// Sets the name of this core's files in checkpoints. Call it before all functions below.
  void begin(const std::string& file_name);
  void store(Store&& store);
  /// Reads the images partition by partition. The core adopts one while the next are read.
  void load(Load&& load);
  /// Reads the next images, if the core has adopted enough of the earlier ones.
  void read_on();
  /// Reads the images that came with the message.
  ImagesLoaded read_inlined(const Load& load) const;
  /// Hands out images that move to another ps. Images of less than `inline_bytes_max` travel with
  /// the messages, without a file and without waiting for a thread. Larger ones are written to
  /// `file_name` without waiting for the disk, because the source keeps its copy until the target
  /// has read them. Returns nothing if next() returns the event later.
  std::optional<ImagesExported> hand_out(const Export& move, uint64_t inline_bytes_max,
                                         std::string file_name);
  void remove(const Discard& discard, std::string file_name);

  /// Collects the work that is done. Returns false if there is none.
  bool poll() { return background_->run_completions(); }
  /// Returns the next event, in the order of completion.
  std::optional<ImageEvent> next();

 private:
  struct Reading {
    uint64_t id = 0;
    std::string folder;
    std::vector<wire::ImageRef> images;
    size_t next = 0;
  };

  Result<std::vector<checkpoint::PartitionImage>> read_chain(
      const std::string& folder, const std::vector<wire::ImageRef>& chain) const;

  Storage& storage_;
  const std::vector<TableSpec>& tables_;
  std::unique_ptr<ImageStore> image_store_;  // used by background tasks
  std::deque<Reading> readings_;
  uint32_t read_ahead_ = 0;  // partitions read, or being read, and not yet adopted
  std::deque<ImageEvent> done_;

  std::unique_ptr<Background> background_;  // last member: its tasks use the others
};

}  // namespace downpour::ps
