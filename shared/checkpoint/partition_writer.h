// Partition writer: writes partition images into one file of a checkpoint.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/checkpoint/image.h"
#include "shared/env/storage.h"
#include "shared/tensor/variables.h"
#include "shared/wire/member_messages.h"

namespace downpour::checkpoint {

/// The use of a file of images: kept for a recovery that may never happen, or read at once by
/// another process.
enum class ImageUse : uint8_t { kKept, kReadAtOnce };

struct EncodedImages;

/// Writes one file of one ps core in the current format (FORMAT.md). The order of rows is kept.
/// Images may be added while they are copied from their partitions, so that only one needs to be in
/// memory. The file gets its name in finish(). A writer that is destroyed before that leaves no
/// file.
class ImageFileWriter {
 public:
  /// Creates `folder` if it does not exist. `tables` and `storage` must outlive the writer.
  static Result<ImageFileWriter> create(Storage& storage, const std::string& folder,
                                        const std::string& file_name,
                                        const std::vector<TableSpec>& tables,
                                        ImageUse use = ImageUse::kKept);
  /// Appends an image. Its sizes must agree with the tables (DP_CHECK). After an error the file
  /// must be abandoned.
  Result<void> add(const PartitionImage& image);
  /// Calls fsync once, then gives the file its name. Returns references in the order of the images.
  Result<std::vector<wire::ImageRef>> finish();
  /// Does the same without fsync, for images that are useless after a crash.
  Result<std::vector<wire::ImageRef>> finish_volatile();

 private:
  friend EncodedImages encode_images(std::span<const PartitionImage> images,
                                     const std::string& file_name,
                                     const std::vector<TableSpec>& tables);
  ImageFileWriter(std::unique_ptr<OutputFile> file, std::string file_name,
                  const std::vector<TableSpec>& tables);
  Result<void> put(std::span<const uint8_t> bytes);
  Result<void> put_zeros(uint64_t end);
  Result<void> flush();

  std::unique_ptr<OutputFile> file_;
  std::string file_name_;
  const std::vector<TableSpec>* tables_;
  std::vector<uint8_t> buffer_;
  uint64_t position_ = 0;
  std::vector<wire::ImageRef> refs_;
};

/// Images in memory with the layout of a file. The references contain `file_name` as their file.
struct EncodedImages {
  Bytes bytes;
  std::vector<wire::ImageRef> refs;
};
EncodedImages encode_images(std::span<const PartitionImage> images, const std::string& file_name,
                            const std::vector<TableSpec>& tables);

/// Writes all images into one file in one call.
Result<std::vector<wire::ImageRef>> write_images(Storage& storage, const std::string& folder,
                                                 const std::string& file_name,
                                                 std::span<const PartitionImage> images,
                                                 const std::vector<TableSpec>& tables);

}  // namespace downpour::checkpoint
