#include "shared/objects/object_reader.h"

#include <algorithm>

namespace downpour::objects {
namespace {

// A request of any size costs about 10 ms. So each request of a sequential reader is larger than
// the one before, and those of a random reader stay small.
constexpr size_t kAheadBytesMin = size_t{64} << 10;
constexpr size_t kAheadBytesMax = size_t{4} << 20;
constexpr size_t kAheadGrowth = 4;
constexpr size_t kRequestBytesMax = size_t{16} << 20;  // for reads larger than the read-ahead

}  // namespace

Result<std::unique_ptr<ObjectReader>> ObjectReader::open(const std::string& path,
                                                         StoreSettings settings) {
  DP_TRY(ObjectName name, parse_object_path(path));
  std::unique_ptr<ObjectReader> reader(
      new ObjectReader(std::move(name), path, std::move(settings)));
  reader->ahead_ = kAheadBytesMin;
  reader->held_.resize(kAheadBytesMin);
  auto first = reader->store_.read(reader->name_, 0, reader->held_.data(), kAheadBytesMin, "");
  if (!first) {
    Error& error = first.error();
    if (error.code == ErrorCode::kNoInput && error.hint.empty())
      error.hint = nearest_key_hint(reader->store_, reader->name_);
    return std::move(error);
  }
  reader->held_.resize(first->bytes);
  reader->bytes_ = first->object_bytes;
  reader->etag_ = std::move(first->etag);
  return reader;
}

Result<size_t> ObjectReader::fetch(uint64_t offset, char* to, size_t size) {
  DP_TRY(const ObjectPiece piece, store_.read(name_, offset, to, size, etag_));
  if (piece.object_bytes == bytes_ && piece.bytes == size) return size;
  return Error{ErrorCode::kMalformed,
               str("the store returned another size for an unchanged object: ", path_), path_};
}

Result<size_t> ObjectReader::read_at(uint64_t offset, char* to, size_t size) {
  if (offset >= bytes_) return size_t{0};
  size = size_t(std::min<uint64_t>(size, bytes_ - offset));
  size_t done = 0;
  while (done < size) {
    const uint64_t at = offset + done;
    const uint64_t held_end = held_begin_ + held_.size();
    const size_t rest = size - done;
    if (at >= held_begin_ && at < held_end) {
      const size_t n = std::min<size_t>(rest, size_t(held_end - at));
      std::copy_n(held_.data() + (at - held_begin_), n, to + done);
      done += n;
      continue;
    }
    // A read after a small gap is sequential too, for example if the reader skips records.
    const bool goes_on = at >= held_end && at - held_end <= ahead_;
    ahead_ = goes_on ? std::min(ahead_ * kAheadGrowth, kAheadBytesMax) : kAheadBytesMin;
    if (rest >= ahead_) {
      DP_TRY(const size_t n, fetch(at, to + done, std::min(rest, kRequestBytesMax)));
      held_.clear();
      held_begin_ = at + n;
      done += n;
      continue;
    }
    const size_t n = size_t(std::min<uint64_t>(ahead_, bytes_ - at));
    held_.resize(n);
    auto fetched = fetch(at, held_.data(), n);
    held_begin_ = at;
    if (!fetched) {
      held_.clear();
      return std::move(fetched).error();
    }
  }
  return done;
}

}  // namespace downpour::objects
