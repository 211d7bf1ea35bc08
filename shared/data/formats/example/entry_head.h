// EntryHead: recognizes the usual form of an entry of an Example by its first bytes. Private to
// this folder.
#pragma once

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "shared/data/formats/example/example_scan.h"

namespace downpour::data {

/// The bytes before the value in an entry of an Example that has a single value of at most
/// kValueMax bytes. Between records they differ only by the size of the value, which four lengths
/// contain.
class EntryHead {
 public:
  static constexpr uint32_t kBytesMax = 32;
  static constexpr uint32_t kValueMax = 0x60;  // so that each length is one byte

  EntryHead() = default;  // matches no entry
  EntryHead(const std::string& name, uint32_t list) {
    constexpr size_t kOthers = 10;  // tags and lengths
    if (list == 0 || name.size() + kOthers > kBytesMax) return;
    const auto put = [&](uint32_t byte, bool is_length) {
      of_lengths_[bytes_] = is_length ? 0xff : 0;
      compared_[bytes_] = 0xff;
      head_[bytes_++] = uint8_t(byte);
    };
    const auto message = [&](uint32_t tag, size_t before_value) {
      put(tag, false);
      put(uint32_t(before_value), true);
    };
    message(kEntry, name.size() + 8);
    put(kEntryKey, false);
    put(uint32_t(name.size()), false);
    for (const char letter : name) put(uint8_t(letter), false);
    message(kEntryFeature, 4);
    message(list, 2);
    message(kListed, 0);
  }

  bool is_any() const { return bytes_ > 0; }
  uint32_t bytes() const { return bytes_; }
  /// Returns the size of the value if the entry at `p` starts with this head; else 0. kBytesMax
  /// bytes from `p` on must be readable.
  size_t value_bytes(const char* p) const {
    const auto size = uint8_t(p[bytes_ - 1]);
    Lanes at;
    std::memcpy(&at, p, sizeof at);
    const Lanes differ = at ^ (head_ + (of_lengths_ & size));
#if defined(__AVX__)
    const bool same = _mm256_testz_si256(__m256i(differ), __m256i(compared_)) != 0;
#else
    std::array<uint64_t, 4> words;
    const Lanes compared = differ & compared_;
    std::memcpy(words.data(), &compared, sizeof compared);
    const bool same = ((words[0] | words[1]) | (words[2] | words[3])) == 0;
#endif
    if (!same) [[unlikely]]
      return 0;
    return size <= kValueMax ? size : 0;
  }

 private:
  using Lanes = uint8_t __attribute__((vector_size(kBytesMax)));

  Lanes head_ = {};        // with the lengths for an empty value
  Lanes of_lengths_ = {};  // all bits set at the lengths
  Lanes compared_ = {};
  uint32_t bytes_ = 0;
};

}  // namespace downpour::data
