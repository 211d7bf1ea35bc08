// Reads partition images back; refuses, by file and offset, whatever was not written so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/image.h"
#include "shared/env/storage.h"
#include "shared/tensor/variables.h"
#include "shared/wire/messages.h"

namespace downpour::checkpoint {

/// One image from its bytes, all sums checked. Sizes agree with `tables`: members present, rows
/// whole, keys ascending, dense blocks within the variable. What the keys' hashes say and how many
/// slots an optimizer has is not known here: the importing partition checks these. `path` and
/// `offset` (of the image in its file) are for messages. kBadData: any flipped bit, truncation, or
/// disagreement; kUnsupported: a whole image of a later format.
Result<PartitionImage> decode_image(std::span<const uint8_t> bytes,
                                    const std::vector<TableSpec>& tables, const std::string& path,
                                    uint64_t offset);

/// The image that `ref` names among the bytes of encode_images(), or an error that says that it
/// came from `source`. `ref` and the bytes may come from a peer.
Result<PartitionImage> image_among(std::span<const uint8_t> bytes, const wire::ImageRef& ref,
                                   const std::vector<TableSpec>& tables, const std::string& source);

/// The image that `ref` names, or an error; never a part of one. `ref` may come from a peer. It is
/// in `folder`, or in its neighbour of another checkpoint where `ref` says so.
Result<PartitionImage> read_image(Storage& storage, const std::string& folder,
                                  const wire::ImageRef& ref, const std::vector<TableSpec>& tables);

/// Whether that image is there, all its bytes as they were written; what they say is not looked at.
Result<void> verify_image(Storage& storage, const std::string& folder, const wire::ImageRef& ref);
/// The same of its header and section table only, in one or two small reads.
Result<void> verify_image_head(Storage& storage, const std::string& folder,
                               const wire::ImageRef& ref);

/// All of a partition: a whole image and those that build on it, one after the other. An error
/// where any of them is not as written, or does not build on the one before it.
Result<PartitionImage> read_partition(Storage& storage, const std::string& folder,
                                      std::span<const wire::ImageRef> chain,
                                      const std::vector<TableSpec>& tables);

}  // namespace downpour::checkpoint
