// Builds NumPy files from their components: .npy arrays and .npz archives, valid and invalid ones.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/str.h"
#include "tests/support/compressed.h"

namespace downpour::testing {

/// Returns the bytes of an .npy file. `descr`, `shape` and `order` are the texts in its header
/// ("'<f4'", "(3, 2)", "False").
inline std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                       int version = 1, const std::string& order = "False") {
  std::string header =
      str("{'descr': ", descr, ", 'fortran_order': ", order, ", 'shape': ", shape, ", }");
  const size_t before = version == 1 ? 10 : 12;
  while ((before + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out = "\x93NUMPY" + std::string(1, char(version)) + '\0';
  for (size_t i = 0; i < before - 8; ++i) out += char(header.size() >> (8 * i));
  return out + header + data;
}

/// Returns the bytes of all values, with the bytes of each value reversed if `swap` is set.
template <typename T>
std::string bytes_of(const std::vector<T>& values, bool swap = false) {
  std::string out;
  for (const T value : values) {
    std::string one(reinterpret_cast<const char*>(&value), sizeof value);
    if (swap) std::reverse(one.begin(), one.end());
    out += one;
  }
  return out;
}

inline std::string floats_npy(const std::vector<float>& values, const std::string& shape) {
  return npy("'<f4'", shape, bytes_of(values));
}

/// Returns the lowest `bytes` bytes of a number, in little-endian order.
inline std::string little_endian(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += char(value >> (8 * i));
  return out;
}

/// Returns an archive as np.savez writes it, or np.savez_compressed if `deflate` is set.
inline std::string npz(const std::vector<std::pair<std::string, std::string>>& members,
                       bool deflate = false) {
  const auto le = little_endian;
  std::string out, directory;
  for (const auto& [name, data] : members) {
    std::string packed = data;
    if (deflate) packed = gzipped(data, -15);
    const uint64_t crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
    const std::string file = name + ".npy";
    const std::string common = le(deflate ? 8 : 0, 2) + le(0, 4) + le(crc, 4) +
                               le(packed.size(), 4) + le(data.size(), 4) + le(file.size(), 2);
    directory += le(0x02014b50, 4) + le(20, 2) + le(20, 2) + le(0, 2) + common + le(0, 2) +
                 le(0, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(out.size(), 4) + file;
    out += le(0x04034b50, 4) + le(20, 2) + le(0, 2) + common + le(4, 2) + file + "pad!" + packed;
  }
  const size_t at = out.size();
  return out + directory + le(0x06054b50, 4) + le(0, 4) + le(members.size(), 2) +
         le(members.size(), 2) + le(directory.size(), 4) + le(at, 4) + le(0, 2);
}

}  // namespace downpour::testing
