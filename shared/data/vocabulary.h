// Vocabulary: words and their numbers, from a file with a word a line or from the job.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::data {

/// A word's number is its line's, counted from 0. An empty line is no word, but counts. Immutable.
class Vocabulary {
 public:
  static constexpr uint64_t kUnknown = UINT64_MAX;

  /// A file of lines, plain or compressed; a byte-order mark and carriage returns are no part of a
  /// word. Errors: kNoInput, kIo; kBadData naming both lines of a word that stands twice.
  static Result<std::shared_ptr<const Vocabulary>> load(const std::string& path);
  static Result<std::shared_ptr<const Vocabulary>> of(const std::vector<std::string>& words);

  /// The word's number, or kUnknown.
  uint64_t find(std::string_view word) const;
  uint64_t size() const { return ends_.size(); }
  /// Of all words in their order; below 2^62, not 0.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  Vocabulary() = default;
  Result<void> add_lines(std::string text, const std::string& where);
  /// Where the word stands in slots_, or the free slot where it would.
  size_t slot_of(std::string_view wanted) const;
  void grow();
  std::string_view word(uint64_t number) const {
    const uint32_t begin = number == 0 ? 0 : ends_[number - 1];
    return std::string_view(text_).substr(begin, ends_[number] - begin);
  }

  std::string text_;             // all words, one behind the other
  std::vector<uint32_t> ends_;   // of each word
  std::vector<uint32_t> slots_;  // open addressing: numbers, kFree
  uint64_t fingerprint_ = 0;
};

/// Any thread.
class VocabularyPool {
 public:
  /// The op's vocabulary. Errors as Vocabulary::load(); kBadData where it is another than the op's
  /// fingerprint says.
  Result<std::shared_ptr<const Vocabulary>> get(const TransformSpec& spec);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Vocabulary>> files_;
};

}  // namespace downpour::data
