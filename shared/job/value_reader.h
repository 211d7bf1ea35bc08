// ValueReader: reads single values and plain lists from one table of a job file. The visitor in
// job_reader.cc builds on it.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shared/job/enum_name.h"
#include "shared/job/interval.h"
#include "shared/job/keys.h"
#include "shared/job/runs.h"
#include "shared/job/table_reader.h"

namespace downpour {

/// Each function reads the key `name` into `value`, and reports a wrong type or value. It does not
/// change `value` if the table lacks the key.
class ValueReader : protected TableReader {
 public:
  using TableReader::finish;
  using TableReader::TableReader;
  using TableReader::unavailable;

  void text(const char* name, std::string& value) {
    if (const TomlNode* node = take(name)) read_text(*node, name, value);
  }

  void optional_text(const char* name, std::optional<std::string>& value) {
    const TomlNode* node = take(name);
    if (node == nullptr) return;
    std::string text;
    if (node->kind == Kind::kArray && node->items.empty()) {
      value = "";
    } else if (read_scalar_text(*node, name, text)) {
      value = std::move(text);
    }
  }

  void flag(const char* name, bool& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    if (node.kind != Kind::kBoolean) return wrong_type(node, name, "true or false");
    value = node.boolean;
  }

  template <std::unsigned_integral T>
  void number(const char* name, T& value, double min, double max) {
    if (const TomlNode* node = take(name)) read_number(*node, name, value, min, max);
  }

  /// Reads "10m", "epoch", or a number of steps.
  void interval(const char* name, Interval& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    if (node.kind == Kind::kInteger) {
      uint64_t steps = 0;
      if (read_number(node, name, steps, 1, 1e15)) value = Interval{.steps = steps};
      return;
    }
    if (node.kind != Kind::kString) {
      return wrong_type(node, name, "a time as in \"10m\", a number of steps, or \"epoch\"");
    }
    const auto read = parse_interval(node.text);
    if (!read) {
      return bad_value(node, name, toml_quoted(node.text),
                       "a time as in \"30s\", \"10m\" or \"1h\", a number of steps, or \"epoch\"");
    }
    value = *read;
  }

  /// Reads a time above 0: "500ms", "30s", "10m".
  void duration(const char* name, int64_t& ns) {
    const TomlNode* node = take(name);
    if (node == nullptr) return;
    if (node->kind != Kind::kString) return wrong_type(*node, name, "a time as in \"30s\"");
    const auto read = parse_duration(node->text);
    if (!read || *read <= 0) {
      return bad_value(*node, name, toml_quoted(node->text),
                       "a time above 0, as in \"500ms\", \"30s\" or \"10m\"");
    }
    ns = *read;
  }

  /// Reads a count whose 0 is written "auto".
  template <std::unsigned_integral T>
  void automatic(const char* name, T& value, double max) {
    const TomlNode* node = take(name);
    if (node == nullptr) return;
    if (node->kind == Kind::kString && node->text == "auto") {
      value = 0;
    } else {
      read_number(*node, name, value, 0, max);
    }
  }

  /// Reads a number, or "auto".
  void learned(const char* name, Learned& value, Range range) {
    std::optional<Learned> read;
    optional_learned(name, read, range);
    if (read) value = *read;
  }
  void optional_learned(const char* name, std::optional<Learned>& value, Range range) {
    const TomlNode* node = take(name);
    if (node == nullptr) return;
    value = Learned{.open = node->kind == Kind::kString && node->text == "auto"};
    if (!value->open) real(name, value->value, range);
  }

  /// Reads "512MiB", "2GB", or a number of bytes. 0 is written "auto".
  void bytes(const char* name, uint64_t& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    if (node.kind == Kind::kString && node.text == "auto") {
      value = 0;
      return;
    }
    if (node.kind != Kind::kString) return (void)read_number(node, name, value, 1, 1e15);
    const auto read = parse_bytes(node.text);
    if (!read || *read == 0) {
      return bad_value(node, name, toml_quoted(node.text),
                       "a size as in \"512MiB\" or \"2GB\", a number of bytes, or \"auto\"");
    }
    value = *read;
  }

  template <std::floating_point T>
  void real(const char* name, T& value, Range range) {
    double read = 0;
    const TomlNode* node = take(name);
    if (node == nullptr || !read_real(*node, name, read)) return;
    const T rounded = T(read);
    const bool low = range.above ? !(double(rounded) > range.min) : !(read >= range.min);
    if (low || !(read <= range.max)) {
      const std::string min = number_text(range.min), max = number_text(range.max);
      const std::string wanted = range.max >= 3e38
                                     ? str(range.above ? "more than " : "at least ", min)
                                 : range.above ? str("more than ", min, " and at most ", max)
                                               : str("from ", min, " to ", max);
      return bad_value(*node, name, number_text(read), str("it must be ", wanted));
    }
    value = rounded;
  }

  void optional_real(const char* name, std::optional<double>& value) {
    double read = 0;
    const TomlNode* node = take(name);
    if (node != nullptr && read_real(*node, name, read)) value = read;
  }

  /// `zero`: how 0 is written; null: as a number.
  void optional_number(const char* name, std::optional<uint64_t>& value, double max,
                       const char* zero = nullptr) {
    constexpr uint64_t kNone = UINT64_MAX;
    uint64_t read = kNone;
    if (zero != nullptr) {
      count_or(name, read, max, zero);
    } else {
      number(name, read, 0, max);
    }
    if (read != kNone) value = read;
  }

