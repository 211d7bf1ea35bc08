// TFRecord, TensorFlow's file of records: for each a length (u64), its masked CRC-32C, the bytes
// and their masked CRC-32C, all little-endian (tensorflow/core/lib/io/record_writer.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/crc32c.h"
#include "shared/data/byte_source.h"
#include "shared/data/record_cuts.h"
#include "shared/data/window.h"

namespace downpour::data {

constexpr size_t kFrameHeaderBytes = 12;
constexpr size_t kFrameTailBytes = 4;
constexpr uint64_t kFrameBytesMax = uint64_t{64}
                                    << 20;  // of a record; a longer one is a bad record

/// A CRC that may stand beside what it is the CRC of, without becoming part of one.
inline uint32_t masked_crc32c(const char* bytes, size_t size) {
  const uint32_t crc = crc32c(bytes, size);
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

/// The length that the header at `at` (kFrameHeaderBytes) says. False: its checksum does not match.
inline bool read_frame_header(const char* at, uint64_t& length) {
  uint32_t crc;
  std::memcpy(&length, at, sizeof length);
  std::memcpy(&crc, at + sizeof length, sizeof crc);
  return crc == masked_crc32c(at, sizeof length);
}

/// Whether a file that begins with these bytes is one.
inline bool is_tfrecord(std::string_view head) {
  uint64_t length = 0;
  return head.size() >= kFrameHeaderBytes && read_frame_header(head.data(), length);
}

/// Goes through a file from header to header, over what lies between. A header that fails its
/// checksum is one record, which goes on to the next place where a header stands.
class FrameScanner {
 public:
  /// `path` is for messages.
  FrameScanner(std::unique_ptr<ByteSource> source, std::string path)
      : source_(std::move(source)), path_(std::move(path)) {}
  /// The place of the next record's header, decompressed. False at the end of the file. Error
  /// kBadData where none follows a damaged one.
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
  bool far_ = false;  // the last header lay far behind the one before: read little at once
};

/// Where a plain file may be cut so that each piece has about `target_bytes`. From the index beside
/// it ("FILE.idx" or "FILE.index", a line "offset size" a record, as DALI's tfrecord2idx writes it)
/// where there is one that fits; else by a look at every header, but no more than `records_max`:
/// what lies behind them is a piece.
Result<RecordCuts> find_frame_cuts(const std::string& path, uint64_t target_bytes,
                                   uint64_t records_max = UINT64_MAX);

/// Windows of the records that begin in a range; a range begins at a header. The checksum of a
/// record's bytes stands behind them and is left to the parser.
Result<std::unique_ptr<WindowSource>> open_tfrecord(const plan::FileInfo& info,
                                                    const plan::ShardRange& range,
                                                    size_t window_bytes, Buffer& buffer,
                                                    std::vector<RecordRef>& records);

/// The same of all that `source` gives.
std::unique_ptr<WindowSource> frames_of(std::unique_ptr<ByteSource> source, const std::string& name,
                                        size_t window_bytes, Buffer& buffer,
                                        std::vector<RecordRef>& records);

}  // namespace downpour::data
