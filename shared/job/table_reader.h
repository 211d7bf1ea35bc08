// TableReader: takes keys from one table of a job file, converts their values, and reports the
// first error with its place. The visitor in job_reader.cc builds on it.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/number_text.h"
#include "shared/job/reader_support.h"
#include "shared/job/toml_tree.h"

namespace downpour {

class TableReader {
 public:
  using Kind = TomlNode::Kind;
  /// `path` is the table's key, as in "model.layers[1]".
  TableReader(const TomlNode& table, std::string path, Context& context)
      : table_(table), path_(std::move(path)), context_(context) {}

  /// Reports keys that are planned but not implemented: they get their own error instead of
  /// "unknown".
  void unavailable(std::initializer_list<const char*> names) {
    later_.assign(names.begin(), names.end());
    for (const auto& [key, node] : table_.entries) {
      if (std::find(later_.begin(), later_.end(), key) == later_.end()) continue;
      context_.fail(str("`", path_of(key), "` is not available in this version"), node.key_where,
                    "remove it", "DP-2105");
    }
  }

  /// Reports the first key that nothing has taken.
  void finish() {
    for (const auto& [key, node] : table_.entries) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      if (std::find(later_.begin(), later_.end(), key) != later_.end()) continue;
      // An unknown key may be the reason why something else seems to be missing. But an error in a
      // value is reported first.
      context_.fail(str("unknown key `", path_of(key), "`"), node.key_where,
                    hint_for(key, known_,
                             str("`", path_.empty() ? "the top level" : path_, "` has the keys ")),
                    "DP-2103");
    }
  }

 protected:
  std::string path_of(std::string_view name) const {
    if (path_.empty()) return std::string(name);
    return std::string(path_).append(1, '.').append(toml_key(name));
  }

  /// Returns the value of a key, or null if the table has none or an earlier key was wrong.
  const TomlNode* take(const char* name) {
    known_.emplace_back(name);
    if (context_.error) return nullptr;
    const TomlNode* node = table_.find(name);
    if (node != nullptr) context_.origins[path_of(name)] = {node->origin, node->where};
    return node;
  }

  void wrong_type(const TomlNode& node, const char* name, const std::string& wanted) {
    context_.fail(str("`", path_of(name), "` must be ", wanted, ", but is ", node.kind_name()),
                  node.where, {}, "DP-2104");
  }

  void bad_value(const TomlNode& node, const char* name, const std::string& found,
                 std::string hint) {
    context_.fail(str("`", path_of(name), "` can't be ", found), node.where, std::move(hint),
                  "DP-2106");
  }

  void not_available(const TomlNode& node, const char* name, const std::string& found,
                     const std::vector<std::string>& choices) {
    context_.fail(str("`", path_of(name), " = ", found, "` is not available in this version"),
                  node.where, str("available in this version: ", list_of(choices)), "DP-2105");
  }

  void fail_at(const TomlNode& node, Error error) {
    context_.fail(std::move(error.what), node.where, std::move(error.hint), "DP-2108");
  }

  bool read_text(const TomlNode& node, const char* name, std::string& value) {
    if (node.kind != Kind::kString && !node.loose) return wrong_type(node, name, "a string"), false;
    value = node.text;
    return true;
  }

  bool read_scalar_text(const TomlNode& node, const char* name, std::string& value) {
    switch (node.kind) {
      case Kind::kString:
        value = node.text;
        return true;
      case Kind::kInteger:
        value = str(node.integer);
        return true;
      case Kind::kFloat:
        value = number_text(node.real);
        return true;
      default:
        return wrong_type(node, name, "a string or a number"), false;
    }
  }

  bool read_real(const TomlNode& found, const char* name, double& value) {
    const TomlNode node = loosened(found);
    if (node.kind == Kind::kInteger) {
      value = double(node.integer);
    } else if (node.kind == Kind::kFloat) {
      value = node.real;
    } else {
      return wrong_type(node, name, "a number"), false;
    }
    if (!std::isfinite(value)) return bad_value(node, name, "infinite or NaN", {}), false;
    return true;
  }

  template <typename T>
  bool read_number(const TomlNode& found, const char* name, T& value, double min, double max) {
    const TomlNode node = loosened(found);
    if (node.kind != Kind::kInteger) return wrong_type(node, name, "an integer"), false;
    if (double(node.integer) < min || double(node.integer) > max) {
      bad_value(node, name, str(node.integer),
                str("it must be from ", uint64_t(min), " to ", uint64_t(max)));
      return false;
    }
    value = T(node.integer);
    return true;
  }

  const TomlNode& table_;
  std::string path_;
  Context& context_;
  std::vector<std::string> known_, later_;
};

}  // namespace downpour
