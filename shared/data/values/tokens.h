// Tokens: splits a text into words and n-grams.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/job/ops.h"

namespace downpour::data {

/// Implements the op `tokens`. Allocates no memory once its buffers have grown. For one thread.
class Tokens {
 public:
  explicit Tokens(const ops::Tokens& op) : lower_(op.lower), ngrams_(op.ngrams) {
    const std::string separators = op.separators.empty() ? " \t\r\n\v\f" : op.separators;
    for (const char c : separators) separates_[uint8_t(c)] = true;
  }

  /// Calls `take(std::string_view)` for each word. After each word come the n-grams that end with
  /// it: 2 to `ngrams` words, joined by a blank. Returns false if `take` returned false.
  template <typename Take>
  bool each(std::string_view text, Take&& take) {
    joined_.clear();
    words_.clear();
    for (size_t i = 0; i < text.size();) {
      if (separates_[uint8_t(text[i])]) {
        ++i;
        continue;
      }
      size_t end = i;
      while (end < text.size() && !separates_[uint8_t(text[end])]) ++end;
      if (!words_.empty()) joined_ += ' ';
      words_.emplace_back(joined_.size(), joined_.size() + (end - i));
      joined_.append(text, i, end - i);
      i = end;
    }
    if (lower_) {
      for (char& c : joined_)
        if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    }
    const std::string_view all = joined_;
    for (size_t last = 0; last < words_.size(); ++last) {
      for (size_t n = 1; n <= ngrams_ && n <= last + 1; ++n) {
        const size_t begin = words_[last + 1 - n].first;
        if (!take(all.substr(begin, words_[last].second - begin))) return false;
      }
    }
    return true;
  }

 private:
  std::array<bool, 256> separates_{};
  bool lower_;
  uint32_t ngrams_;
  std::string joined_;                            // all words, separated by single blanks
  std::vector<std::pair<size_t, size_t>> words_;  // begin and end of each word in joined_
};

}  // namespace downpour::data
