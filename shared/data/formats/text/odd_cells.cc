#include "shared/data/formats/text/odd_cells.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace downpour::data {
namespace {

constexpr size_t kMarksMax = 3;
constexpr size_t kGradesMax = 20;  // different numbers that may be classes or grades

// In lower case.
constexpr std::array kUsualMarks = {"-",    "--",  "---",     ".",       "..",       "*",    "?",
                                    "na",   "n/a", "#n/a",    "n.a.",    "nan",      "null", "nil",
                                    "none", "nd",  "unknown", "missing", "undefined"};

bool is_usual_mark(std::string text) {
  for (char& c : text) c = char(std::tolower(uint8_t(c)));
  return std::ranges::find(kUsualMarks, text) != kUsualMarks.end();
}

bool is_digit_at(std::string_view text, size_t i) {
  return i < text.size() && std::isdigit(uint8_t(text[i])) != 0;
}

/// Removes a currency or a percent sign from either end of `text`, and blanks.
void strip(std::string_view& text) {
  constexpr std::array<std::string_view, 9> kSigns = {"$",   "%",   "€",   "£", "¥",
                                                      "USD", "EUR", "GBP", "₹"};
  for (const std::string_view sign : kSigns) {
    if (text.starts_with(sign)) {
      text.remove_prefix(sign.size());
    } else if (text.ends_with(sign)) {
      text.remove_suffix(sign.size());
    }
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
}

}  // namespace

std::set<std::string> missing_marks(Records records, size_t index, const Column& column,
                                    bool may_be_classes) {
  if (column.is_numeric() || column.numbers.size() * 2 < column.cells || column.numbers.empty())
    return {};
  std::set<std::string> marks;
  double ignored = 0;
  for (const auto& record : records) {
    const std::string& cell = record[index];
    if (cell.empty() || column.marks.contains(cell) || number_of(cell, ignored)) continue;
    marks.insert(cell);
    if (marks.size() > kMarksMax) return {};
  }
  const std::set<double> numbers(column.numbers.begin(), column.numbers.end());
  if (numbers.size() > kGradesMax) return marks;
  return !may_be_classes && std::ranges::all_of(marks, is_usual_mark) ? marks
                                                                      : std::set<std::string>();
}

bool is_formatted_number(std::string_view text) {
  strip(text);
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  strip(text);
  size_t i = 0;
  while (is_digit_at(text, i)) ++i;
  if (i == 0) return false;
  const char separator = i < text.size() ? text[i] : '\0';
  const auto is_group = [&] {
    return i < text.size() && text[i] == separator && is_digit_at(text, i + 1) &&
           is_digit_at(text, i + 2) && is_digit_at(text, i + 3) && !is_digit_at(text, i + 4);
  };
  if (i <= 3 && (separator == ',' || separator == '.' || separator == '\'' || separator == ' '))
    while (is_group()) i += 4;
  if (i == text.size()) return true;
  if (text[i] != ',' && text[i] != '.') return false;
  return is_digit_at(text, i + 1) &&
         std::ranges::all_of(text.substr(i + 1), [](char c) { return c >= '0' && c <= '9'; });
}

std::string formatted_number(Records records, size_t index, const Column& column) {
  if (column.is_numeric()) return "";
  size_t numbers = 0, cells = 0;
  std::string example;
  double ignored = 0;
  for (const auto& record : records) {
    const std::string& cell = record[index];
    if (cell.empty() || column.marks.contains(cell)) continue;
    ++cells;
    const bool plain = number_of(cell, ignored);
    const bool formatted = !plain && is_formatted_number(cell);
    numbers += plain || formatted;
    if (formatted && example.empty()) example = cell;
  }
  return numbers * 10 >= cells * 9 ? example : "";
}

}  // namespace downpour::data
