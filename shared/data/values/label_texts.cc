#include "shared/data/values/label_texts.h"

#include <utility>

namespace downpour::data {

void TextCounter::add(std::string_view text) {
  const std::lock_guard lock(mutex_);
  const auto known = texts_.find(text);
  if (known != texts_.end()) {
    ++known->second;
  } else if (texts_.size() < most_) {
    texts_.emplace(text, 1);
  } else {
    overflowed_ = true;
  }
}

std::map<std::string, uint64_t, std::less<>> TextCounter::texts() const {
  const std::lock_guard lock(mutex_);
  return texts_;
}

bool TextCounter::overflowed() const {
  const std::lock_guard lock(mutex_);
  return overflowed_;
}

std::shared_ptr<const LabelTexts> LabelTexts::of(const FieldSpec& field) {
  if (!field.is_label()) return nullptr;
  auto texts = std::make_shared<LabelTexts>();
  for (const std::string& positive : field.positive) texts->numbers_.emplace(positive, 1.0F);
  if (!field.positive.empty()) texts->other_ = 0.0F;
  for (size_t i = 0; i < field.classes.size(); ++i)
    texts->numbers_.emplace(field.classes[i], float(i));
  return texts;
}

std::shared_ptr<const LabelTexts> LabelTexts::counting(std::shared_ptr<TextCounter> counter) {
  auto texts = std::make_shared<LabelTexts>();
  texts->other_ = 0.0F;
  texts->counter_ = std::move(counter);
  return texts;
}

std::optional<float> LabelTexts::number_of(std::string_view text) const {
  if (counter_ != nullptr) counter_->add(text);
  const auto known = numbers_.find(text);
  return known == numbers_.end() ? other_ : std::optional(known->second);
}

}  // namespace downpour::data
