#include "tools/export/words.h"

#include <algorithm>
#include <variant>

#include "shared/data/values/vocabulary.h"
#include "shared/model/compile.h"

namespace downpour::tools {

Result<Words> Words::open(const Job& job, size_t table) {
  DP_TRY(const model::Program program, model::compile(job));
  Words words;
  data::VocabularyPool pool;
  for (const BagInput& bag : program.layout.bags) {
    if (raw(program.layout.tables[bag.table_index]) != table) continue;
    const FieldSpec* const field = job.data.find_field(bag.field);
    if (field == nullptr || std::ranges::count(words.fields_, field->name) > 0) continue;
    for (const TransformSpec& op : field->transform) {
      const auto* const vocabulary = std::get_if<ops::Vocabulary>(&op);
      if (vocabulary == nullptr) continue;
      DP_TRY(auto opened, pool.get(*vocabulary));
      words.fields_.push_back(field->name);
      words.vocabularies_.push_back(std::move(opened));
      words.salts_.push_back(bag.salt);
    }
  }
  return words;
}

std::string_view Words::word(size_t i, uint64_t key) const {
  const data::Vocabulary& vocabulary = *vocabularies_[i];
  const uint64_t number = key - salts_[i];
  return number < vocabulary.size() ? vocabulary.word(number) : std::string_view();
}

std::string Words::all(uint64_t key) const {
  std::string text;
  for (size_t i = 0; i < fields_.size(); ++i) {
    const std::string_view each = word(i, key);
    if (!each.empty()) text.append(text.empty() ? "" : " | ").append(each);
  }
  return text;
}

}  // namespace downpour::tools
