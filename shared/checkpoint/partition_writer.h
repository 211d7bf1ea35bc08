// Writes partition images, one after the other, into one file of a checkpoint.
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
#include "shared/wire/messages.h"

namespace downpour::checkpoint {

/// What becomes of a file of images: kept for a time that may never come, or read at once by
/// another process.
enum class ImageUse : uint8_t { kKept, kReadAtOnce };

struct EncodedImages;

/// One file of one ps core, in the format of today (FORMAT.md): rows are written in the order in
/// which they come. Images may be added as they are copied out of their partitions, so that
/// no more than one need be held; the file has its name after finish(). Dropped before, it leaves
/// nothing behind.
class ImageFileWriter {
 public:
  /// Makes `folder` where it is missing. `tables` and `storage` must outlive the writer.
  static Result<ImageFileWriter> create(Storage& storage, const std::string& folder,
                                        const std::string& file_name,
                                        const std::vector<TableSpec>& tables,
                                        ImageUse use = ImageUse::kKept);
  /// The image's sizes must agree with the tables (DP_CHECK). After an error the file is given up.
  Result<void> add(const PartitionImage& image);
  /// One fsync, then the name. References in the order of the images.
  Result<std::vector<wire::ImageRef>> finish();
  /// The same without the fsync: for images that nobody needs after a crash.
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

/// Images one after the other in memory, as a file would hold them. `file_name` is what the
/// references call it.
struct EncodedImages {
  Bytes bytes;
  std::vector<wire::ImageRef> refs;
};
EncodedImages encode_images(std::span<const PartitionImage> images, const std::string& file_name,
                            const std::vector<TableSpec>& tables);

/// All of it in one call.
Result<std::vector<wire::ImageRef>> write_images(Storage& storage, const std::string& folder,
                                                 const std::string& file_name,
                                                 std::span<const PartitionImage> images,
                                                 const std::vector<TableSpec>& tables);

}  // namespace downpour::checkpoint
