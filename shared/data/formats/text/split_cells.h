// Splits a line of a table into cells, for the parser and the decoder of tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#if defined(__AVX512BW__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#include "shared/data/records/delimited.h"

namespace downpour::data {

/// Returns a mask whose bit i says whether text[i] == c, for 64 bytes. All of them must be
/// readable.
inline uint64_t match64(const char* text, char c) {
#if defined(__AVX512BW__)
  return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(text), _mm512_set1_epi8(c));
#elif defined(__AVX2__)
  const __m256i want = _mm256_set1_epi8(c);
  const auto low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text));
  const auto high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text + 32));
  return uint64_t(uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, want)))) |
         uint64_t(uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, want)))) << 32;
#else
  uint64_t mask = 0;
  for (uint32_t i = 0; i < 64; ++i) mask |= uint64_t(text[i] == c) << i;
  return mask;
#endif
}

/// Does the same as split_line without quotes, in strides of 64 bytes; kPadBytes are readable after
/// the line. Returns false if `quotes` is set and the line has a quote.
inline bool split_plain(const char* begin, const char* end, char delimiter, bool quotes,
                        std::vector<std::string_view>& cells, size_t& count) {
  size_t n = 0;
  const size_t room = cells.size();
  const char* cell = begin;
  for (const char* p = begin; p < end; p += 64) {
    const uint64_t valid = end - p >= 64 ? ~uint64_t{0} : (uint64_t{1} << (end - p)) - 1;
    if (quotes && (match64(p, '"') & valid) != 0) return false;
    for (uint64_t mask = match64(p, delimiter) & valid; mask != 0; mask &= mask - 1) {
      const char* const stop = p + __builtin_ctzll(mask);
      if (n < room) cells[n] = {cell, size_t(stop - cell)};
      ++n;
      cell = stop + 1;
    }
  }
  if (n < room) cells[n] = {cell, size_t(end - cell)};
  count = n + 1;
  return true;
}

/// Does the same as split_line; kPadBytes are readable after the line. Fast for a line without
/// quotes.
inline bool split_cells(const char* begin, const char* end, char delimiter, bool quotes,
                        std::vector<std::string_view>& cells, size_t& count, std::string& store) {
  return split_plain(begin, end, delimiter, quotes, cells, count) ||
         split_line({begin, size_t(end - begin)}, delimiter, true, cells, count, store);
}

}  // namespace downpour::data
