// FieldContext: what the fields of a data set are made from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/job/job.h"
#include "shared/tensor/batch.h"

namespace downpour::data {

/// The rule for the values of a target, which follows from the model's output. A record whose value
/// breaks the rule is a bad record.
enum class TargetKind : uint8_t {
  kAny,       // any finite number
  kBinary,    // 0 or 1; -1 reads as 0
  kClass,     // an integer in [0, classes)
  kCount,     // at least 0
  kPositive,  // above 0; reads as 1
};
class TextCounter;
struct TargetRule {
  std::string field;
  TargetKind kind = TargetKind::kAny;
  uint32_t classes = 0;
  bool any_text = false;  // a text that is none of the field's classes reads as 0
  bool by_text = false;   // a number of a format without texts reads as its decimal text
  // 1, 2: reads as the first or second 24 bits of the hash of the text, which a float holds
  // exactly.
  uint32_t hash_part = 0;
  std::shared_ptr<TextCounter> counter = {};  // if set, reads all texts as 0, and counts them
};

class VocabularyPool;
/// Creates a pool for the vocabularies of a job's fields. Each is read once for all readers of a
/// process.
std::shared_ptr<VocabularyPool> make_vocabulary_pool();

class PreambleCache;
/// Creates a cache of what stands before the first records of text files.
std::shared_ptr<PreambleCache> make_preamble_cache();

/// The settings of a data set that decide how its fields are read: the base of a ReadPlan, and all
/// that the parsers of records know of one.
struct FieldContext {
  DataSpec data;
  InputLayout layout;
  uint32_t batch_size = 512;
  std::vector<TargetRule> targets;
  bool targets_optional = false;  // see for_prediction()
  std::shared_ptr<VocabularyPool> vocabularies = make_vocabulary_pool();
  std::shared_ptr<PreambleCache> preambles = make_preamble_cache();
};

}  // namespace downpour::data
