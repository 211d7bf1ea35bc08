// Partition reader: reads partition images and rejects damaged ones, naming file and offset.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/image.h"
#include "shared/env/storage.h"
#include "shared/tensor/variables.h"
#include "shared/wire/member_messages.h"

namespace downpour::checkpoint {

/// Decodes one image and verifies all checksums. The result agrees with `tables`: all variables are
/// present, rows are complete, keys are unique and ascending, and dense blocks are inside their
/// variable. Two properties are not known here, so the importing partition checks them: that the
/// hashes of keys belong to it, and the number of slots of an optimizer.
///
/// `path` and `offset` (of the image in its file) are for messages. Errors: kBadData for any
/// flipped bit, truncation or contradiction; kUnsupported for an intact image of a later format.
Result<PartitionImage> decode_image(std::span<const uint8_t> bytes,
                                    const std::vector<TableSpec>& tables, const std::string& path,
                                    uint64_t offset);

/// Decodes the image that `ref` names among the bytes of encode_images(). Errors name `source`.
/// `ref` and the bytes may come from a peer.
Result<PartitionImage> image_among(std::span<const uint8_t> bytes, const wire::ImageRef& ref,
                                   const std::vector<TableSpec>& tables, const std::string& source);

/// Reads the image that `ref` names, completely or not at all. `ref` may come from a peer. The
/// image is in `folder`, or in the neighbouring folder of another checkpoint if `ref` names one.
Result<PartitionImage> read_image(Storage& storage, const std::string& folder,
                                  const wire::ImageRef& ref, const std::vector<TableSpec>& tables);

/// Checks that the image exists and that all its bytes match their checksums, without decoding it.
Result<void> verify_image(Storage& storage, const std::string& folder, const wire::ImageRef& ref);
/// Checks only its header and section table, with one or two small reads.
Result<void> verify_image_head(Storage& storage, const std::string& folder,
                               const wire::ImageRef& ref);

/// Reads the state of a partition: a full image, and the images that build on it in order. Error if
/// one of them is damaged or does not build on the one before it.
Result<PartitionImage> read_partition(Storage& storage, const std::string& folder,
                                      std::span<const wire::ImageRef> chain,
                                      const std::vector<TableSpec>& tables);

}  // namespace downpour::checkpoint
