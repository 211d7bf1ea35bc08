#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace downpour::fuzz {
namespace {

constexpr size_t kUsualBytesMax = size_t{64} << 10;

/// Mutates one string. Kinds, positions and lengths of mutations come from one random stream.
class Mutation {
 public:
  Mutation(std::string& bytes, const std::string& other, Dictionary dictionary, Rng& rng)
      : bytes_(bytes), other_(other), dictionary_(dictionary), rng_(rng) {}

  void apply() {
    switch (rng_.below(12)) {
      case 0:
        return flip();
      case 1:
        return set_run();
      case 2:
        return set_integer();
      case 3:
        return insert(random_bytes());
      case 4:
      case 5:
        return dictionary_.empty() ? set_integer() : token();
      case 6:
        return void(cut_out());
      case 7:
        return repeat();
      case 8:
        return insert(cut_out());
      case 9:
        return splice();
      case 10:
        return one_in(rng_, 3) ? bytes_.resize(place()) : flip();
      default:
        return add_small();
    }
  }

 private:
  /// Returns a random position in the bytes, including their end.
  size_t place() { return size_t(rng_.below(bytes_.size() + 1)); }
  /// Returns a random length of at most `max`. Short lengths are more likely.
  size_t length(size_t max) {
    if (max == 0) return 0;
    const uint64_t bits = rng_.below(uint64_t(64 - __builtin_clzll(max)) + 1);
    return std::min(max, size_t(rng_.below((uint64_t{1} << bits) + 1)));
  }
  size_t room() const {
    return bytes_.size() < kInputBytesMax ? kInputBytesMax - bytes_.size() : 0;
  }

  void flip() {
    if (bytes_.empty()) return;
    char& c = bytes_[size_t(rng_.below(bytes_.size()))];
    c = char(c ^ (1 << rng_.below(8)));
  }
  void set_run() {
    const size_t at = place(), n = length(std::min<size_t>(bytes_.size() - at, 64));
    static constexpr char kBytes[] = {'\0', '\xff', '\x7f', '\x80', ' ', '\n', '0', '"'};
    const char c = one_in(rng_, 2) ? char(rng_.below(256)) : kBytes[rng_.below(sizeof kBytes)];
    std::fill_n(bytes_.begin() + ptrdiff_t(at), n, c);
  }
  void set_integer() {
    static constexpr uint64_t kValues[] = {
        0,          1,          2,         127,        128,        255,        256,
        32767,      65535,      65536,     0x7fffffff, 0x80000000, UINT32_MAX, 0x100000000ULL,
        1ULL << 40, 1ULL << 62, INT64_MAX, 1ULL << 63, UINT64_MAX, 64ULL << 20};
    const size_t width = size_t{1} << rng_.below(4);
    if (bytes_.size() < width) return;
    const size_t at = size_t(rng_.below(bytes_.size() - width + 1));
    uint64_t value = kValues[rng_.below(std::size(kValues))] + rng_.below(3) - 1;
    if (one_in(rng_, 4)) value = __builtin_bswap64(value << (64 - 8 * width));
    std::memcpy(bytes_.data() + at, &value, width);
  }
  void add_small() {
    if (bytes_.empty()) return;
    char& c = bytes_[size_t(rng_.below(bytes_.size()))];
    c = char(uint64_t(c) + rng_.below(33) - 16);
  }
  void token() {
    const std::string_view token = one_of(dictionary_, rng_);
    const size_t at = place();
    if (one_in(rng_, 2)) {
      bytes_.replace(at, std::min(token.size(), bytes_.size() - at), token);
    } else {
      insert(token);
    }
  }
  std::string random_bytes() {
    std::string out(length(32), '\0');
    for (char& c : out) c = char(rng_.below(256));
    return out;
  }
  void insert(std::string_view piece) { bytes_.insert(place(), piece.substr(0, room())); }
  std::string cut_out() {
    const size_t at = place(), n = length(bytes_.size() - at);
    std::string piece = bytes_.substr(at, n);
    bytes_.erase(at, n);
    return piece;
  }
  void repeat() {
    const size_t at = place(), n = length(bytes_.size() - at);
    const std::string piece = bytes_.substr(at, n);
    const size_t most = one_in(rng_, 100) ? kInputBytesMax : kUsualBytesMax / 8;
    size_t times = 1 + length(n == 0 ? 0 : std::min(most, room()) / n);
    std::string all;
    for (; times > 0; --times) all += piece;
    bytes_.insert(at, all.substr(0, room()));
  }
  void splice() {
    if (other_.empty()) return;
    const size_t from = size_t(rng_.below(other_.size()));
    const std::string piece = other_.substr(from, length(other_.size() - from));
    const size_t at = place();
    if (one_in(rng_, 2)) {
      bytes_.replace(at, std::min(piece.size(), bytes_.size() - at), piece);
    } else {
      insert(piece);
    }
  }

  std::string& bytes_;
  const std::string& other_;
  const Dictionary dictionary_;
  Rng& rng_;
};

}  // namespace

void mutate(std::string& bytes, const std::string& other, Dictionary dictionary, Rng& rng) {
  Mutation mutation(bytes, other, dictionary, rng);
  for (uint64_t n = 1 + rng.below(uint64_t{1} << rng.below(5)); n > 0; --n) mutation.apply();
}

}  // namespace downpour::fuzz
