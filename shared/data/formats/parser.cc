#include "shared/data/formats/parser.h"

#include <algorithm>

#include "shared/data/bytes/xxh3.h"

namespace downpour::data {
namespace {

constexpr size_t kLinesAheadMax =
    16;  // of each record; after that the hardware prefetches by itself
constexpr size_t kHashedBytesMax = 4096;

}  // namespace

void RecordParser::prefetch(const char* begin, size_t size) const {
  const size_t lines = std::min<size_t>(size / 64 + 1, kLinesAheadMax);
  for (size_t i = 0; i < lines; ++i) __builtin_prefetch(begin + i * 64);
}

size_t RecordParser::parse_run(std::span<const QueuedRecord>, Columns&, uint64_t&) { return 0; }

uint64_t RecordParser::hash(const char* begin, const char* end) const {
  return xxh3(begin, std::min<size_t>(size_t(end - begin), kHashedBytesMax));
}

}  // namespace downpour::data
