#include "shared/data/bytes/byte_source.h"

#include <algorithm>
#include <vector>

#include "shared/base/units.h"

namespace downpour::data {
namespace {

constexpr size_t kSkippedBytes = 64 * kKiB;  // read at once

}  // namespace

Result<void> ByteSource::skip(uint64_t bytes) {
  std::vector<char> block(size_t(std::min<uint64_t>(bytes, kSkippedBytes)));
  while (bytes > 0) {
    DP_TRY(const size_t n, read(block.data(), size_t(std::min<uint64_t>(bytes, block.size()))));
    if (n == 0) break;
    bytes -= n;
  }
  return {};
}

}  // namespace downpour::data
