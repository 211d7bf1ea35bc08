// Prose: the rules of CONTRIBUTING.md for comments, texts and documents that a machine can hold.
// Each check is a function of one file's path and text, tested on small strings below; the last
// case runs them on the tree.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/source_tree.h"

namespace {

using namespace downpour::testing;

constexpr size_t kColumnsMax = 100;

/// A comment, a string literal, or a line of a document.
struct Passage {
  enum class Kind : uint8_t { kComment, kLiteral, kDocument } kind;
  size_t line = 0;
  std::string text;
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return out;
}

/// Comments and string literals of C++ source. A raw string is data of a test, not prose: it is
/// left out.
std::vector<Passage> passages_of_source(std::string_view text) {
  std::vector<Passage> passages;
  size_t line = 1;
  const auto skip = [&](size_t from, size_t to) {
    line += size_t(std::count(text.begin() + long(from), text.begin() + long(to), '\n'));
    return to;
  };
  const auto past = [&](std::string_view what, size_t from) {
    const size_t found = text.find(what, from);
    return found == text.npos ? text.size() : found + what.size();
  };
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const size_t here = line;
    if (rest.starts_with("//")) {
      const size_t end = std::min(text.find('\n', i), text.size());
      passages.push_back({Passage::Kind::kComment, here, std::string(text.substr(i, end - i))});
      i = end;
    } else if (rest.starts_with("/*")) {
      const size_t end = past("*/", i + 2);
      passages.push_back({Passage::Kind::kComment, here, std::string(text.substr(i, end - i))});
      i = skip(i, end);
    } else if (rest.starts_with("R\"")) {
      const size_t open = text.find('(', i);
      const std::string close = ")" + std::string(text.substr(i + 2, open - i - 2)) + "\"";
      i = skip(i, past(close, open));
    } else if (rest.starts_with('"') ||
               (rest.starts_with('\'') && (i == 0 || std::isalnum(uint8_t(text[i - 1])) == 0))) {
      size_t end = i + 1;
      while (end < text.size() && text[end] != rest[0]) end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      if (rest[0] == '"')
        passages.push_back({Passage::Kind::kLiteral, here, std::string(text.substr(i, end - i))});
      i = skip(i, end);
    } else {
      i = skip(i, i + 1);
    }
  }
  return passages;
}

/// The lines of a Markdown document, without blocks and spans of code.
std::vector<Passage> passages_of_document(std::string_view text) {
  std::vector<Passage> passages;
  bool fenced = false;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string prose(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (prose.starts_with("```")) fenced = !fenced;
    if (fenced || prose.starts_with("    ")) continue;
    for (size_t from = prose.find('`'); from != prose.npos; from = prose.find('`', from)) {
      const size_t to = prose.find('`', from + 1);
      if (to == prose.npos) break;
      prose.erase(from, to - from + 1);
    }
    passages.push_back({Passage::Kind::kDocument, line, std::move(prose)});
  }
  return passages;
}

bool contains_phrase(std::string_view text, std::string_view phrase) {
  for (size_t at = text.find(phrase); at != text.npos; at = text.find(phrase, at + 1)) {
    const size_t end = at + phrase.size();
    const bool begins = at == 0 || !is_word_char(text[at - 1]);
    const bool ends = end == text.size() || !is_word_char(text[end]);
    if (begins && ends) return true;
  }
  return false;
}

