// A tree of TOML text that stores the place of each value, so that every error can name
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
  bool loose = false;           // from an override or ${NAME}: `text` may be read as any type
  std::vector<TomlNode> items;  // kArray
  std::vector<std::pair<std::string, TomlNode>> entries;  // kTable
  std::string where;                                      // "job.toml:12:3", "--set train.epochs"
  std::string key_where;                                  // place of its key
  std::string origin;                                     // "job.toml:12", "--set", "environment"

  const TomlNode* find(std::string_view name) const;
  TomlNode* find(std::string_view name);
  /// Returns "an integer", "a table" and so on, for messages.
  const char* kind_name() const;
};

/// Parses TOML text. Errors: kConfig with file:line:column, also for text beyond the limits of
/// toml_limits.h.
Result<TomlNode> parse_toml(std::string_view text, const std::string& path);

/// Parses one TOML value. Text that is not a TOML value becomes a string. The result is always
/// loose.
TomlNode parse_loose_value(std::string_view text);

/// Returns a double-quoted TOML string.
std::string toml_quoted(std::string_view text);

/// Returns a bare key if TOML allows it, otherwise a quoted one.
std::string toml_key(std::string_view name);

}  // namespace downpour
