// The files of this repository, for tests that check their text.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

namespace downpour {

/// Calls visit(path, file) for each regular file of the tree: those in the root folder and those
/// below the folders of sources, tests and documents. `path` is relative to `root`.
inline void for_each_file(
    const std::filesystem::path& root,
    const std::function<void(const std::string& path, const std::filesystem::path& file)>& visit) {
  const auto look_at = [&](const std::filesystem::directory_entry& entry) {
    if (entry.is_regular_file())
      visit(entry.path().lexically_relative(root).string(), entry.path());
  };
  for (const char* folder :
       {"schemas", "shared", "ps", "worker", "chief", "tools", "tests", "docs", "cmake"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder))
      look_at(entry);
  }
  for (const auto& entry : std::filesystem::directory_iterator(root)) look_at(entry);
}

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace downpour
