// NumPy's .npy format, versions 1 to 3 (numpy/lib/format.py): a header with type, order and shape,
// followed by the elements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace downpour::data {

/// The longest header that is read, including the bytes before its dictionary.
constexpr size_t kNpyHeadBytesMax = 10'012;

/// The type of an element: kind 'b' (bool), 'i', 'u' or 'f', and its size in bytes.
struct NpyType {
  char kind = 'f';
  uint32_t bytes = 4;
  bool big_endian = false;
  bool operator==(const NpyType&) const = default;
  bool is_integer() const { return kind != 'f'; }
};
/// Returns a name such as "float32" or "uint8".
std::string npy_type_name(NpyType type);

/// An array. Its first dimension is the number of rows.
struct NpyArray {
  NpyType type;
  std::vector<uint64_t> shape;
  uint64_t data_offset = 0;  // of the first element in the file
  uint64_t rows = 0;
  uint64_t row_elements = 1;
  uint64_t row_bytes() const { return row_elements * type.bytes; }
};

/// Parses the header at the beginning of `head`. `file_bytes` is the size of the whole file, and
/// `where` names it in errors. Errors: kBadData if there is no valid header, or if the file is
/// smaller than the header says; kUnsupported for objects, records, texts, dates, complex numbers
/// and Fortran order.
Result<NpyArray> parse_npy(std::string_view head, uint64_t file_bytes, const std::string& where);

}  // namespace downpour::data
