#include "shared/data/bytes/open_bytes.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"
#include "shared/data/bytes/decompress.h"

namespace downpour::data {
namespace {

class PlainSource final : public ByteSource {
 public:
  PlainSource(File file, uint64_t offset) : file_(std::move(file)), offset_(offset) {}
  Result<size_t> read(char* to, size_t size) override {
    DP_TRY(const size_t n, file_.read_at(offset_, to, size));
    offset_ += n;
    if (n == 0 && offset_ < file_.bytes()) return changed_error(file_.path(), "it is shorter now");
    // Bytes that are appended to the file later do not belong to the job.
    if (offset_ > file_.bytes()) {
      const uint64_t surplus = std::min<uint64_t>(offset_ - file_.bytes(), n);
      offset_ -= surplus;
      return n - size_t(surplus);
    }
    return n;
  }
  Result<void> skip(uint64_t bytes) override {
    offset_ += std::min(bytes, file_.bytes() - std::min(offset_, file_.bytes()));
    return {};
  }
  uint64_t consumed() const override { return offset_; }

 private:
  File file_;
  uint64_t offset_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_bytes(File file, uint64_t offset,
                                               std::vector<uint64_t> cuts) {
  DP_TRY(const Compression compression, file.compression());
  if (compression == Compression::kNone)
    return std::unique_ptr<ByteSource>(std::make_unique<PlainSource>(std::move(file), offset));
  DP_CHECK(offset == 0, offset);
  return open_compressed(std::move(file), compression, std::move(cuts));
}

}  // namespace downpour::data
