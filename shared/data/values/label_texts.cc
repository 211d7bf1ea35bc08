#include "shared/data/values/label_texts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

namespace downpour::data {
namespace {

struct Answer {
  std::string_view yes, no;
};
constexpr std::array kAnswers{
    Answer{"yes", "no"}, Answer{"true", "false"},        Answer{"y", "n"},
    Answer{"t", "f"},    Answer{"positive", "negative"}, Answer{"pos", "neg"}};

std::optional<double> decimal(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return {};
  return number;
}

}  // namespace

std::optional<bool> second_is_positive(std::string_view first, std::string_view second) {
  if (const auto low = decimal(first), high = decimal(second); low && high) return *low < *high;
  const auto lower = [](std::string_view text) {
    std::string result(text);
    for (char& c : result) c = char(std::tolower(uint8_t(c)));
    return result;
  };
  const std::string one = lower(first), other = lower(second);
  for (const Answer& answer : kAnswers) {
    if (one == answer.no && other == answer.yes) return true;
    if (one == answer.yes && other == answer.no) return false;
  }
  return {};
}

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
