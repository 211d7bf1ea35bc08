// Vocabularies: the words of a file, one per line, and their numbers.
#include "shared/data/values/vocabulary.h"

#include <filesystem>

#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Contains;
using Catch::EndsWith;

std::shared_ptr<const Vocabulary> load(const std::string& path) {
  auto loaded = Vocabulary::load(path);
  if (!loaded) FAIL(loaded.error().what);
  return *loaded;
}

TEST_CASE("the number of a word is the index of its line", "[data][vocabulary]") {
  const ScratchDir dir;
  const auto words = load(dir.write("v", "red\ngreen\nblue\n"));
  CHECK(words->size() == 3);
  CHECK(words->find("red") == 0);
  CHECK(words->find("blue") == 2);
  CHECK(words->find("Blue") == Vocabulary::kUnknown);
  CHECK(words->find("") == Vocabulary::kUnknown);
  CHECK(load(dir.write("v", "red\ngreen\nblue"))->find("blue") == 2);
  CHECK(Vocabulary::of({"red", "green"}).value()->find("green") == 1);
}

TEST_CASE("a byte order mark and carriage returns do not belong to words; empty lines count",
          "[data][vocabulary]") {
  const ScratchDir dir;
  const auto words = load(dir.write("v", "\xef\xbb\xbfred\r\n\r\n\n two words \r\nblue\r"));
  CHECK(words->find("red") == 0);
  CHECK(words->find(" two words ") == 3);
  CHECK(words->find("blue") == 4);
  CHECK(words->find("") == Vocabulary::kUnknown);
  CHECK(words->size() == 5);
}

TEST_CASE("a repeated word is an error that names both lines", "[data][vocabulary]") {
  const ScratchDir dir;
  const Error error = Vocabulary::load(dir.write("v", "a\nb\nc\nb\r\n")).error();
  CHECK(error.code == ErrorCode::kBadData);
  CHECK(error.what == "the word \"b\" appears in lines 2 and 4");
  CHECK_THAT(error.where, EndsWith("v:4"));
}

TEST_CASE("a vocabulary that is empty, missing or a folder is an error", "[data][vocabulary]") {
  const ScratchDir dir;
  CHECK(Vocabulary::load(dir.write("v", "")).error().code == ErrorCode::kBadData);
  CHECK_THAT(Vocabulary::load(dir.write("v", "\n\n")).error().what,
             Contains("the vocabulary contains no word:"));
  CHECK(Vocabulary::load(dir.path() + "/none").error().code == ErrorCode::kNoInput);
  CHECK_FALSE(Vocabulary::load(dir.path()));
}

TEST_CASE("a vocabulary may be compressed, and have a million words", "[data][vocabulary]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += str("word", i, "\n");
  const auto words = load(dir.write("v.gz", gzipped(text)));
  CHECK(words->size() == 1'000'000);
  for (const uint64_t i : {0, 1, 77'777, 999'999}) CHECK(words->find(str("word", i)) == i);
  CHECK(words->find("word1000000") == Vocabulary::kUnknown);
  CHECK(words->fingerprint() == load(dir.write("v", text))->fingerprint());
}

TEST_CASE("a file with too many empty lines is an error and takes not enough memory for them",
          "[data][vocabulary]") {
  const ScratchDir dir;
  const std::string empty(40 << 20, '\n');
  for (const std::string& text : {empty, "a\n" + empty, std::string(20 << 20, 'x') + empty}) {
    const auto read = Vocabulary::load(dir.write("v.gz", gzipped(text)));
    CHECK_THAT(read.error().what, Contains("more than a million empty lines"));
  }
  CHECK(load(dir.write("v", "a\n" + empty.substr(0, 999'999) + "b\n"))->find("b") == 1'000'000);
}

TEST_CASE("a run stores the fingerprint of its vocabulary and rejects another one",
          "[data][vocabulary]") {
  const ScratchDir dir;
  DataSpec data;
  const std::string path = dir.write("v", "a\nb\n");
  data.fields = {
      {.name = "x", .type = FieldType::kString, .transform = {ops::Vocabulary{.file = path}}}};
  REQUIRE(note_vocabularies(data));
  const auto& noted = std::get<ops::Vocabulary>(data.fields[0].transform[0]);
  CHECK(noted.size == 2);
  CHECK(noted.fingerprint != 0);
  CHECK(note_vocabularies(data));
  dir.write("v", "b\na\nc\n");
  const Error error = note_vocabularies(data).error();
  CHECK(error.code == ErrorCode::kBadData);
  CHECK_THAT(error.what, Contains("it had 2 words, and now has 3"));
}

}  // namespace
}  // namespace downpour::data
