#include "shared/data/bytes/decompress.h"

#include <algorithm>
#include <vector>
#include <zlib.h>
#include <zstd.h>

#include "shared/base/units.h"

namespace downpour::data {
namespace {

constexpr size_t kInputBytes = 128 * kKiB;
constexpr uint64_t kRatioMax = 200;  // of a whole file; more indicates a file made to exhaust
                                     // memory or time
constexpr uint64_t kFreeBytes = 64 * kMiB;
constexpr int kZstdWindowLogMax = 27;  // 128 MiB

/// Reads the file in pieces, counts the decompressed bytes, and makes the errors.
class CompressedSource : public ByteSource {
 public:
  uint64_t consumed() const final { return offset_ - (input_.size() - used_); }
  std::span<const uint64_t> marks() const final { return marks_; }

 protected:
  CompressedSource(File file, const char* check, std::vector<uint64_t> cuts)
      : file_(std::move(file)), check_(check), cuts_(std::move(cuts)) {}

  std::string_view unused() const { return std::string_view(input_).substr(used_); }
  void use(size_t bytes) { used_ += bytes; }
  /// Reads more input if all of it was used. At a cut it reads nothing as long as the decoder may
  /// still hold output of the bytes before the cut. Returns false at the end of the file.
  Result<bool> refill() {
    if (used_ < input_.size()) return true;
    input_.resize(kInputBytes);
    if (marks_.size() < cuts_.size()) {
      if (offset_ == cuts_[marks_.size()]) {
        if (holds_output_) {
          input_.clear();
          used_ = 0;
          return true;
        }
        marks_.push_back(made_);
      }
      if (marks_.size() < cuts_.size())
        input_.resize(size_t(std::min<uint64_t>(kInputBytes, cuts_[marks_.size()] - offset_)));
    }
    DP_TRY(const size_t n, file_.read_at(offset_, input_.data(), input_.size()));
    input_.resize(n);
    offset_ += n;
    used_ = 0;
    return n > 0;
  }
  /// Counts the output of one call of the decoder. `held`: the decoder may have held back output,
  /// because the output buffer was full.
  Result<void> count_output(size_t bytes, bool held) {
    made_ += bytes;
    holds_output_ = held;
    if (made_ <= std::max(kFreeBytes, file_.bytes() * kRatioMax)) return {};
    return error(str("the output is more than ", kRatioMax, " times as large as the file"));
  }
  Error cut_short() const {
    return error("the file is truncated (an incomplete download or copy?)");
  }
  Error error(const std::string& why) const {
    return Error{ErrorCode::kBadData, str("can't decompress: ", why), file_.path(),
                 str("check it with: ", check_, file_.path())};
  }

 private:
  File file_;
  const char* const check_;
  std::string input_;
  size_t used_ = 0;
  uint64_t offset_ = 0;  // in the file, after input_
  uint64_t made_ = 0;
  const std::vector<uint64_t> cuts_;
  std::vector<uint64_t> marks_;
  bool holds_output_ = false;
};

/// Gzip and zlib. A file may contain several members or streams in a row.
class ZlibSource final : public CompressedSource {
 public:
  ZlibSource(File file, const char* check, std::vector<uint64_t> cuts)
      : CompressedSource(std::move(file), check, std::move(cuts)) {}
  ~ZlibSource() override {
    if (ready_) inflateEnd(&stream_);
  }
  Result<size_t> read(char* to, size_t size) override {
    size_t made = 0;
    while (made < size && !ended_) {
      DP_TRY(const bool more, refill());
      if (!more) {
        if (inside_) return cut_short();
        ended_ = true;
        break;
      }
      if (!inside_) {
        // Gzip allows zero padding between members.
        if (begun_ && unused().starts_with('\0')) {
          use(1);
          continue;
        }
        if (!ready_ && inflateInit2(&stream_, 15 + 32) != Z_OK)
          return error("zlib can't be initialized");
        ready_ = true;
        inflateReset(&stream_);
        inside_ = begun_ = true;
      }
      const std::string_view input = unused();
      const uInt room = uInt(std::min<size_t>(size - made, 1U << 30));
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
      stream_.avail_in = uInt(input.size());
      stream_.next_out = reinterpret_cast<Bytef*>(to + made);
      stream_.avail_out = room;
      const int status = inflate(&stream_, Z_NO_FLUSH);
      use(input.size() - stream_.avail_in);
      made += room - stream_.avail_out;
      if (status == Z_STREAM_END) {
        inside_ = false;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        return error(stream_.msg != nullptr ? stream_.msg : "the file is damaged");
      }
      DP_TRY_VOID(count_output(room - stream_.avail_out, inside_ && stream_.avail_out == 0));
    }
    return made;
  }

 private:
  z_stream stream_{};
  bool ready_ = false, inside_ = false, ended_ = false, begun_ = false;
};

/// Zstandard. A file may contain several frames in a row.
class ZstdSource final : public CompressedSource {
 public:
  ZstdSource(File file, std::vector<uint64_t> cuts)
      : CompressedSource(std::move(file), "zstd -t ", std::move(cuts)), stream_(ZSTD_createDCtx()) {
    DP_CHECK(stream_ != nullptr);  // out of memory
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kZstdWindowLogMax);
  }
  ~ZstdSource() override { ZSTD_freeDCtx(stream_); }
  Result<size_t> read(char* to, size_t size) override {
    size_t made = 0;
    while (made < size) {
      DP_TRY(const bool more, refill());
      // At the end of the file, the decoder may still hold output.
      if (!more && !inside_) break;
      const std::string_view input = unused();
      ZSTD_inBuffer in{input.data(), input.size(), 0};
      ZSTD_outBuffer out{to + made, size - made, 0};
      const size_t status = ZSTD_decompressStream(stream_, &out, &in);
      if (ZSTD_isError(status)) return error(ZSTD_getErrorName(status));
      use(in.pos);
      made += out.pos;
      inside_ = status != 0;
      if (!more && inside_ && out.pos == 0) return cut_short();
      DP_TRY_VOID(count_output(out.pos, inside_ && out.pos == out.size));
    }
    return made;
  }

 private:
  ZSTD_DCtx* stream_;
  bool inside_ = false;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_compressed(File file, Compression compression,
                                                    std::vector<uint64_t> cuts) {
  switch (compression) {
    case Compression::kGzip:
      return std::unique_ptr<ByteSource>(
          std::make_unique<ZlibSource>(std::move(file), "gzip -t ", std::move(cuts)));
    case Compression::kZlib:
      return std::unique_ptr<ByteSource>(std::make_unique<ZlibSource>(
          std::move(file), "zlib-flate -uncompress < ", std::move(cuts)));
    case Compression::kZstd:
      return std::unique_ptr<ByteSource>(
          std::make_unique<ZstdSource>(std::move(file), std::move(cuts)));
    case Compression::kNone:
      break;
  }
  DP_CHECK(false, int(compression));
  return std::unique_ptr<ByteSource>();
}

}  // namespace downpour::data
