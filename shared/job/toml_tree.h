// TOML text as a tree that remembers where each value stands, so that every error can name
// file:line:column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace downpour {

/// A TOML value. Tables keep the order of the text.
struct TomlNode {
  enum class Kind : uint8_t { kTable, kArray, kString, kInteger, kFloat, kBoolean, kOther };
  Kind kind = Kind::kTable;
  std::string text;  // kString; the raw text of a loose value
  int64_t integer = 0;
  double real = 0;
  bool boolean = false;
  bool loose = false;  // from an override or ${NAME}: `text` may be read as whatever type is wanted
  std::vector<TomlNode> items;                            // kArray
  std::vector<std::pair<std::string, TomlNode>> entries;  // kTable
  std::string where;                                      // "job.toml:12:3", "--set train.epochs"
  std::string key_where;                                  // of its key
  std::string origin;                                     // "job.toml:12", "--set", "environment"

  const TomlNode* find(std::string_view name) const;
  TomlNode* find(std::string_view name);
  /// "an integer", "a table": for messages.
  const char* kind_name() const;
};

/// Errors: kConfig with file:line:column, also for text beyond the limits of toml_limits.h.
Result<TomlNode> parse_toml(std::string_view text, const std::string& path);

/// One value as TOML writes it; text that is no TOML value is a string. Always loose.
TomlNode parse_loose_value(std::string_view text);

/// A double-quoted TOML string.
std::string toml_quoted(std::string_view text);

/// A bare key where TOML allows it, else a quoted one.
std::string toml_key(std::string_view name);

}  // namespace downpour
