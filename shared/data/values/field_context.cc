#include "shared/data/values/field_context.h"

#include "shared/data/records/preamble_cache.h"
#include "shared/data/values/vocabulary.h"

namespace downpour::data {

std::shared_ptr<VocabularyPool> make_vocabulary_pool() {
  return std::make_shared<VocabularyPool>();
}

std::shared_ptr<PreambleCache> make_preamble_cache() { return std::make_shared<PreambleCache>(); }

}  // namespace downpour::data
