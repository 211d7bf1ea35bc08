// Inputs that a user writes or that Downpour detects: vocabularies, conditions, jobs, file formats.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "shared/data/formats/sniff.h"
#include "shared/data/values/expression.h"
#include "shared/data/values/vocabulary.h"
#include "shared/job/file_job.h"
#include "shared/job/job_file.h"
#include "shared/job/preset.h"
#include "tests/fuzz/reading.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/target.h"
#include "tests/support/arrays.h"

namespace downpour::fuzz {
namespace {

// ---- vocabularies

std::string check_vocabulary(const std::string& path, const std::string& bytes) {
  write_file(path, bytes);
  const auto read = data::Vocabulary::load(path), again = data::Vocabulary::load(path);
  if (read.has_value() != again.has_value()) return "read again it ends otherwise";
  if (!read) return check_error(read.error(), path);
  if ((*read)->fingerprint() != (*again)->fingerprint()) return "read again it has another hash";
  if (bytes.size() >= 2 && uint8_t(bytes[0]) == 0x1f && uint8_t(bytes[1]) == 0x8b) return "";
  size_t at = bytes.starts_with("\xef\xbb\xbf") ? 3 : 0;
  for (uint64_t line = 0; at < bytes.size(); ++line) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    std::string word = bytes.substr(at, end - at);
    if (word.ends_with('\r')) word.pop_back();
    const uint64_t wanted = word.empty() ? data::Vocabulary::kUnknown : line;
    if ((*read)->find(word) != wanted) return str("the word of line ", line + 1, " is not found");
    at = end + 1;
  }
  return "";
}

Target vocabulary_target(const std::string& folder) {
  const std::string path = folder + "/words.txt";
  return one_file(
      "vocabulary",
      [](Rng& rng) {
        std::string words;
        for (uint64_t n = 1 + rng.below(60); n > 0; --n)
          words += str(one_in(rng, 20) ? "" : str("w", rng.below(5000)),
                       one_in(rng, 20) ? "\r\n" : "\n");
        if (!one_in(rng, 10)) mutate(words, "", kLineTokens, rng);
        if (one_in(rng, 5)) words = testing::gzipped(words);
        return words;
      },
      [=](const std::string& text) { return check_vocabulary(path, text); });
}

// ---- conditions

constexpr std::string_view kConditions[] = {"age > 18",
                                            "color != 'red' && (age >= 18 || !missing(x))",
                                            "color in ('a', \"b\", 'c')",
                                            "x not in (1, 2, 3)",
                                            "-x * 2 + age / 3 % 4 < 1e3",
                                            "!(age == 0) || missing(`odd name`)",
                                            "`odd name` == 'it\\'s\\n'",
                                            "missing(x)"};
constexpr std::string_view kConditionTokens[] = {
    "(",        ")",          "!",      "&&",         "||",
    "==",       "!=",         "<",      "<=",         ">",
    ">=",       "+",          "-",      "*",          "/",
    "%",        "in",         "not in", ",",          "'",
    "\"",       "`",          "\\",     "missing",    "missing(",
    "age",      "x",          "color",  "`odd name`", "1e309",
    "0x1",      "-",          "1.5",    "'red'",      "((((((((",
    "!!!!!!!!", "--------",   "\xff",   "nan",        "18446744073709551616",
    " && ",     " || age < 1"};

std::string check_condition(const std::string& text) {
  const std::vector<data::ExpressionField> fields = {
      {"age", false}, {"x", false}, {"color", true}, {"odd name", true}};
  const auto made = data::Expression::compile(text, fields);
  if (!made) return made.error().code == ErrorCode::kConfig ? "" : "an error that is no kConfig";
  for (uint32_t bits = 0; bits < 16; ++bits) {
    std::vector<data::ExpressionValue> values;
    for (const uint32_t field : made->fields()) {
      if (field >= fields.size()) return "it names a field that there is not";
      values.push_back({.number = (long double)(bits)*9,
                        .text = bits % 3 == 0 ? "red" : "",
                        .missing = (bits >> field & 1) != 0});
    }
    const data::Verdict first = made->judge(values);
    if (first != made->judge(values)) return "judged again it says otherwise";
    if (bits == 0 && first == data::Verdict::kMissing) return "a value is missing where none is";
  }
  return "";
}

Target condition_target() {
  return one_file(
      "filter",
      [](Rng& rng) {
        std::string text(one_of(Dictionary(kConditions), rng));
        while (one_in(rng, 3)) {
          text = str("(", text, one_in(rng, 2) ? ") && (" : ") || !(",
                     one_of(Dictionary(kConditions), rng), ")");
        }
        if (!one_in(rng, 10))
          mutate(text, std::string(one_of(Dictionary(kConditions), rng)), kConditionTokens, rng);
        return text;
      },
      check_condition);
}

// ---- jobs

constexpr std::string_view kJobTokens[] = {"\n",
                                           " = ",
                                           "[",
                                           "]",
                                           "[[",
                                           "]]",
                                           "{",
                                           "}",
                                           "\"",
                                           "\"\"\"",
                                           "'",
                                           ",",
                                           ".",
                                           "..",
                                           "#",
                                           "\\",
                                           "\\u0000",
                                           "${",
                                           "${NAME}",
                                           "${NAME:-",
                                           "$${",
                                           "true",
                                           "nan",
                                           "inf",
                                           "-1",
                                           "0",
                                           "9223372036854775807",
                                           "1e400",
                                           "0x7fffffff",
                                           "1979-05-27",
                                           "\xff",
                                           "\0",
                                           "data",
                                           "model",
                                           "layers",
                                           "I1..I13",
                                           "C26..C1",
                                           "x1..x99999999",
                                           "a..b",
                                           "fields",
                                           "transform",
                                           "op",
                                           "cross",
                                           "vocabulary",
                                           "words",
                                           "shape = [-1]",
                                           "shape = [4294967296, 4294967296]",
                                           "units = [0]",
                                           "preset",
                                           "inputs",
                                           "*",
                                           "10m",
                                           "5 epochs",
                                           "[[[[[[[[",
                                           "{a={a={a=",
                                           "a.a.a.a.a."};

std::vector<std::string> example_jobs() {
  std::map<std::string, std::string> jobs;  // sorted by name
  for (const auto& entry : std::filesystem::directory_iterator(DP_SOURCE_DIR "/docs/examples")) {
    if (entry.path().extension() != ".toml") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    jobs[entry.path().filename()] = std::string(std::istreambuf_iterator<char>(file), {});
  }
  std::vector<std::string> out;
  for (auto& [name, text] : jobs) out.push_back(std::move(text));
  DP_CHECK(!out.empty());
  return out;
}

std::string check_job_error(const Error& error) {
  if (error.code != ErrorCode::kConfig)
    return str("an error of code ", int(error.code), ": ", error.what);
  return error.where.empty() ? str("an error without a place: ", error.what) : "";
}

std::string check_job(const std::string& text) {
  const auto environment = [](const std::string& name) {
    return name == "NAME" ? std::optional<std::string>("value") : std::nullopt;
  };
  auto loaded = load_job(JobSource{"/jobs/job.toml", text}, {}, environment);
  if (!loaded) return check_job_error(loaded.error());
  Job job = std::move(loaded->job);
  const auto done = complete_job(job);
  if (!done) return check_job_error(located(done.error(), loaded->origins));
  Job twice = job;
  if (!complete_job(twice) || twice != job) return "completed twice it is another job";
  const auto back = job_from_toml(job_to_toml(job), "/jobs");
  if (!back)
    return str("what it is written as can't be read: ", back.error().what, " at ",
               back.error().where);
  return *back == job ? "" : "what it is written as is another job";
}

Target job_target() {
  const auto jobs = std::make_shared<std::vector<std::string>>(example_jobs());
  return one_file(
      "job",
      [=](Rng& rng) {
        std::string text = one_of(std::span<const std::string>(*jobs), rng);
        if (!one_in(rng, 30))
          mutate(text, one_of(std::span<const std::string>(*jobs), rng),
                 one_in(rng, 6) ? kNumberTokens : Dictionary(kJobTokens), rng);
        return text;
      },
      check_job);
}

/// Long and deeply nested texts, some of them above the size limit of a job file.
Target job_bomb_target() {
  static constexpr std::string_view kOpenings[] = {
      "",   "x = ",   "x = [", "x = {",      "[",     "[[",
      "# ", "x = \"", "x = '", "x = \"\"\"", "\"a\"", "model.layers = [{"};
  static constexpr std::string_view kPieces[] = {
      "a.", "a",  "\"a\".", "[",    "{a = ", "{a.a = ", "1,", "[],", "{},", "[[a]]\n", "#",
      "\\", "\"", "'",      "''' ", "\n",    ".",       " ",  "a=",  "]",   "}",       "\xff"};
  return {.name = "bomb-job",
          .make =
              [](Rng& rng) {
                std::string text(one_of(Dictionary(kOpenings), rng));
                const std::string_view piece = one_of(Dictionary(kPieces), rng);
                const size_t bytes = size_t{1} << (4 + rng.below(21));
                while (text.size() < bytes) text += piece;
                if (one_in(rng, 2)) text += one_of(Dictionary(kPieces), rng);
                return Input{.files = {std::move(text)}};
              },
          .run = [](const Input& input) { return check_job(input.files[0]); },
          .cpu_seconds_max = 30};
}

// ---- formats

/// Does what `downpour train FILE` does before it trains, then checks the readers with that job.
std::string check_sniffed(const std::string& path, uint64_t knobs) {
  auto facts = data::sniff(path);
  if (!facts) return check_error(facts.error(), path);
  facts->path = path;
  Job job = job_for_file(*facts, "/");
  if (const auto done = complete_job(job); !done) return check_job_error(done.error());
  const auto back = job_from_toml(job_to_toml(job), "/");
  if (!back)
    return str("the job found for it can't be read: ", back.error().what, " at ",
               back.error().where);
  if (*back != job) return "the job found for it reads as another";
  job.data.interleave = {};  // Reading joins no ranges
  return Reading(job.data).check(path, knobs);
}

Target sniff_target(const std::string& folder) {
  static constexpr const char* kNames[] = {"/data", "/data.npy", "/data.npz", "/data.csv",
                                           "/s-images-idx3-ubyte"};
  return {.name = "sniff",
          .make =
              [](Rng& rng) {
                using MakeSeed = std::function<std::string(Rng&)>;
                const MakeSeed seeds[] = {
                    libsvm_seed,
                    libffm_seed,
                    criteo_seed,
                    jsonl_seed,
                    example_seed,
                    tensor_seed,
                    [](Rng& r) { return table_seed(r, ',', one_in(r, 2)); },
                    [](Rng& r) { return table_seed(r, '\t', one_in(r, 2)); },
                    [](Rng& r) { return npy_seed(r, "<f4", 5, 3); },
                    [](Rng& r) {
                      return testing::npz(
                          {{"x", npy_seed(r, "<f4", 5, 3)}, {"label", npy_seed(r, "<i4", 5, 1)}},
                          one_in(r, 2));
                    }};
                const MakeSeed& seed = one_of(std::span<const MakeSeed>(seeds), rng);
                std::string bytes = seed(rng);
                if (!one_in(rng, 10))
                  mutate(bytes, seed(rng), one_in(rng, 2) ? kLineTokens : kJsonTokens, rng);
                if (one_in(rng, 3)) mend_frames(bytes, rng);
                if (one_in(rng, 8)) bytes = testing::gzipped(bytes);
                return Input{.files = {std::move(bytes)}};
              },
          .run =
              [=](const Input& input) {
                const std::string path = folder + kNames[(input.knobs >> 50) % std::size(kNames)];
                write_file(path, input.files[0]);
                return check_sniffed(path, input.knobs);
              }};
}

}  // namespace

void add_setting_targets(const std::string& folder, std::vector<Target>& out) {
  out.push_back(vocabulary_target(folder));
  out.push_back(condition_target());
  out.push_back(job_target());
  out.push_back(job_bomb_target());
  out.push_back(sniff_target(folder));
}

}  // namespace downpour::fuzz
