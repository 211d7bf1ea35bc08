// The source tree as the tests of its form read it: its files, their lines and their includes.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace downpour::testing {

/// Returns the paths of all files of the project relative to its root, sorted. Folders that only a
/// build makes are left out.
inline std::vector<std::string> files_of_tree() {
  namespace fs = std::filesystem;
  const fs::path root = DP_SOURCE_DIR;
  std::vector<std::string> paths;
  const auto add = [&](const fs::directory_entry& entry) {
    if (entry.is_regular_file()) paths.push_back(entry.path().lexically_relative(root).string());
  };
  for (const char* folder :
       {"schemas", "shared", "ps", "worker", "chief", "tools", "tests", "docs", "cmake"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) add(entry);
  }
  for (const auto& entry : fs::directory_iterator(root)) add(entry);
  std::sort(paths.begin(), paths.end());
  return paths;
}

inline bool is_in_tree(const std::string& path) {
  return std::filesystem::exists(std::filesystem::path(DP_SOURCE_DIR) / path);
}

inline std::string text_of_file(const std::string& path) {
  std::ifstream in(std::filesystem::path(DP_SOURCE_DIR) / path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline bool is_cpp(std::string_view path) { return path.ends_with(".h") || path.ends_with(".cc"); }

inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

struct Include {
  size_t line = 0;
  std::string path;
};

inline std::vector<Include> includes_of(std::string_view text) {
  std::vector<Include> found;
  size_t number = 0;
  for (std::string_view line : lines_of(text)) {
    ++number;
    if (!line.starts_with("#include ")) continue;
    const size_t begin = line.find_first_of("<\"");
    const size_t end = line.find_last_of(">\"");
    if (begin < end && end != line.npos)
      found.push_back({number, std::string(line.substr(begin + 1, end - begin - 1))});
  }
  return found;
}

}  // namespace downpour::testing
