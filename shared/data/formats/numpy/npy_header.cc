#include "shared/data/formats/numpy/npy_header.h"

#include "shared/base/str.h"

namespace downpour::data {

std::string npy_header(const ArrayForm& form, uint64_t rows) {
  std::string shape = str("(", rows, ",");
  for (const uint64_t d : form.row_shape) shape += str(" ", d, ",");
  if (!form.row_shape.empty()) shape.pop_back();
  std::string header =
      str("{'descr': '", form.descr, "', 'fortran_order': False, 'shape': ", shape, "), }");
  constexpr size_t kBefore = 10;
  while ((kBefore + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  const char size[2] = {char(header.size()), char(header.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + std::string(size, 2) + header;
}

}  // namespace downpour::data
