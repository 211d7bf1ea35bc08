// The idx image format (LeCun, Cortes, Burges 1998): "...images-idx3-ubyte" with
// "...labels-idx1-ubyte" beside it.
#pragma once

#include <memory>
#include <vector>

#include "shared/data/byte_source.h"
#include "shared/data/parser.h"
#include "shared/data/window.h"

namespace downpour::data {

/// The header of an image file.
struct IdxImages {
  static constexpr uint64_t kHeaderBytes = 16;
  uint32_t count = 0;
  uint32_t pixels = 0;  // of one image
};
/// Reads it. Error kBadData if it is no idx image file.
Result<IdxImages> read_idx_header(ByteSource& source, const std::string& path);

/// Whether these are the first bytes of an idx image file, or of a label file.
bool is_idx_images(std::string_view head);
bool is_idx_labels(std::string_view head);

/// The labels of `count` images, from the file beside theirs. Errors: kNoInput, kBadData.
Result<std::vector<char>> read_idx_labels(const std::string& path, uint32_t count);

/// Windows whose records are images. An image's offset is where its pixels stand in the
/// decompressed file.
Result<std::unique_ptr<WindowSource>> open_idx(const plan::FileInfo& info, size_t window_bytes,
                                               Buffer& buffer, std::vector<RecordRef>& records);
/// Fields `image` (float32, 0 to 1) and `label`, which is read from the file beside.
Result<std::unique_ptr<RecordParser>> make_idx_parser(const ReadPlan& plan,
                                                      const std::string& path);

}  // namespace downpour::data
