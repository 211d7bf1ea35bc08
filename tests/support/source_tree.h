// The source tree as the tests of its form read it: its files, their lines and their includes.
#pragma once

#include <algorithm>
#include <cctype>
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

inline bool is_word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Returns source with comments, strings and characters blanked; line breaks stay.
inline std::string code_of(std::string_view text) {
  std::string code(text);
  const auto blank = [&](size_t from, size_t to) {
    for (size_t i = from; i < std::min(to, code.size()); ++i)
      if (code[i] != '\n') code[i] = ' ';
    return to;
  };
  const auto past = [&](std::string_view what, size_t from) {
    const size_t found = text.find(what, from);
    return found == text.npos ? text.size() : found + what.size();
  };
  const auto past_quote = [&](size_t i) {
    const char quote = text[i];
    for (++i; i < text.size() && text[i] != quote; ++i)
      if (text[i] == '\\') ++i;
    return i + 1;
  };
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const bool separates_digits = i > 0 && is_word_char(text[i - 1]);  // 1'000
    if (rest.starts_with("//")) {
      i = blank(i, std::min(text.find('\n', i), text.size()));
    } else if (rest.starts_with("/*")) {
      i = blank(i, past("*/", i + 2));
    } else if (rest.starts_with("R\"")) {
      const std::string end = ")" + std::string(rest.substr(2, rest.find('(') - 2)) + "\"";
      i = blank(i, past(end, i));
    } else if (rest[0] == '"' || (rest[0] == '\'' && !separates_digits)) {
      i = blank(i, past_quote(i));
    } else {
      ++i;
    }
  }
  return code;
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
