// NumPy's .npy format, versions 1 to 3 (numpy/lib/format.py): a header that says type, order and
// shape, then the elements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace downpour::data {

/// The longest header that is read, with what stands before it.
constexpr size_t kNpyHeadBytesMax = 10'012;

/// An element: kind 'b' (bool), 'i', 'u', 'f' and its bytes.
struct NpyType {
  char kind = 'f';
  uint32_t bytes = 4;
  bool big_endian = false;
  bool operator==(const NpyType&) const = default;
  bool is_integer() const { return kind != 'f'; }
};
/// "float32", "uint8", ...
std::string npy_type_name(NpyType type);

/// An array whose first dimension are its rows.
struct NpyArray {
  NpyType type;
  std::vector<uint64_t> shape;
  uint64_t data_offset = 0;  // of the first element in the file
  uint64_t rows = 0;
  uint64_t row_elements = 1;
  uint64_t row_bytes() const { return row_elements * type.bytes; }
};

/// Reads the header that `head` begins with; `file_bytes` is what the whole file holds, `where`
/// names it. Errors: kBadData where it is none, or lies of the file's size; kUnsupported for
/// objects, records, texts, dates, complex numbers and Fortran order.
Result<NpyArray> parse_npy(std::string_view head, uint64_t file_bytes, const std::string& where);

}  // namespace downpour::data
