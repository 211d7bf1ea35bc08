// Idx files (LeCun, Cortes, Burges 1998): images in "...images-idx3-ubyte", and their labels in
// "...labels-idx1-ubyte" in the same folder.
#pragma once

#include <memory>
#include <vector>

#include "shared/data/bytes/byte_source.h"
#include "shared/data/formats/parser.h"
#include "shared/data/records/window.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// The header of an image file.
struct IdxImages {
  static constexpr uint64_t kHeaderBytes = 16;
  uint32_t count = 0;
  uint32_t pixels = 0;  // of one image
};
/// Reads the header. Error kBadData if it is not an idx image file.
Result<IdxImages> read_idx_header(ByteSource& source, const std::string& path);

/// Returns whether `head` is the beginning of an idx image file, or of a label file.
bool is_idx_images(std::string_view head);
bool is_idx_labels(std::string_view head);

/// Reads the labels of `count` images from the label file in the same folder. Errors: kNoInput,
/// kBadData.
Result<std::vector<char>> read_idx_labels(const std::string& path, uint32_t count);

/// Opens windows whose records are images. An image's offset is the offset of its pixels in the
/// decompressed file.
Result<std::unique_ptr<WindowSource>> open_idx(const plan::FileInfo& info, size_t window_bytes,
                                               Buffer& buffer, std::vector<RecordRef>& records);

}  // namespace downpour::data
