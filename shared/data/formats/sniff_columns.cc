#include "shared/data/formats/sniff_columns.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "shared/base/number_text.h"
#include "shared/data/records/delimited.h"
#include "shared/data/values/fields.h"
#include "shared/data/values/label_texts.h"
#include "shared/job/coarse_floats.h"
#include "shared/job/formats.h"
#include "shared/job/losses.h"
#include "shared/job/validate_support.h"

namespace downpour::data {
namespace {

// The most usual names first: in a file with the columns x, y and label, the target is label.
constexpr std::array kTargetNames = {"label",    "labels",   "target",    "click",   "clicked",
                                     "is_click", "class",    "y",         "outcome", "survived",
                                     "churn",    "is_fraud", "converted", "rating",  "ratings"};

// Names of columns whose integers are ids: last words, and whole names.
constexpr std::array kIdWords = {"id",  "ids",     "uid",      "userid", "itemid", "movieid",
                                 "zip", "zipcode", "postcode", "sku",    "isbn"};
constexpr std::array kIdNames = {"user",  "item", "movie",    "product",   "customer",
                                 "index", "row",  "rownames", "row_number"};
// The name that pandas gives to an index that it finds in a file, with a number behind it.
constexpr std::string_view kUnnamed = "unnamed: ";
// Last words of the names of columns that have a moment.
constexpr std::array kTimeWords = {"timestamp", "datetime", "date", "time", "ts", "at"};
// Last words of the names of targets that are numbers, also if all of them are small integers.
constexpr std::array kNumberWords = {"rating", "ratings", "stars", "score",
                                     "count",  "price",   "sales", "revenue"};
// Last words of the names of targets whose integers are classes, also if there are many of them.
constexpr std::array kClassWords = {"label", "labels", "target", "class",   "y",
                                    "type",  "kind",   "digit",  "category"};
constexpr uint32_t kNumberedClassesMax = 10;  // of a target with another name

constexpr double kEarliestTime = 1e7;  // 19990101 as a number, or 1970 in seconds

std::string lower(std::string text) {
  for (char& c : text) c = char(std::tolower(uint8_t(c)));
  return text;
}

/// Returns the last word of a name in lower case: "id" for "user_id", "UserId" and "user id".
std::string last_word(const std::string& name) {
  size_t begin = name.size();
  while (begin > 0 && std::isalpha(uint8_t(name[begin - 1]))) {
    --begin;
    const bool camel =
        std::isupper(uint8_t(name[begin])) && begin > 0 && std::islower(uint8_t(name[begin - 1]));
    if (camel) break;
  }
  return lower(name.substr(begin));
}

template <typename Words>
bool ends_in(const std::string& name, const Words& words) {
  return std::ranges::find(words, last_word(name)) != words.end();
}

bool names_ids(const std::string& name) {
  const std::string lowered = lower(name);
  return ends_in(name, kIdWords) || lowered.starts_with(kUnnamed) ||
         std::ranges::find(kIdNames, lowered) != kIdNames.end();
}

bool is_integer(double x) { return x == std::floor(x); }

/// Returns true if all cells differ, as far as they were tracked.
bool all_differ(const Column& column) {
  if (column.cells < kFewestToJudge) return false;
  if (column.is_numeric()) {
    return std::set<double>(column.numbers.begin(), column.numbers.end()).size() ==
           column.numbers.size();
  }
  return column.texts.size() == std::min(column.cells, kDistinctMax) &&
         std::ranges::all_of(column.texts, [](const auto& text) { return text.second == 1; });
}

/// Returns true for texts such as "2026-11-26", "26/11/2026" and "14:05:00".
bool is_moment(const std::string& text) {
  return text.find_first_of("0123456789") != std::string::npos &&
         text.find_first_of("-/:") != std::string::npos;
}

/// Returns true for texts that begin with a day, such as "2026-11-26T08:00:00" and "26.11.2026".
bool is_dated(std::string_view text) {
  std::array<size_t, 3> digits{};  // of year, month and day in any order
  char mark = 0;
  for (size_t part = 0; part < digits.size(); ++part) {
    const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    digits[part] = end;
    text.remove_prefix(end);
    if (part + 1 == digits.size()) break;
    if (text.find_first_of("-/.") != 0) return false;
    if (std::exchange(mark, text[0]) != text[0] && part > 0) return false;
    text.remove_prefix(1);
  }
  const auto [first, second, third] = digits;
  const auto is_short = [](size_t n) { return n == 1 || n == 2; };
  return is_short(second) && ((first == 4 && is_short(third)) || (is_short(first) && third == 4));
}

/// Returns true for hashes and other integers of 64 bits that no number of a model can hold
/// exactly.
bool has_hashes(const Column& column) {
  constexpr double kExactMax = 9007199254740992;  // 2^53
  constexpr double kLargest = 18446744073709551616.0;
  const auto is_large = [](double x) { return std::abs(x) > kExactMax; };
  const auto is_digits = [](const auto& text) {
    return text.first.find_first_not_of("0123456789", text.first[0] == '-' ? 1 : 0) ==
           std::string::npos;
  };
  return std::ranges::any_of(column.numbers, is_large) &&
         std::ranges::all_of(column.numbers, [](double x) { return std::abs(x) <= kLargest; }) &&
         std::ranges::all_of(column.texts, is_digits);
}

/// Returns true if all numbers are seconds or milliseconds from 1990 to 2100 in Unix time.
bool has_unix_times(const Column& column) {
  constexpr double kFirst = 631152000, kLast = 4102444800;
  const auto within = [&](double unit) {
    return std::ranges::all_of(column.numbers, [&](double x) {
      return is_integer(x) && x >= kFirst * unit && x < kLast * unit;
    });
  };
  return column.cells >= kFewestToJudge && (within(1) || within(1000));
}

bool has_dates(const Column& column) {
  return !column.is_numeric() && column.cells >= kFewestToJudge && !column.texts.empty() &&
         std::ranges::all_of(column.texts, [](const auto& text) { return is_dated(text.first); });
}

bool has_moments(const Column& column) {
  if (column.is_numeric())
    return std::ranges::all_of(column.numbers, [](double x) { return x >= kEarliestTime; });
  return !column.texts.empty() &&
         std::ranges::all_of(column.texts, [](const auto& text) { return is_moment(text.first); });
}

/// Returns whether the ops of a numeric column compute with 64-bit floats.
bool is_read_with_doubles(const Column& column) {
  const auto [least, most] = std::ranges::minmax(column.numbers);
  return floats_are_coarse_between(least, most);
}

/// Numbers become their quantiles, so that outliers and long tails do no harm. A missing value
/// becomes the median of the sample.
FieldSpec numeric_field(const std::string& name, Column column) {
  std::erase_if(column.numbers, [](double x) { return !std::isfinite(x); });
  if (column.numbers.empty()) column.numbers = {0};
  const auto median = column.numbers.begin() + ptrdiff_t(column.numbers.size() / 2);
  std::nth_element(column.numbers.begin(), median, column.numbers.end());
  return {.name = name, .fallback = str(float(*median)), .transform = {ops::Quantile{}}};
}

}  // namespace

void Column::add_text(const std::string& text, std::optional<double> number) {
  ++cells;
  words += size_t(std::count(text.begin(), text.end(), ' ')) + 1;
  if (texts.size() < kDistinctMax || texts.contains(text)) ++texts[text];
  if (number) {
    numbers.push_back(*number);
  } else {
    numeric = false;
  }
}

void Column::add_number(double number) { add_text(number_text(number), number); }

bool Column::loses_differences() const {
  if (!is_numeric() || texts.size() < kFewestToJudge) return false;
  std::set<float> floats;
  for (const double number : numbers) floats.insert(float(number));
  return floats.size() * 2 < texts.size();
}

uint32_t classes_of(const std::set<double>& values, size_t records) {
  const auto within = [&](std::set<double> allowed) {
    return std::includes(allowed.begin(), allowed.end(), values.begin(), values.end());
  };
  if (within({0, 1}) || within({-1, 1})) return 2;
  if (values.size() > kClassesMax || values.size() * 10 > records || values.empty()) return 0;
  for (const double value : values)
    if (value < 0 || value != std::floor(value)) return 0;
  const double top = *values.rbegin();
  return top < double(2 * values.size()) ? uint32_t(top) + 1 : 0;
}

std::string said(uint32_t classes) {
  if (classes == 0) return "regression";
  return classes == 2 ? "binary" : str(classes, " classes");
}

namespace {

constexpr size_t kClassRecords =
    3;  // texts of which each occurs less often on average are no classes

}  // namespace

uint32_t numbered_classes(const std::string& name, const std::set<double>& values, size_t records) {
  const uint32_t classes = classes_of(values, records);
  const bool counts =
      ends_in(name, kNumberWords) || (classes > kNumberedClassesMax && !ends_in(name, kClassWords));
  return classes > 2 && counts ? 0 : classes;
}

size_t target_rank(const std::string& name) {
  const auto found = std::ranges::find(kTargetNames, lower(name));
  return found == kTargetNames.end() ? kNoTargetName : size_t(found - kTargetNames.begin());
}

ColumnUse use_of(const std::string& name, const Column& column) {
  if (has_dates(column) || (ends_in(name, kTimeWords) && has_moments(column)))
    return ColumnUse::kTime;
  if (column.is_numeric()) {
    const bool ids = names_ids(name) || has_hashes(column);
    if (!ids && target_rank(name) == kNoTargetName && has_unix_times(column))
      return ColumnUse::kTime;
    if (!ids || !std::ranges::all_of(column.numbers, is_integer)) return ColumnUse::kValues;
    return all_differ(column) ? ColumnUse::kUnique : ColumnUse::kIds;
  }
  return !column.is_text() && all_differ(column) ? ColumnUse::kUnique : ColumnUse::kValues;
}

std::string_view why_left_out(const Roles& roles, const std::string& name, const Column& column) {
  if (std::ranges::count(roles.weights, name) > 0) return "";
  const ColumnUse use = use_of(name, column);
  if (use == ColumnUse::kTime) return "a time";
  return use == ColumnUse::kUnique ? "another value in each record" : "";
}

FieldSpec field_of(const std::string& name, const Column& column) {
  if (column.is_numeric() && use_of(name, column) != ColumnUse::kIds)
    return numeric_field(name, column);
  FieldSpec field{.name = name,
                  .type = FieldType::kString,
                  .fallback = "",
                  .transform = {ops::Hash{.integers = column.is_numeric()}}};
  if (column.is_text()) field.shape = {-1};
  return field;
}

std::optional<FieldSpec> id_field_of(const std::string& name, const Column& column) {
  constexpr size_t kFewest = 3, kMost = 256, kRepeats = 5;
  const size_t values = column.texts.size();
  const bool repeated = values >= kFewest && values <= kMost && values * kRepeats <= column.cells;
  if (!column.is_numeric() || !repeated || !std::ranges::all_of(column.numbers, is_integer) ||
      use_of(name, column) == ColumnUse::kIds)
    return std::nullopt;
  return FieldSpec{.name = name + "_id",
                   .column = name,
                   .type = FieldType::kString,
                   .fallback = "",
                   .transform = {ops::Hash{.integers = true}}};
}

std::optional<FieldSpec> missing_field_of(const std::string& name, const Column& column) {
  if (!column.is_numeric() || !column.lacks_values() || use_of(name, column) == ColumnUse::kIds)
    return std::nullopt;
  return FieldSpec{.name = name + "_missing",
                   .column = name,
                   .type = FieldType::kString,
                   .fallback = "",
                   .positive = {""}};
}

namespace {

/// Returns true for a column of 0 and 1 (or -1 and 1). The sample of a file without a header may
/// have one of them only: files of clicks begin with the label, and may be sorted by it.
bool is_flag(const Column& column, bool header) {
  const std::set<double> values(column.numbers.begin(), column.numbers.end());
  return column.is_numeric() && classes_of(values, column.cells) == 2 &&
         (values.size() == 2 || !header);
}

/// Returns true if the last column is more likely the target than a first column that is_flag().
bool is_likely_target(const std::string& name, const Column& last, bool header) {
  if (!last.is_numeric() && last.texts.size() == 2) return true;
  // The last word of "shot_y" is a coordinate.
  return header && ends_in(name, kTargetNames) && last_word(name) != "y";
}

}  // namespace

size_t choose_target(std::span<const std::string> names, std::span<const Column> columns,
                     bool header, std::string& why) {
  if (const auto best = std::ranges::min_element(names, {}, target_rank);
      header && target_rank(*best) != kNoTargetName) {
    why = "by its name";
    return size_t(best - names.begin());
  }
  if (is_flag(columns[0], header) && !is_likely_target(names.back(), columns.back(), header)) {
    why = "the first column, 0 or 1";
    return 0;
  }
  size_t chosen = columns.size();
  for (size_t i = columns.size(); i-- > 0;) {
    if (use_of(names[i], columns[i]) != ColumnUse::kValues) continue;
    if (chosen == columns.size()) {
      chosen = i;
      why =
          i + 1 == columns.size() ? "the last column" : "the last column that is no id and no time";
    }
    if (columns[i].is_text()) continue;
    if (i != chosen) why = "the last column that is no text, id or time";
    return i;
  }
  // A text is a target only if nothing else is.
  if (chosen < columns.size()) return chosen;
  why = "the last column";
  return columns.size() - 1;
}

bool names_target(const std::vector<Roles::Target>& targets, const std::string& name) {
  return std::ranges::find(targets, name, &Roles::Target::name) != targets.end();
}

std::string leave_out_unlabelled(size_t missing, size_t records, FileFacts& facts) {
  if (facts.target.find('`') != std::string::npos) return {};
  facts.filter = str("!missing(`", facts.target, "`)");
  return str("; records without a target are left out (", missing, " of the ", records,
             " in the sample; data.filter)");
}

std::string no_target(bool known, std::string_view part) {
  return known ? str("; the target of the job is a ", part, " without one value in each record")
               : str("; no ", part, " is clearly the target: set model.target");
}

void take_weight(const Roles& roles, FieldSpec& field) {
  if (std::ranges::count(roles.weights, field.name) == 0) return;
  field.transform.clear();
  field.fallback.reset();
}

namespace {

/// Returns the two texts of a column, the positive class last: that of second_is_positive(),
/// otherwise the rarer text.
std::vector<std::string> two_classes(const Column& column) {
  const auto& [first, first_count] = *column.texts.begin();
  const auto& [second, second_count] = *column.texts.rbegin();
  const bool ordered = second_is_positive(first, second).value_or(second_count <= first_count);
  return ordered ? std::vector{first, second} : std::vector{second, first};
}

}  // namespace

void describe_target(const Roles::Target& target, const Column& column, FileFacts& facts,
                     std::string& note) {
  FieldSpec field{.name = target.name};
  const bool classified = target.loss == "softmax_cross_entropy";
  const LossInfo* const loss = find_loss(target.loss);
  uint32_t classes = 2;
  if (column.is_numeric()) {
    const std::set<double> values(column.numbers.begin(), column.numbers.end());
    classes = numbered_classes(target.name, values, column.cells);
    if (classified || (target.loss.empty() && classes > 2)) field.type = FieldType::kInt64;
    // Such as 1 and 2. The larger number is the positive class.
    if (classes != 2 && target.loss.empty() && !ends_in(target.name, kNumberWords) &&
        values.size() == 2 && std::ranges::all_of(values, is_integer) && column.texts.size() == 2 &&
        column.cells >= 2 * kClassRecords &&
        traits_of(facts.format).layout == RecordLayout::kTable) {
      field.type = FieldType::kString;
      field.classes = two_classes(column);
      classes = 2;
      note = str(", 1 means \"", shown(field.classes[1]), "\"");
    }
  } else if (!column.texts.empty()) {
    field.type = FieldType::kString;
    std::string rare, frequent;
    for (const auto& [text, count] : column.texts) {
      if (rare.empty() || count < column.texts.at(rare)) rare = text;
      if (frequent.empty() || count > column.texts.at(frequent)) frequent = text;
    }
    // Texts do not fit other losses. The check of the job says so.
    const size_t texts = column.texts.size();
    const bool repeated = texts <= kClassesMax && texts * kClassRecords <= column.cells;
    if (texts == 1) {
      field.classes = {frequent};  // the file may be sorted, so the caller looks at all records
    } else if (loss != nullptr && loss->target == TargetType::kBinary && texts > 2 &&
               !(target.may_be_class && repeated)) {
      // One class against all others.
      field.positive = {frequent};
      note = str(", 1 means \"", shown(frequent), "\" and 0 the ", texts - 1, " other values");
    } else if (texts == 2 && !classified) {
      field.classes = two_classes(column);
      note = str(", 1 means \"", shown(field.classes[1]), "\"");
    } else if (texts >= 2 &&
               (classified || ((target.loss.empty() || target.may_be_class) && repeated))) {
      for (const auto& [text, count] : column.texts) field.classes.push_back(text);
      classes = uint32_t(texts);
      note = str(", the most frequent is \"", shown(frequent), "\"");
    }
  }
  if (facts.target.empty()) facts.target = target.name, facts.classes = classes;
  facts.fields.push_back(std::move(field));
}

namespace {

/// Returns the name of the field of a column: "_" stands for what it can't contain.
std::string field_name(std::string column) {
  constexpr size_t kLongest = 150;  // leaves room for "_missing"
  // Two dots, as in the names that R makes, would be a run of names.
  for (size_t at = 0; (at = column.find("..", at)) != std::string::npos;)
    column.replace(at, 2, "__");
  if (can_be_named(column) && column.size() <= kLongest) return column;
  for (char& c : column)
    if (!can_be_named({'_', c})) c = '_';
  if (column.starts_with('.')) column[0] = '_';
  size_t end = std::min(column.size(), kLongest);
  while (end < column.size() && (uint8_t(column[end]) & 0xc0) == 0x80) --end;  // inside a letter
  return column.substr(0, end);
}

}  // namespace

void rename_field(FieldSpec& field, std::string& place) {
  std::string name = field_name(field.name);
  if (name == field.name) return;
  if (place.empty()) place = field.name;
  field.name = std::move(name);
}

namespace {

/// Returns the roles with the names of columns where they have those of fields.
Roles by_column(Roles roles, const std::vector<std::string>& columns) {
  const auto rename = [&](std::string& name) {
    if (std::ranges::count(columns, name) > 0) return;
    const auto column = std::ranges::find(columns, name, field_name);
    if (column != columns.end()) name = *column;
  };
  for (Roles::Target& target : roles.targets) rename(target.name);
  for (std::string& name : roles.weights) rename(name);
  return roles;
}

/// Gives each field a name that fields can have, and adds to `note` which columns have others.
void rename_fields(const std::vector<std::string>& columns, FileFacts& facts, std::string& note) {
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::count(columns, name) > 0 ||
           std::ranges::count(facts.fields, name, &FieldSpec::name) > 0;
  };
  for (FieldSpec& field : facts.fields) {
    std::string name = field_name(field.name);
    if (name == field.name) continue;
    while (is_taken(name)) name += '_';
    if (facts.target == field.name) facts.target = name;
    if (field.column.empty()) {
      field.column = field.name;
      note += str("; the column ", shown(field.name), " is the field ", shown(name));
    }
    field.name = std::move(name);
  }
}

}  // namespace

