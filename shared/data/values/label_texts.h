// LabelTexts: the texts of a label, and the number that each reads as.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "shared/job/job.h"

namespace downpour::data {

/// Returns whether `second` is the positive one of two labels: the larger number, or "yes" of "yes"
/// and "no". Returns nothing if neither rule applies.
std::optional<bool> second_is_positive(std::string_view first, std::string_view second);

/// Counts how many records have each text of a label. Safe to use from any thread.
class TextCounter {
 public:
  /// Keeps at most `most` different texts.
  explicit TextCounter(size_t most) : most_(most) {}
  void add(std::string_view text);
  /// Returns the texts in ascending order, with the number of their records.
  std::map<std::string, uint64_t, std::less<>> texts() const;
  /// Returns true if there are more texts than are kept.
  bool overflowed() const;

 private:
  const size_t most_;
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t, std::less<>> texts_;
  bool overflowed_ = false;
};

/// Reads texts as numbers, as the keys `positive` or `classes` of a field say.
class LabelTexts {
 public:
  /// Returns null if the field has neither key.
  static std::shared_ptr<const LabelTexts> of(const FieldSpec& field);
  /// Returns an object that adds every text to `counter` and reads it as 0.
  static std::shared_ptr<const LabelTexts> counting(std::shared_ptr<TextCounter> counter);

  /// Returns nothing if the text is none of the classes.
  std::optional<float> number_of(std::string_view text) const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, float, Hash, std::equal_to<>> numbers_;
  std::optional<float> other_;  // of a text that is not in numbers_
  std::shared_ptr<TextCounter> counter_;
};

}  // namespace downpour::data
