// Helpers and error texts of the visitor that reads a job (keys.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/number_text.h"
#include "shared/base/result.h"
#include "shared/job/job_tree.h"
#include "shared/job/nearest_name.h"
#include "shared/job/toml_tree.h"

namespace downpour {

/// The state of one read: the origins of the keys, and the first error.
struct Context {
  Origins& origins;
  std::optional<Error> error;  // the first error; nothing is read after it

  void fail(std::string what, std::string where, std::string hint, const char* id) {
    if (error) return;
    error = Error{ErrorCode::kConfig, std::move(what), std::move(where), std::move(hint), id};
  }
};

/// Returns "a, b, c".
inline std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (!name.empty()) text += str(text.empty() ? "" : ", ", name);
  }
  return text;
}

/// Returns a hint with the nearest name, or, if no name is near, `say` and all names.
inline std::string hint_for(std::string_view word, const std::vector<std::string>& names,
                            std::string_view say) {
  const std::string nearest = nearest_name(word, names);
  return nearest.empty() ? str(say, list_of(names)) : str("did you mean `", nearest, "`?");
}

/// Returns the value of a string that came from ${NAME} or from an override, read as TOML. Other
/// nodes are returned unchanged.
inline TomlNode loosened(const TomlNode& node) {
  if (!node.loose || node.kind != TomlNode::Kind::kString) return node;
  TomlNode value = parse_loose_value(node.text);
  value.where = node.where, value.key_where = node.key_where, value.origin = node.origin;
  return value;
}

}  // namespace downpour
