// Vocabulary: maps words to numbers, from a file with one word per line or from the job.
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

/// The number of a word is its line number, starting at 0. An empty line is not a word, but it
/// counts. Immutable.
class Vocabulary {
 public:
  static constexpr uint64_t kUnknown = UINT64_MAX;

  /// Reads the lines of a plain or compressed file. A byte-order mark and carriage returns are not
  /// part of a word. Errors: kNoInput, kIo; kBadData names both lines of a repeated word.
  static Result<std::shared_ptr<const Vocabulary>> load(const std::string& path);
  static Result<std::shared_ptr<const Vocabulary>> of(const std::vector<std::string>& words);

  /// Returns the word's number, or kUnknown.
  uint64_t find(std::string_view word) const;
  uint64_t size() const { return ends_.size(); }
  /// Returns the word of a number below size(). It is empty for an empty line.
  std::string_view word(uint64_t number) const {
    const uint32_t begin = number == 0 ? 0 : ends_[number - 1];
    return std::string_view(text_).substr(begin, ends_[number] - begin);
  }
  /// Returns a hash of all words in order. It is below 2^62 and not 0.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  Vocabulary() = default;
  Result<void> add_lines(std::string text, const std::string& where);
  /// Returns the index in slots_ of the word, or of the free slot for it.
  size_t slot_of(std::string_view wanted) const;
  void grow();

  std::string text_;             // all words, concatenated
  std::vector<uint32_t> ends_;   // end of each word
  std::vector<uint32_t> slots_;  // hash table with open addressing: word numbers or kFree
  uint64_t fingerprint_ = 0;
};

/// The vocabularies of a process, each file read once. Safe to use from any thread.
class VocabularyPool {
 public:
  /// Returns the vocabulary of an op. Errors: those of Vocabulary::load(); kBadData if the file no
  /// longer matches the op's fingerprint.
  Result<std::shared_ptr<const Vocabulary>> get(const ops::Vocabulary& op);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Vocabulary>> files_;
};

/// Reads the files of the `vocabulary` ops and stores their size and fingerprint in the ops, so
/// that a later reader can detect a changed file. Errors: kNoInput; kIo; kBadData naming the line
/// of a repeated word, or a file that differs from the stored fingerprint.
Result<void> note_vocabularies(DataSpec& data);

}  // namespace downpour::data
