#include "shared/base/error_text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <catch2/catch.hpp>

namespace downpour {
namespace {

TEST_CASE("format_error prints what, where and hint on one line each", "[cli]") {
  const Error error{ErrorCode::kConfig, "unknown key `sed`", "job.toml:3:1", "did you mean `seed`?",
                    "DP-2103"};
  CHECK(format_error(error, false) ==
        "error: unknown key `sed` [DP-2103]\nwhere: job.toml:3:1\nhint:  did you mean `seed`?\n");
  CHECK(format_error(Error{ErrorCode::kBug, "oh", {}, {}, {}}, false) == "error: oh [DP-9000]\n");
}

TEST_CASE("color codes appear only on request, and escape codes in the error's texts are replaced",
          "[cli]") {
  const Error error{ErrorCode::kBadData,
                    "label \x1b[31m\x07\r",
                    "a\x1b"
                    "b:1",
                    {},
                    {}};
  const std::string plain = format_error(error, false);
  CHECK(plain == "error: label \\x1b[31m\\x07\\x0d [DP-3000]\nwhere: a\\x1bb:1\n");
  const std::string colored = format_error(error, true);
  CHECK(colored.starts_with("\x1b[1;31merror:\x1b[0m label \\x1b[31m"));
}

TEST_CASE("UTF-8 text is printed unchanged, and invalid bytes in hexadecimal", "[cli]") {
  const std::string text = "gr\u00f6\u00dfe \u4e16 \U0001f4a7";
  CHECK(format_error(Error{ErrorCode::kBadData, text}, false) == "error: " + text + " [DP-3000]\n");
  // A Latin-1 letter, an overlong slash, half of a surrogate pair, a control character, a truncated
  // character.
  CHECK(format_error(Error{ErrorCode::kBadData, "\xf6 \xc0\xaf \xed\xa0\x80 \xc2\x9b \xe4\xb8"},
                     false) ==
        "error: \\xf6 \\xc0\\xaf \\xed\\xa0\\x80 \\xc2\\x9b \\xe4\\xb8 [DP-3000]\n");
}

TEST_CASE("every error code has a general id with a text", "[cli]") {
  for (int code = 0; code <= int(ErrorCode::kPeersLost); ++code) {
    const std::string id = error_id(Error{ErrorCode(code), "x", {}, {}, {}});
    INFO(id);
    CHECK(find_error_text(id) != nullptr);
  }
  CHECK(error_id(Error{ErrorCode::kBug, "x", {}, {}, "DP-2104"}) == "DP-2104");
}

TEST_CASE("ids are sorted, distinct and explained", "[cli]") {
  const auto texts = error_texts();
  CHECK(std::is_sorted(texts.begin(), texts.end(),
                       [](const auto& a, const auto& b) { return a.id < b.id; }));
  std::set<std::string_view> ids;
  for (const ErrorText& text : texts) {
    ids.insert(text.id);
    CHECK_FALSE(text.title.empty());
    CHECK(text.text.size() > 40);
  }
  CHECK(ids.size() == texts.size());
  CHECK(explain_error("2104")->starts_with("DP-2104: "));
  CHECK(explain_error("dp-2104")->starts_with("DP-2104: "));
  CHECK(explain_error("DP-0000").error().code == ErrorCode::kUsage);
}

TEST_CASE("every error id in the sources has a text", "[cli]") {
  const auto root = std::filesystem::path(__FILE__).parent_path() / "../../..";
  constexpr std::string_view kIdBegin = "\"DP-";
  size_t used = 0;
  for (const char* folder : {"shared", "ps", "worker", "chief", "tools"}) {
    if (!std::filesystem::exists(root / folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const auto extension = entry.path().extension();
      if (extension != ".cc" && extension != ".h") continue;
      std::ifstream file(entry.path());
      const std::string text(std::istreambuf_iterator<char>(file), {});
      for (size_t at = text.find(kIdBegin); at != std::string::npos;
           at = text.find(kIdBegin, at + 1)) {
        const std::string id = text.substr(at + 1, 7);
        const bool whole = at + 8 < text.size() && text[at + 8] == '"';
        if (!whole || id.find_first_not_of("0123456789", 3) != std::string::npos) continue;
        INFO(entry.path().string() << ": " << id);
        CHECK(find_error_text(id) != nullptr);
        ++used;
      }
    }
  }
  CHECK(used > 20);
}

}  // namespace
}  // namespace downpour
