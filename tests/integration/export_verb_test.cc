// `downpour export` as lines of text, and a warm start from an exported file.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

Ended downpour(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  return Program("downpour", arguments, dir.path()).wait(120);
}

void require(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  const Ended ended = downpour(dir, arguments);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
}

constexpr const char* kModel =
    "model = { preset = \"wide_deep\", target = \"label\", dim = 3, units = [5] }\n";

/// A job whose statistics are learned, as are the offset of its output and the order of its data.
std::string job_of(const std::string& train, const std::string& model = kModel,
                   const std::string& rate = "0.1") {
  return "data.source = \"rows.csv\"\ndata.format = \"csv\"\n"
         "data.fields = { label = {}, size = { transform = [\"standardize\"] }, colour = { type = "
         "\"string\", transform = [{ op = \"vocabulary\", words = [\"red\", \"gr\\teen\", "
         "\"blue\"] }] }, tag = { type = \"int64\", transform = [\"identity\"] } }\n" +
         model + "optimizer = { type = \"adagrad\", learning_rate = " + rate +
         " }\ntrain = { epochs = 1, batch_size = 20" + train + " }\n";
}

void write_rows(const ScratchDir& dir) {
  std::ofstream file(dir / "rows.csv");
  file << "label,size,colour,tag\n";
  const char* const colours[] = {"red", "\"gr\teen\"", "blue"};
  for (int i = 0; i < 400; ++i) {
    file << (i * 7 % 10 > 4 ? 1 : 0) << "," << i * 7 % 10 << "," << colours[i % 3] << ","
         << 1000 + i % 11 << "\n";
  }
}

void train_first(const ScratchDir& dir) {
  write_rows(dir);
  dir.write("first.toml", job_of(""));
  require(dir, {"train", dir / "first.toml", "--quiet"});
}