/// Phrases that a reader has to read twice, or for which the field has a term (docs/glossary.md).
std::vector<std::string> check_phrases(std::string_view path, std::string_view text) {
  static constexpr std::array kEverywhere = {
      "how-manieth",   "whoever",       "nobody",       "in vain",      "what is no",
      "are there not", "of which only", "is another's", "is his",       "so many more",
      "goes on with",  "go on with",    "beside it",    "for the rest", "it is his",
      "had it",        "not mine",      "given up by",  "end part"};
  static constexpr std::array kHeaders = {"tell", "tells", "told", "beside", "behind"};
  const bool document = path.ends_with(".md");
  std::vector<std::string> findings;
  for (const Passage& passage : document ? passages_of_document(text) : passages_of_source(text)) {
    const std::string prose = lower(passage.text);
    const auto report = [&](std::string_view phrase) {
      findings.push_back(std::string(path) + ":" + std::to_string(passage.line) + ": \"" +
                         std::string(phrase) + "\": say it in the words of the glossary");
    };
    for (const char* phrase : kEverywhere) {
      if (contains_phrase(prose, phrase)) report(phrase);
    }
    if (passage.kind != Passage::Kind::kComment) continue;
    if (path.ends_with(".h")) {
      for (const char* phrase : kHeaders) {
        if (contains_phrase(prose, phrase)) report(phrase);
      }
    }
    if (prose.starts_with("// behind ") || prose.starts_with("/// behind ")) report("Behind");
  }
  return findings;
}

/// Lines of source longer than 100 columns, also in raw strings. Lines that silence a linter and
/// lines between `clang-format off` and `clang-format on` may be longer.
std::vector<std::string> check_columns(std::string_view path, std::string_view text) {
  std::vector<std::string> findings;
  bool formatted = true;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find("clang-format off") != line.npos) formatted = false;
    if (line.find("clang-format on") != line.npos) formatted = true;
    const auto columns =
        size_t(std::ranges::count_if(line, [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
    if (columns > kColumnsMax && formatted && line.find("NOLINT") == line.npos) {
      findings.push_back(std::string(path) + ":" + std::to_string(number) + ": " +
                         std::to_string(columns) + " columns, more than 100");
    }
  }
  return findings;
}

TEST_CASE("a phrase that is not plain is found in comments, texts and documents", "[prose]") {
  const auto found = [](std::string_view path, std::string_view text) {
    return check_phrases(path, text).size();
  };
  CHECK(found("ps/core/a.cc", "// Asked in vain.\n") == 1);
  CHECK(found("ps/core/a.cc", "/* whoever\nasks */ int x;\n") == 1);
  CHECK(found("ps/core/a.cc", "error(\"read by nobody\");\n") == 1);
  CHECK(found("ps/core/a.cc", "int nobody = 1; char c = '\"';\n") == 0);
  CHECK(found("ps/core/a.cc", "const char* t = R\"(nobody)\";\n") == 0);
  CHECK(found("ps/core/a.cc", "// Behind all partitions: done.\n") == 1);
  CHECK(found("ps/core/a.cc", "// told\n") == 0);
  CHECK(found("ps/core/a.h", "/// Told of a gap.\n") == 1);
  CHECK(found("docs/a.md", "It is in vain.\n\n    in vain\n`nobody`\n") == 1);
  CHECK(found("docs/a.md", "```\nnobody\n```\nvain in\n") == 0);
}

TEST_CASE("a line of more than 100 columns is found, also in a raw string", "[prose]") {
  const std::string wide(101, 'x');
  CHECK(check_columns("a.cc", wide + "\n").size() == 1);
  CHECK(check_columns("a.cc", wide.substr(1) + "\n").empty());
  CHECK(check_columns("a.cc", "x = R\"toml(\n" + wide + "\n)toml\";\n").size() == 1);
  CHECK(check_columns("a.cc", wide + "  // NOLINT(x)\n").empty());
  CHECK(check_columns("a.h", "// clang-format off\n" + wide + "\n").empty());
}

TEST_CASE("the tree is written in plain words", "[prose]") {
  std::string findings;
  size_t files = 0;
  for (const std::string& path : files_of_tree()) {
    const bool source = is_cpp(path);
    if (!(source || path.ends_with(".md")) || path == "tests/prose_test.cc") continue;
    const std::string text = text_of_file(path);
    ++files;
    for (const std::string& finding : check_phrases(path, text)) findings += finding + "\n";
    if (!source) continue;
    for (const std::string& finding : check_columns(path, text)) findings += finding + "\n";
  }
  INFO(findings);
  CHECK(findings.empty());
  CHECK(files > 100);  // it looked
}

}  // namespace
