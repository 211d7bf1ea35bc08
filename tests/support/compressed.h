// Compresses a text in one piece, as other programs do.
#pragma once

#include <cstdlib>
#include <string>
#include <zlib.h>
#include <zstd.h>

namespace downpour::testing {

/// Returns one gzip member. With window_bits = 15 it is a zlib stream, with -15 a raw deflate
/// stream.
inline std::string gzipped(const std::string& text, int window_bits = 15 + 16) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    std::abort();
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}
inline std::string zlib_compressed(const std::string& text) { return gzipped(text, 15); }

/// Returns one zstd frame with a checksum of its content.
inline std::string zstd_compressed(const std::string& text) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size());
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(size) != 0) std::abort();
  out.resize(size);
  return out;
}

}  // namespace downpour::testing
