// TFRecord, TensorFlow's record file. Each record has a length (u64), the length's masked CRC-32C,
// the bytes, and their masked CRC-32C, all little-endian (tensorflow/core/lib/io/record_writer.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/crc32c.h"
#include "shared/data/bytes/byte_source.h"
#include "shared/data/records/record_cuts.h"
#include "shared/data/records/window.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"

namespace downpour::data {

constexpr size_t kFrameHeaderBytes = 12;
constexpr size_t kFrameTailBytes = 4;
constexpr uint64_t kFrameBytesMax = uint64_t{64} << 20;  // a longer record is bad

/// Returns the CRC of the bytes, masked so that it can be stored next to data over which another
/// CRC is computed.
inline uint32_t masked_crc32c(const char* bytes, size_t size) {
  const uint32_t crc = crc32c(bytes, size);
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

/// Reads the length from the header at `at` (kFrameHeaderBytes bytes). Returns false if its
/// checksum does not match.
inline bool read_frame_header(const char* at, uint64_t& length) {
  uint32_t crc;
  std::memcpy(&length, at, sizeof length);
  std::memcpy(&crc, at + sizeof length, sizeof crc);
  return crc == masked_crc32c(at, sizeof length);
}

/// Returns true if a file that begins with these bytes is a TFRecord file.
inline bool is_tfrecord(std::string_view head) {
  uint64_t length = 0;
  return head.size() >= kFrameHeaderBytes && read_frame_header(head.data(), length);
}

/// Scans a file from header to header and skips the record bytes. A header with a wrong checksum
/// counts as one record, which extends to the next valid header.
class FrameScanner {
 public:
  /// `path` is for error messages.
  FrameScanner(std::unique_ptr<ByteSource> source, std::string path)
      : source_(std::move(source)), path_(std::move(path)) {}
  /// Returns the offset of the next record's header, after decompression. Returns false at the end
  /// of the file. Error kBadData if no valid header follows a damaged one.
  Result<bool> next(uint64_t& offset);
  uint64_t consumed() const { return source_->consumed(); }

 private:
  Result<bool> have(size_t bytes);
  Result<void> skip(uint64_t bytes);
  Result<void> seek_header();

  std::unique_ptr<ByteSource> source_;
  const std::string path_;
  std::vector<char> block_;
  uint64_t base_ = 0;  // offset of block_[0]
  size_t used_ = 0, filled_ = 0;
  bool far_ = false;  // the last two headers are far apart, so reads are short
};

/// Finds where to cut a plain file so that each piece has about `target_bytes`. Uses the index next
/// to the file if it matches: "FILE.idx" or "FILE.index" with a line "offset size" per record, as
/// DALI's tfrecord2idx writes it. Otherwise scans every header, but at most `records_max`; the rest
/// of the file is one piece.
Result<RecordCuts> find_frame_cuts(const std::string& path, uint64_t target_bytes,
                                   uint64_t records_max = UINT64_MAX);

/// Returns the windows of the records that begin in a range. The range must begin at a header. The
/// checksum of a record's bytes follows them in the window, and the parser verifies it.
Result<std::unique_ptr<WindowSource>> open_tfrecord(const plan::FileInfo& info,
                                                    const plan::ShardRange& range,
                                                    size_t window_bytes, Buffer& buffer,
                                                    std::vector<RecordRef>& records);

/// Returns the windows of all records in `source`.
std::unique_ptr<WindowSource> frames_of(std::unique_ptr<ByteSource> source, const std::string& name,
                                        size_t window_bytes, Buffer& buffer,
                                        std::vector<RecordRef>& records);

/// Returns the mean bytes of a record on disk, with its frame, from the first 1000 records. Errors:
/// kNoInput, kIo, kBadData.
Result<uint64_t> mean_frame_bytes(const DataSpec& data, const std::string& path);

}  // namespace downpour::data
