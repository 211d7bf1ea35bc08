#include "shared/synth/synth.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

namespace downpour::data {
namespace {

std::string scratch(const char* name) {
  return (std::filesystem::temp_directory_path() / name).string();
}
std::string content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

TEST_CASE("the same options give the same bytes and figures for any number of threads", "[synth]") {
  const SynthOptions options{
      .rows = 40000, .numeric = 3, .categorical = 4, .ids = 20000, .format = SynthFormat::kCsv};
  const std::string one = scratch("dp-synth-1.csv");
  const std::string three = scratch("dp-synth-3.csv");
  const auto a = synthesize(options, one);
  const auto b = synthesize(options, three, 3);
  REQUIRE(a);
  REQUIRE(b);
  CHECK(content(one) == content(three));
  CHECK(a->bayes_auc == b->bayes_auc);
  CHECK(a->bayes_logloss == b->bayes_logloss);
  CHECK(a->bytes == content(one).size());
  std::filesystem::remove(one);
  std::filesystem::remove(three);
}

TEST_CASE("a seed gives the same rows in every version", "[synth]") {
  SynthOptions options{.rows = 3,
                       .numeric = 5,
                       .categorical = 3,
                       .ids = 20000,
                       .seed = 4,
                       .format = SynthFormat::kCsv};
  const std::string path = scratch("dp-synth-seed");
  REQUIRE(synthesize(options, path));
  CHECK(content(path) ==
        "label,I1,I2,I3,I4,I5,C1,C2,C3\n"
        "0,0.041,1.515,0.045,0.655,0.191,33b4fb20,7245ee26,be00a8bf\n"
        "1,-0.319,2.021,0.465,-2.197,0.848,a93bc949,e54dfdc3,2675fa1f\n"
        "0,-1.199,-1.081,0.611,1.140,1.255,30284f2c,9a215c45,488fa9ea\n");
  options.format = SynthFormat::kLibsvm;
  REQUIRE(synthesize(options, path));
  CHECK(content(path) ==
        "0 1:0.041 2:1.515 3:0.045 4:0.655 5:0.191 1136:1 20006:1 40033:1\n"
        "1 1:-0.319 2:2.021 3:0.465 4:-2.197 5:0.848 46:1 20114:1 55947:1\n"
        "0 1:-1.199 2:-1.081 3:0.611 4:1.140 5:1.255 107:1 20009:1 45080:1\n");
  std::filesystem::remove(path);
}

TEST_CASE("rows have the declared fields, and the share of positive labels is as expected",
          "[synth]") {
  const SynthOptions options{
      .rows = 20000, .numeric = 2, .categorical = 2, .ids = 50, .format = SynthFormat::kTsv};
  const std::string path = scratch("dp-synth.tsv");
  const auto made = synthesize(options, path);
  REQUIRE(made);
  std::ifstream in(path);
  uint64_t rows = 0;
  uint64_t positives = 0;
  for (std::string line; std::getline(in, line); ++rows) {
    REQUIRE(std::count(line.begin(), line.end(), '\t') == 4);
    REQUIRE((line[0] == '0' || line[0] == '1'));
    positives += line[0] == '1' ? 1 : 0;
  }
  CHECK(rows == options.rows);
  CHECK(positives == made->positives);
  // The probability is sigmoid(-1.4 + noise of small variance): between 15 % and 30 % for any
  // weights.
  CHECK(double(positives) > 0.15 * double(rows));
  CHECK(double(positives) < 0.30 * double(rows));
  CHECK(made->bayes_auc > 0.55);
  CHECK(made->bayes_logloss < 0.69);
  std::filesystem::remove(path);
}

TEST_CASE("another value of `stream` gives other rows of the same model", "[synth]") {
  SynthOptions options{.rows = 20000, .format = SynthFormat::kLibsvm};
  const std::string path = scratch("dp-synth.libsvm");
  const auto train = synthesize(options, path);
  const std::string first = content(path);
  options.stream = 1;
  const auto test = synthesize(options, path);
  REQUIRE(train);
  REQUIRE(test);
  CHECK(first != content(path));
  CHECK(test->bayes_auc ==
        Approx(train->bayes_auc).margin(0.02));  // 20,000 rows: standard error about 0.004
  std::filesystem::remove(path);
}

TEST_CASE("a folder that does not exist is an error", "[synth]") {
  const auto made = synthesize({.rows = 10}, scratch("no/such/folder/x.tsv"));
  REQUIRE(!made);
  CHECK(made.error().code == ErrorCode::kCannotCreate);
}

}  // namespace
}  // namespace downpour::data