std::string predictions(const ScratchDir& dir, const std::string& run) {
  const Ended ended =
      downpour(dir, {"predict", dir / ("runs/" + run), "--data", dir / "rows.csv", "--quiet"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return ended.out;
}

}  // namespace

TEST_CASE("a run that starts from an exported file has its model", "[integration]") {
  const ScratchDir dir;
  train_first(dir);
  const std::string wanted = predictions(dir, "first");
  for (const std::string ending : {"npz", "safetensors"}) {
    INFO(ending);
    require(dir, {"export", dir / "runs/first", "--out", dir / ("w." + ending)});
    // The one epoch is too slow to change a weight. Another seed gives other initial values.
    dir.write(
        ending + ".toml",
        "seed = 9\n" + job_of(", warm_start = { file = \"w." + ending + "\" }", kModel, "1e-30"));
    const Ended trained = downpour(dir, {"train", dir / (ending + ".toml")});
    INFO(trained.err);
    REQUIRE(trained.status == 0);
    CHECK_THAT(trained.err, Contains("starts with the variables of") && Contains("w." + ending));
    CHECK_THAT(trained.err, !Contains("initial values"));
    CHECK(predictions(dir, ending) == wanted);
  }
}

TEST_CASE("an array that does not fit the model is an error that names both", "[integration]") {
  const ScratchDir dir;
  train_first(dir);
  require(dir, {"export", dir / "runs/first", "--out", dir / "w.npz"});
  const auto error = [&](const std::string& model, const std::string& train) {
    dir.write("other.toml", job_of(train, model));
    const Ended ended = downpour(dir, {"train", dir / "other.toml", "--fresh"});
    CHECK(ended.status == 78);
    return ended.err;
  };
  const std::string start = ", warm_start = { file = \"w.npz\" }";
  CHECK_THAT(error("model = { preset = \"wide_deep\", target = \"label\", dim = 3, units = [6] }\n",
                   start),
             Contains("is 5 in the file, but the variable is 6") ||
                 (Contains("x 5 in the file, but the variable is") && Contains("x 6")));
  CHECK_THAT(error("model = { preset = \"logistic_regression\", target = \"label\" }\n", start),
             Contains("the file has the array `") && Contains("the model has linear/"));
  CHECK_THAT(error(kModel, ", warm_start = { file = \"w.npz\", run = \"runs/first\" }"),
             Contains("both `run` and `file`"));
  const std::string header =
      R"({"wide/kernel":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}})";
  const uint64_t header_bytes = header.size();
  const float nan = NAN;
  std::string numbers(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
  numbers += header + std::string(reinterpret_cast<const char*>(&nan), sizeof nan);
  dir.write("nan.safetensors", numbers);
  dir.write("nan.toml", job_of(", warm_start = { file = \"nan.safetensors\" }", kModel));
  const Ended ended = downpour(dir, {"train", dir / "nan.toml", "--fresh"});
  CHECK(ended.status == 65);
  CHECK_THAT(ended.err, Contains("the array `wide/kernel` has a number that is not finite"));
  // --fresh removes an earlier run only if the new one can begin.
  const auto restart = [&](const std::string& from) {
    return downpour(dir, {"train", dir / "first.toml", "--fresh", "--set", from});
  };
  CHECK(restart("train.warm_start.file=" + (dir / "nan.safetensors")).status == 65);
  const Ended itself = restart("train.warm_start.run=" + (dir / "runs/first"));
  CHECK(itself.status == 64);
  CHECK_THAT(itself.err, Contains("--fresh would remove the run to start from"));
  require(dir, {"inspect", dir / "runs/first"});
  CHECK_THAT(error(kModel, ", warm_start = { file = \"runs/first\" }"),
             Contains("ends in .npz or .safetensors"));
}

TEST_CASE("keys of 64 bits, such as those of hashed texts, begin a run", "[integration]") {
  const ScratchDir dir;
  write_rows(dir);
  const std::string job =
      "data.source = \"rows.csv\"\ndata.format = \"csv\"\ndata.fields = { label = {}, colour = { "
      "type = \"string\" }, tag = { type = \"string\" } }\n"
      "model = { preset = \"logistic_regression\", target = \"label\" }\ntrain = { epochs = 1";
  dir.write("first.toml", job + " }\n");
  require(dir, {"train", dir / "first.toml", "--quiet"});
  require(dir, {"export", dir / "runs/first", "--variable", "linear/weights", "--out",
                dir / "rows.tsv"});
  std::istringstream lines(read_text(dir / "rows.tsv"));
  bool large = false;
  for (std::string line; std::getline(lines, line);)
    large = large || (std::isdigit(line[0]) != 0 && std::stoull(line) > uint64_t(INT64_MAX));
  REQUIRE(large);
  for (const char* ending : {"npz", "safetensors"}) {
    CAPTURE(ending);
    const std::string file = std::string("w.") + ending;
    require(dir, {"export", dir / "runs/first", "--out", dir / file});
    dir.write("more.toml", job + ", warm_start = { file = \"" + file + "\" } }\n");
    require(dir, {"train", dir / "more.toml", "--quiet", "--fresh"});
  }
}

TEST_CASE("a variable that the file does not have keeps its initial values", "[integration]") {
  const ScratchDir dir;
  write_rows(dir);
  const std::string wide =
      "{ name = \"wide\", type = \"linear\", inputs = [\"colour\", \"size\"] }";
  const auto model = [](const std::string& layers, const std::string& input) {
    return "model.layers = [" + layers + "]\nmodel.outputs = [{ name = \"p\", input = \"" + input +
           "\", loss = \"logistic\", target = \"label\" }]\n";
  };
  dir.write("first.toml", job_of("", model(wide, "wide")));
  require(dir, {"train", dir / "first.toml", "--quiet"});
  require(dir, {"export", dir / "runs/first", "--out", dir / "w.npz"});
  dir.write(
      "more.toml",
      job_of(", warm_start = { file = \"w.npz\" }",
             model(wide + ", { name = \"deep\", type = \"dense\", inputs = [\"size\"], units = "
                          "[1] }, { name = \"sum\", type = \"add\", inputs = [\"wide\", "
                          "\"deep\"] }",
                   "sum")));
  const Ended trained = downpour(dir, {"train", dir / "more.toml"});
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK_THAT(trained.err, Contains("so with initial values: deep/0/kernel, deep/0/bias"));
}

TEST_CASE("the rows of an embedding are lines with their keys and words", "[integration]") {
  const ScratchDir dir;
  train_first(dir);
  const Ended several = downpour(dir, {"export", dir / "runs/first", "--out", dir / "rows.tsv"});
  CHECK(several.status == 64);
  CHECK_THAT(several.err, Contains("several variables of embeddings"));
  CHECK_THAT(several.err, Contains("--variable is one of: wide/weights, emb/table"));
  require(dir,
          {"export", dir / "runs/first", "--variable", "emb/table", "--out", dir / "rows.tsv"});
  std::istringstream lines(read_text(dir / "rows.tsv"));
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  REQUIRE(all.size() == 1 + 3 + 11);
  CHECK(all[0] == "key\tcolour\t0\t1\t2");
  const auto row = [&](const std::string& begin) {
    const auto found = std::ranges::find_if(
        all, [&](const std::string& line) { return line.starts_with(begin + "\t"); });
    return found == all.end() ? "no row " + begin : *found;
  };
  // The fields have rows of their own in the table: their keys are lines plus a number of the
  // field.
  uint64_t first = 0;
  for (const std::string& line : all)
    if (line.find("\tred\t") != std::string::npos) first = std::stoull(line);
  CHECK(first > 1U << 20);
  CHECK_THAT(row(std::to_string(first + 1)),
             StartsWith(std::to_string(first + 1) + "\tgr\\teen\t"));
  CHECK_THAT(row(std::to_string(first + 2)), StartsWith(std::to_string(first + 2) + "\tblue\t"));
  CHECK(std::ranges::count(row(std::to_string(first + 2)), '\t') == 4);
  CHECK(std::ranges::count_if(all, [](const std::string& line) {
          return line.find("\t\t") != std::string::npos;
        }) == 11);
  CHECK(
      downpour(dir, {"export", dir / "runs/first", "--variable", "emb", "--out", dir / "rows.tsv"})
          .status == 64);
}

TEST_CASE("export lists the inputs and outputs of an ONNX model", "[integration]") {
  const ScratchDir dir;
  train_first(dir);
  const Ended ended = downpour(dir, {"export", dir / "runs/first", "--out", dir / "m.onnx"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  CHECK_THAT(ended.out, Contains("emb/table:colour:sum") && Contains("records x 3"));
  CHECK_THAT(ended.out, Contains("probability/raw") && Contains("records x 1"));
  CHECK_THAT(read_text(dir / "m.onnx"), Contains("downpour.inputs"));
  const Ended wrong = downpour(
      dir, {"export", dir / "runs/first", "--variable", "emb/table", "--out", dir / "m.npz"});
  CHECK(wrong.status == 64);
  CHECK_THAT(wrong.err, Contains("only a .tsv file"));
}

TEST_CASE("inspect --top shows the largest weights with their fields and words", "[integration]") {
  const ScratchDir dir;
  train_first(dir);
  const Ended text = downpour(dir, {"inspect", dir / "runs/first", "--top", "2"});
  INFO(text.err);
  REQUIRE(text.status == 0);
  CHECK_THAT(text.out, Contains("largest of the 14 rows of wide/weights") &&
                           Contains("largest of the 14 rows of emb/table") &&
                           Contains("largest of the 1 row of wide/kernel") && Contains("size  "));
  const Ended all = downpour(dir, {"inspect", dir / "runs/first", "--top", "99", "--json"});
  REQUIRE(all.status == 0);
  const auto top = nlohmann::json::parse(all.out)["top"];
  REQUIRE(top["wide/weights"].size() == 14);
  double last = 1e9;
  bool blue = false;
  for (const auto& row : top["wide/weights"]) {
    const double size = std::fabs(row["weight"].get<double>());
    CHECK(size <= last);
    last = size;
    blue = blue || (row["words"] == "blue");
  }
  CHECK(blue);
  CHECK(top["emb/table"][0].contains("norm"));
}

}  // namespace downpour::testing
