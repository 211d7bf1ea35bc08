// Scans a feature of libsvm or libffm, for the parser and the decoder of sparse lines.
#pragma once

#include <cstdint>
#include <string_view>

#include "shared/data/values/number.h"

namespace downpour::data {

/// One "key:value" or "field:key:value".
struct SparseFeature {
  uint64_t group = 0;  // libffm's field
  uint64_t key = 0;
  float value = 0;
  std::string_view key_text, value_text;
};

/// Scans the feature at `p`, with `ffm` one of libffm. Returns the end of its value, or null if it
/// is not a feature. The text must end with a byte that is not part of a number.
inline const char* scan_feature(const char* p, bool ffm, SparseFeature& out) {
  if (ffm) {
    p = parse_uint(p, out.group);
    if (p == nullptr || *p++ != ':') return nullptr;
  }
  const char* const key = p;
  p = parse_uint(p, out.key);
  if (p == nullptr || *p != ':') return nullptr;
  out.key_text = {key, size_t(p - key)};
  const char* const value = ++p;
  p = parse_float(p, out.value);
  if (p != nullptr) out.value_text = {value, size_t(p - value)};
  return p;
}

}  // namespace downpour::data
