// Plain names: the names from a peer or a file that may become part of a path.
#pragma once

#include <string_view>

namespace downpour {

/// Returns true for [A-Za-z0-9_][A-Za-z0-9_.-]{0,127}. Such names are safe in paths and logs.
constexpr bool is_plain_name(std::string_view name) {
  constexpr size_t kBytesMax = 128;
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty() || name.size() > kBytesMax || !is_word(name[0])) return false;
  for (const char c : name) {
    if (!is_word(c) && c != '.' && c != '-') return false;
  }
  return true;
}

/// Returns true if `path` is `folder`, a slash, and plain names separated by slashes. A peer may
/// choose such a path, because it stays below a folder that the peer did not choose.
constexpr bool is_plain_path_beneath(std::string_view folder, std::string_view path) {
  if (folder.empty() || !path.starts_with(folder)) return false;
  path.remove_prefix(folder.size());
  if (path.empty() || path[0] != '/') return false;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (!is_plain_name(name)) return false;
    path.remove_prefix(name.size());
  }
  return true;
}

}  // namespace downpour
