// Archive: writes named arrays into one file that Python reads: an .npz archive of NumPy, or a
// safetensors file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/env/storage.h"

namespace downpour::tools {

enum class ElementType : uint8_t { kFloat32, kUint64 };
enum class ArchiveFormat : uint8_t { kNpz, kSafetensors };

/// One array in C order.
struct ArraySpec {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<uint64_t> shape;  // at least one dimension
  uint64_t bytes() const;
};

/// A file that is being written. It gets its name in finish().
class Archive {
 public:
  virtual ~Archive() = default;
  /// Appends bytes of the arrays, one array after the other in the order of their specs.
  virtual Result<void> append(std::span<const uint8_t> bytes) = 0;
  /// Ends the file, after all bytes of all arrays.
  virtual Result<void> finish() = 0;
};

/// Begins an archive at `path`. `text` is stored as `text_name`: in .npz as a member, in
/// safetensors as metadata. Errors: those of Storage::create().
Result<std::unique_ptr<Archive>> create_archive(Storage& storage, const std::string& path,
                                                ArchiveFormat format, std::vector<ArraySpec> arrays,
                                                const std::string& text_name,
                                                const std::string& text);

}  // namespace downpour::tools
