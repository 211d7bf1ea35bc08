// Class limits: no class has more than 25 data members, or member functions in more than two .cc
// files. A larger class has a second duty that a class of its own can take over. The checks are
// functions of text, tested on small strings below; the last case runs them on the tree.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/source_tree.h"

namespace {

using namespace downpour::testing;

constexpr size_t kDataMembersMax = 25;
constexpr size_t kFilesMax = 2;

std::string folder_of(std::string_view path) {
  return std::string(path.substr(0, path.rfind('/')));
}

/// Returns the names of the data members (`name_`) in the class body that begins at `open`.
std::set<std::string> data_members(std::string_view code, size_t open) {
  std::string body;  // without what stands in braces or parentheses
  int braces = 0, parentheses = 0;
  for (size_t i = open; i < code.size(); ++i) {
    const char c = code[i];
    if (c == '{') ++braces;
    if (c == '}' && --braces == 0) break;
    if (c == '(') ++parentheses;
    if (braces == 1 && parentheses == 0) body += c == '}' ? ';' : c;
    if (c == ')') --parentheses;
  }
  std::set<std::string> names;
  for (size_t i = 0; i < body.size();) {
    if (!is_word_char(body[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < body.size() && is_word_char(body[end])) ++end;
    const size_t next = body.find_first_not_of(" \n", end);
    const bool declared =
        next != body.npos && std::string_view(";,=[").find(body[next]) != std::string_view::npos;
    if (body[end - 1] == '_' && declared) names.insert(body.substr(i, end - i));
    i = end;
  }
  return names;
}

/// Findings about classes with too many data members in one file.
std::vector<std::string> check_data_members(std::string_view path, std::string_view text) {
  std::vector<std::string> findings;
  const std::string code = code_of(text);
  for (const std::string_view keyword : {"class ", "struct "}) {
    for (size_t at = code.find(keyword); at != code.npos; at = code.find(keyword, at + 1)) {
      if (at > 0 && is_word_char(code[at - 1])) continue;
      const size_t begin = at + keyword.size();
      size_t end = begin;
      while (end < code.size() && is_word_char(code[end])) ++end;
      const size_t open = code.find_first_of("{;()<>", end);
      if (end == begin || open == code.npos || code[open] != '{') continue;
      const std::string name = code.substr(begin, end - begin);
      const size_t count = data_members(code, open).size();
      if (count > kDataMembersMax)
        findings.push_back(std::string(path) + ": " + name + " has " + std::to_string(count) +
                           " data members, at most " + std::to_string(kDataMembersMax) +
                           ": move one of its duties into a class of its own");
    }
  }
  return findings;
}

/// Files that define member functions, by folder and class.
using Definitions = std::map<std::pair<std::string, std::string>, std::set<std::string>>;

/// Adds the classes whose member functions a .cc file defines.
void add_definitions(std::string_view path, std::string_view text, Definitions& definitions) {
  const std::string code = code_of(text);
  for (size_t at = code.find("::"); at != code.npos; at = code.find("::", at + 2)) {
    const size_t line = code.rfind('\n', at) == code.npos ? 0 : code.rfind('\n', at) + 1;
    if (!is_word_char(code[line])) continue;  // inside a function, or a continued line
    size_t begin = at;
    while (begin > line && is_word_char(code[begin - 1])) --begin;
    size_t end = at + 2;
    while (end < code.size() && (is_word_char(code[end]) || code[end] == '~')) ++end;
    const bool is_class = std::isupper(static_cast<unsigned char>(code[begin])) != 0;
    if (is_class && end < code.size() && code[end] == '(')
      definitions[{folder_of(path), code.substr(begin, at - begin)}].insert(std::string(path));
  }
}

/// Findings about classes whose member functions are defined in too many files.
std::vector<std::string> check_definitions(const Definitions& definitions) {
  std::vector<std::string> findings;
  for (const auto& [key, files] : definitions) {
    const auto& [folder, name] = key;
    if (files.size() <= kFilesMax) continue;
    std::string finding = folder + ": member functions of " + name + " are in more than " +
                          std::to_string(kFilesMax) + " files:";
    for (const std::string& file : files) finding += " " + file;
    findings.push_back(finding);
  }
  return findings;
}

std::string class_with(size_t count) {
  std::string text = "class A final : public B {\n public:\n  int f() const { return x_; }\n";
  for (size_t i = 0; i < count; ++i) text += "  int m" + std::to_string(i) + "_ = 0;\n";
  return text + "};\n";
}

TEST_CASE("a class with too many data members is found", "[class_limits]") {
  CHECK(check_data_members("ps/core/a.h", class_with(kDataMembersMax)).empty());
  CHECK(check_data_members("ps/core/a.h", class_with(kDataMembersMax + 1)).size() == 1);
  CHECK(check_data_members("ps/core/a.h", "/* " + class_with(kDataMembersMax + 1) + " */").empty());
  const auto members = [](std::string_view body) {
    return data_members(body, body.find('{')).size();
  };
  CHECK(members("struct A { int a_ = 0, b_ = 0; std::vector<int> c_, d_; int e_[2]; };") == 5);
  CHECK(members("struct A { std::atomic<int> a_{0}; int f() { b_ = 1; c_, d_; } };") == 1);
  CHECK(members("struct A { explicit A(int x) : a_(x), b_(x) {} int a_; int b_; };") == 2);
  CHECK(members("struct A { struct B { int a_; }; void f(int b_ = 1); int c_; };") == 1);
}

TEST_CASE("a class whose member functions are in too many files is found", "[class_limits]") {
  const std::string text =
      "Result<void> A::f(int x) {\n  B::g(x);\n}\nA::~A() {}\nstd::string c() { return d::e(); }\n";
  Definitions definitions;
  for (const char* path : {"ps/core/a.cc", "ps/core/b.cc"})
    add_definitions(path, text, definitions);
  CHECK(check_definitions(definitions).empty());
  add_definitions("worker/core/c.cc", text, definitions);  // another class of the same name
  CHECK(check_definitions(definitions).empty());
  add_definitions("ps/core/c.cc", "// A::f(\nint x;\n", definitions);
  CHECK(check_definitions(definitions).empty());
  add_definitions("ps/core/d.cc", "A::B A::h() {\n", definitions);
  CHECK(check_definitions(definitions).size() == 1);
}

TEST_CASE("the classes of the tree are within the limits", "[class_limits]") {
  std::string findings;
  size_t files = 0;
  Definitions definitions;
  for (const std::string& path : files_of_tree()) {
    static constexpr std::array kFolders = {"shared/", "ps/", "worker/", "chief/", "tools/"};
    if (!is_cpp(path) ||
        std::ranges::none_of(kFolders, [&](auto f) { return path.starts_with(f); }))
      continue;
    ++files;
    const std::string text = text_of_file(path);
    for (const std::string& finding : check_data_members(path, text)) findings += finding + "\n";
    if (path.ends_with(".cc")) add_definitions(path, text, definitions);
  }
  for (const std::string& finding : check_definitions(definitions)) findings += finding + "\n";
  INFO(findings);
  CHECK(findings.empty());
  CHECK(files > 100);  // it looked
}

}  // namespace
