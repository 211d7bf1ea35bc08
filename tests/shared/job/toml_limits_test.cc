// The text of a job, from a file or from a Welcome message, must not exhaust stack or memory.
#include "shared/job/toml_limits.h"

#include "shared/job/toml_tree.h"
#include "tests/shared/job/job_test_support.h"

namespace downpour {
namespace {

using Catch::Contains;

std::string repeated(std::string_view piece, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += piece;
  return text;
}

bool parses(const std::string& text) { return parse_toml(text, "f").has_value(); }

TEST_CASE("text that is nested too deep is an error, in every form of nesting", "[job]") {
  constexpr size_t kDeep = 100'000;
  const std::string dotted = repeated("a.", kDeep) + "a";
  for (const std::string& text :
       {dotted + " = 1", "[" + dotted + "]", "[[" + dotted + "]]", "\xef\xbb\xbf[" + dotted + "]",
        "x = { " + dotted + " = 1 }", "x = [ { " + dotted + " = 1 } ]",
        repeated("\"a\".", kDeep) + "a = 1", repeated("'a' . ", kDeep) + "a = 1",
        "x = " + repeated("[", kDeep) + repeated("]", kDeep),
        "x = " + repeated("{a = ", kDeep) + "1" + repeated("}", kDeep),
        "x = " + repeated("[\n{ a.b = ", kDeep) + "1" + repeated("}]", kDeep),
        "s = \"\"\"\"\"\"\"\"\n" + dotted + " = 1", "s = '''''''\n" + dotted + " = 1",
        "s = \"\\\"\"\n" + dotted + " = 1", "# \"\n" + dotted + " = 1"}) {
    INFO(text.substr(0, 30));
    const auto parsed = parse_toml(text, "f");
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == ErrorCode::kConfig);
    CHECK_THAT(parsed.error().what, Contains("a value is nested more than 64 levels"));
    CHECK_THAT(parsed.error().where, Contains("f:"));
  }
  const auto received = job_from_toml(dotted + " = 1", "/");  // the text of a Welcome message
  REQUIRE_FALSE(received);
  CHECK(received.error().where == "job:1:128");
}

TEST_CASE("the levels of header, key and value add up to the limit", "[job]") {
  const auto text = [](size_t header, size_t key, size_t lists) {
    return "[" + repeated("h.", header - 1) + "h]\n" + repeated("k.", key - 1) +
           "k = " + repeated("[", lists) + repeated("]", lists) + "\nlast = 1\n[h2]\n" +
           repeated("k.", kTomlDepthMax - 2) + "k = 1\n";
  };
  CHECK(parses(text(20, 20, kTomlDepthMax - 40)));
  CHECK_FALSE(parses(text(20, 20, kTomlDepthMax - 39)));
  CHECK_FALSE(parses(text(21, 20, kTomlDepthMax - 40)));
  CHECK_FALSE(parses(text(20, 21, kTomlDepthMax - 40)));
}

TEST_CASE("dots and brackets in strings and comments are not levels", "[job]") {
  const std::string points = repeated(".[{", 1000);
  CHECK(parses("a = \"" + points + "\"\nb = '" + points + "' # " + points + "\nc = \"\"\"" +
               points + "\\\"\"\"\\\n\n" + points + "\"\"\"\"\"\nd = '''\n" + points +
               "'''''\n[e] # " + points + "\n\"" + points + "\" = 1\n'." + points + "' = [1.5, \"" +
               points + "\"]\n"));
  CHECK(parses("x = [" + repeated("1.5, ", 1000) + "]\n"));
  CHECK(parses(repeated("a1 = { b.c = [1.5, [2.5]], d.e = 1 }\n", 1)));
  CHECK(parses("# " + repeated("comment ", size_t{1} << 20) + "\na = 1\n"));
}

TEST_CASE("text with too many values is rejected before a tree is built", "[job]") {
  const auto list = [](size_t values) { return "a = [" + repeated("1,", values) + "]"; };
  CHECK(parses(list(kTomlNodesMax / 2)));
  for (const std::string& text :
       {list(kTomlNodesMax), "a = [" + repeated("[],", kTomlNodesMax) + "]",
        "a = [" + repeated("{},", kTomlNodesMax) + "]", repeated("[[a]]\n", kTomlNodesMax)}) {
    const auto parsed = parse_toml(text, "f");
    REQUIRE_FALSE(parsed);
    CHECK_THAT(parsed.error().what, Contains("more than 262144 keys and values"));
  }
}

TEST_CASE("the key of an override has the same limit of levels as a job", "[job]") {
  const Error error =
      test::error_of(test::small_job(), {{repeated("a.", 10'000) + "a", "1", "--set"}});
  CHECK(error.id == "DP-2111");
  CHECK(error.what == "a key of 10001 levels; at most 64 are allowed");
}

}  // namespace
}  // namespace downpour
