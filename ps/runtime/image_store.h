// ImageStore: writes a core's images into its file of a checkpoint, off the core's thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ps/core/events.h"
#include "shared/checkpoint/partition_writer.h"
#include "shared/env/storage.h"

namespace downpour::ps {

/// Used by one thread at a time. The unfinished file is dropped when an image of a newer checkpoint
/// arrives, and when the store is destroyed.
class ImageStore {
 public:
  /// Borrows everything but the name.
  ImageStore(Storage& storage, const std::vector<TableSpec>& tables, std::string file_name)
      : storage_(storage), tables_(tables), file_name_(std::move(file_name)) {}

  /// Writes the image. Returns the result for on_stored() with the last image and with the first
  /// failure, otherwise nothing.
  std::optional<Result<std::vector<wire::ImageRef>>> write(Store& store);

 private:
  Result<void> add(Store& store);

  Storage& storage_;
  const std::vector<TableSpec>& tables_;
  std::string file_name_;
  ViewId checkpoint_;  // in progress or failed
  std::optional<checkpoint::ImageFileWriter> writer_;
};

}  // namespace downpour::ps