std::string describe_columns(const Roles& given, const TableColumns& table,
                             std::vector<std::string>& names, FileFacts& facts) {
  std::string why, note;
  const auto is_column = [&](const std::string& name) {
    return std::ranges::count(names, name) > 0;
  };
  const Roles roles = by_column(given, names);
  std::vector<Roles::Target> targets = present(roles.targets, is_column);
  if (targets.empty()) {
    std::string& guess = names[choose_target(names, table.columns, table.named, why)];
    if (!table.named) guess = "label";
    targets = {{guess, ""}};
  } else {
    why = "by the job";
  }

  std::string left_out;
  size_t numeric = 0, categorical = 0, text = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const Column& column = table.columns[i];
    const std::string& name = names[i];
    if (names_target(targets, name)) continue;
    const std::string_view why_not =
        column.cells == 0 ? "no values" : why_left_out(roles, table.titles[i], column);
    if (!why_not.empty()) {
      left_out += str(left_out.empty() ? "; left out: " : ", ", name, " (", why_not, ")");
      continue;
    }
    facts.fields.push_back(field_of(name, column));
    take_weight(roles, facts.fields.back());
    if (facts.fields.back().transform.empty()) continue;
    for (auto& more : {id_field_of(name, column), missing_field_of(name, column)})
      if (more && !is_column(more->name)) facts.fields.push_back(*more);
    const bool is_number = column.is_numeric() && use_of(name, column) != ColumnUse::kIds;
    (is_number ? numeric : column.is_text() ? text : categorical) += 1;
    if (is_number && !is_read_with_doubles(column) && column.loses_differences())
      warn_of_rounding("column", name, facts);
  }
  for (const Roles::Target& target : targets) {
    const auto i = size_t(std::ranges::find(names, target.name) - names.begin());
    describe_target(target, table.columns[i], facts, note);
    if (table.columns[i].loses_differences()) warn_of_rounding("target", target.name, facts);
  }
  const Column& predicted =
      table.columns[size_t(std::ranges::find(names, targets[0].name) - names.begin())];
  rename_fields(names, facts, left_out);
  if (table.filters && predicted.lacks_values() && predicted.cells > 0) {
    left_out +=
        leave_out_unlabelled(predicted.missing(), predicted.missing() + predicted.cells, facts);
  }
  return str(numeric, " numeric, ", categorical, " categorical",
             text > 0 ? str(", ", text, " text") : "", " columns; target \"", facts.target, "\" (",
             why, "; ", said(facts.classes), note, ")", left_out);
}

}  // namespace downpour::data
