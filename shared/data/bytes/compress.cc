#include "shared/data/bytes/compress.h"

#include <string>
#include <zlib.h>
#include <zstd.h>

#include "shared/base/units.h"

namespace downpour::data {
namespace {

constexpr size_t kWriteBytes = kMiB;
constexpr int kGzipLevel = 6, kZstdLevel = 3;

/// Collects bytes into large writes. Derived classes compress them in pack().
class PlainFile : public CompressedFile {
 public:
  explicit PlainFile(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}
  Result<void> add(std::string_view bytes) override {
    gathered_ += bytes;
    return gathered_.size() < kWriteBytes ? Result<void>() : give(false);
  }
  Result<void> finish() override {
    DP_TRY_VOID(give(true));
    return file_->commit();
  }
  uint64_t written() const override { return written_; }

 protected:
  virtual Result<void> pack(std::string_view bytes, bool last) { return (void)last, write(bytes); }
  Result<void> write(std::string_view bytes) {
    written_ += bytes.size();
    return file_->append(as_bytes(bytes));
  }

 private:
  Result<void> give(bool last) {
    DP_TRY_VOID(pack(gathered_, last));
    gathered_.clear();
    return {};
  }
  std::unique_ptr<OutputFile> file_;
  std::string gathered_;
  uint64_t written_ = 0;
};

class GzipFile final : public PlainFile {
 public:
  GzipFile(std::unique_ptr<OutputFile> file, int level) : PlainFile(std::move(file)) {
    constexpr int kWindowBits = 15 + 16;  // selects the gzip header
    const int status = deflateInit2(&stream_, level == 0 ? kGzipLevel : level, Z_DEFLATED,
                                    kWindowBits, 8, Z_DEFAULT_STRATEGY);
    DP_CHECK(status == Z_OK, status);
    packed_.resize(kWriteBytes);
  }
  ~GzipFile() override { deflateEnd(&stream_); }

 private:
  Result<void> pack(std::string_view bytes, bool last) override {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = uInt(bytes.size());
    for (;;) {
      stream_.next_out = reinterpret_cast<Bytef*>(packed_.data());
      stream_.avail_out = uInt(packed_.size());
      const int status = deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
      DP_CHECK(status != Z_STREAM_ERROR, status);
      DP_TRY_VOID(write({packed_.data(), packed_.size() - stream_.avail_out}));
      if (last ? status == Z_STREAM_END : stream_.avail_out > 0) return {};
    }
  }
  z_stream stream_{};
  std::string packed_;
};

class ZstdFile final : public PlainFile {
 public:
  ZstdFile(std::unique_ptr<OutputFile> file, int level)
      : PlainFile(std::move(file)), context_(ZSTD_createCCtx()) {
    DP_CHECK(context_ != nullptr);
    ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, level == 0 ? kZstdLevel : level);
    ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 1);
    packed_.resize(ZSTD_CStreamOutSize());
  }
  ~ZstdFile() override { ZSTD_freeCCtx(context_); }

 private:
  Result<void> pack(std::string_view bytes, bool last) override {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (;;) {
      ZSTD_outBuffer out{packed_.data(), packed_.size(), 0};
      const size_t left =
          ZSTD_compressStream2(context_, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
      DP_CHECK(ZSTD_isError(left) == 0, ZSTD_getErrorName(left));
      DP_TRY_VOID(write({packed_.data(), out.pos}));
      if (last ? left == 0 : in.pos == in.size) return {};
    }
  }
  ZSTD_CCtx* context_;
  std::string packed_;
};

}  // namespace

std::unique_ptr<CompressedFile> compress_to(std::unique_ptr<OutputFile> file,
                                            Compression compression, int level) {
  switch (compression) {
    case Compression::kGzip:
      return std::make_unique<GzipFile>(std::move(file), level);
    case Compression::kZstd:
      return std::make_unique<ZstdFile>(std::move(file), level);
    case Compression::kZlib:
      break;
    case Compression::kNone:
      return std::make_unique<PlainFile>(std::move(file));
  }
  DP_CHECK(false, int(compression));
  return nullptr;
}

}  // namespace downpour::data
