// Words: the texts of the keys of an embedding, where a vocabulary of the job knows them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::data {
class Vocabulary;
}

namespace downpour::tools {

class Words {
 public:
  /// Opens the vocabularies of the fields that read table `table` of the job's model. Errors: those
  /// of reading a vocabulary's file.
  static Result<Words> open(const Job& job, size_t table);

  /// Returns the names of the fields with a vocabulary.
  const std::vector<std::string>& fields() const { return fields_; }
  /// Returns the word of a key in the vocabulary of field `i`; empty if it has none.
  std::string_view word(size_t i, uint64_t key) const;
  /// Returns the words of a key in all vocabularies, joined by " | ".
  std::string all(uint64_t key) const;

 private:
  std::vector<std::string> fields_;
  std::vector<std::shared_ptr<const data::Vocabulary>> vocabularies_;
  std::vector<uint64_t> salts_;  // BagInput::salt
};

}  // namespace downpour::tools