  /// Reads a count from 1 to `max`, or `zero`, which is how 0 is written.
  template <std::unsigned_integral T>
  void count_or(const char* name, T& value, double max, const char* zero) {
    const TomlNode* node = take(name);
    if (node == nullptr) return;
    if (loosened(*node).kind != Kind::kString) return (void)read_number(*node, name, value, 1, max);
    if (node->text != zero)
      return bad_value(*node, name, toml_quoted(node->text), str("a number, or \"", zero, "\""));
    value = 0;
  }

  /// Returns the list, or nothing if the job has none or, after an error, if it is not a list.
  std::optional<TomlNode> list(const char* name, const char* wanted) {
    const TomlNode* found = take(name);
    if (found == nullptr) return {};
    TomlNode node = loosened(*found);
    if (node.kind == Kind::kArray) return node;
    wrong_type(node, name, wanted);
    return {};
  }

  void reals(const char* name, std::vector<double>& value) {
    const std::optional<TomlNode> node = list(name, "a list of numbers");
    if (!node) return;
    value.clear();
    for (const TomlNode& item : node->items) {
      if (!read_real(item, name, value.emplace_back())) return;
    }
  }

  /// Reads one of `choices`. The values in `unavailable` are known but not implemented. "*" in it
  /// adds all tables and all values that are or start with a number.
  void choice(const char* name, std::string& value, std::initializer_list<const char*> choices,
              std::initializer_list<const char*> unavailable) {
    choice(name, value, std::span(choices.begin(), choices.size()),
           std::span(unavailable.begin(), unavailable.size()));
  }
  void choice(const char* name, std::string& value, std::span<const char* const> choices,
              std::span<const char* const> unavailable) {
    const TomlNode* node = take(name);
    if (node == nullptr) return;
    const std::vector<std::string> names(choices.begin(), choices.end());
    const std::vector<std::string> others(unavailable.begin(), unavailable.end());
    const bool any_other = !others.empty() && others[0] == "*";
    const TomlNode read = node->kind == Kind::kString ? *node : loosened(*node);
    if (any_other && (read.kind == Kind::kInteger || read.kind == Kind::kTable)) {
      return not_available(*node, name, read.kind == Kind::kInteger ? str(read.integer) : "{...}",
                           names);
    }
    std::string text;
    if (!read_text(*node, name, text)) return;
    if (std::find(names.begin(), names.end(), text) != names.end()) {
      value = std::move(text);
    } else if (std::find(others.begin(), others.end(), text) != others.end() ||
               (any_other && !text.empty() && text[0] >= '0' && text[0] <= '9')) {
      not_available(*node, name, toml_quoted(text), names);
    } else {
      bad_value(*node, name, toml_quoted(text), hint_for(text, names, "use one of: "));
    }
  }

  /// Reads "shard", "off", or the size of a window in records.
  void shuffle(const char* name, std::string& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    uint64_t records = 0;
    if (node.kind == Kind::kInteger) {
      if (read_number(node, name, records, 1, kShuffleRecordsMax)) value = str(records);
    } else if (node.kind != Kind::kString) {
      wrong_type(node, name, "\"shard\", \"off\" or a number of records");
    } else if (node.text != "shard" && node.text != "off") {
      bad_value(node, name, toml_quoted(node.text),
                hint_for(node.text, {"shard", "off"},
                         "use a number of records, as in 10000, or one of: "));
    } else {
      value = node.text;
    }
  }

  template <typename E, size_t N>
  void enumeration(const char* name, E& value, const std::array<EnumName<E>, N>& names,
                   std::initializer_list<const char*> unavailable) {
    const TomlNode* node = take(name);
    std::string text;
    if (node == nullptr || !read_text(*node, name, text)) return;
    std::vector<std::string> choices;
    for (const auto& [word, meaning] : names) {
      if (word == text) {
        value = meaning;
        return;
      }
      choices.emplace_back(word);
    }
    if (std::find(unavailable.begin(), unavailable.end(), text) != unavailable.end()) {
      return not_available(*node, name, toml_quoted(text), choices);
    }
    bad_value(*node, name, toml_quoted(text), hint_for(text, choices, "use one of: "));
  }

  void strings(const char* name, std::vector<std::string>& value, bool runs = false) {
    const std::optional<TomlNode> node = list(name, "a list of strings");
    if (!node) return;
    value.clear();
    for (const TomlNode& item : node->items) {
      if (item.kind != Kind::kString) return wrong_type(item, name, "a list of strings");
      value.push_back(item.text);
    }
    if (!runs) return;
    if (auto expanded = expand_runs(value); !expanded) fail_at(*node, std::move(expanded).error());
  }

  /// Reads a list of counts, or a single count as a list of one.
  void counts(const char* name, std::vector<uint32_t>& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    value.clear();
    const std::vector<TomlNode> single{node};
    for (const TomlNode& item : node.kind == Kind::kArray ? node.items : single) {
      uint32_t count = 0;
      if (!read_number(item, name, count, 1, 1 << 20)) return;
      value.push_back(count);
    }
  }

  void shape(const char* name, std::vector<int64_t>& value) {
    const std::optional<TomlNode> node = list(name, "a list of integers");
    if (!node) return;
    value.clear();
    for (const TomlNode& item : node->items) {
      if (item.kind != Kind::kInteger) return wrong_type(item, name, "a list of integers");
      if (item.integer != -1 && (item.integer < 1 || item.integer > (1 << 24))) {
        return bad_value(item, name, str(item.integer),
                         "a dimension is at least 1, or -1 for any length");
      }
      value.push_back(item.integer);
    }
    if (value.size() > 1 && std::count(value.begin(), value.end(), -1) > 0) {
      bad_value(*node, name, "a list of several dimensions that contains -1",
                "use -1 alone: [-1] is a bag of keys");
    }
  }
};

}  // namespace downpour
