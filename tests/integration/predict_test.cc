// The forms in which `downpour predict` writes predictions.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/lines.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;

Ended downpour(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  return Program("downpour", arguments, dir.path()).wait(120);
}

// The kind follows from size and colour. The column `tag` is no feature: each record has its own.
void write_animals(const ScratchDir& dir) {
  std::ofstream file(dir / "animals.csv");
  file << "tag,size,colour,kind\n";
  for (int i = 0; i < 600; ++i) {
    const int size = i * 7 % 10;
    const bool grey = i % 3 == 0;
    file << "t" << i << "," << size << (grey ? ",grey," : ",brown,")
         << (size > 5 ? "horse"
             : grey   ? "mouse"
                      : "fox")
         << "\n";
  }
  // The files to predict need no label.
  dir.write("new-1.csv", "tag,size,colour\n007,9,grey\n\"a, b\",1,grey\n");
  dir.write("new-2.csv", "colour,tag,size\nbrown,,2\n");
}

void train_animals(const ScratchDir& dir, const std::vector<std::string>& more = {}) {
  write_animals(dir);
  std::vector<std::string> arguments = {
      "train", dir / "animals.csv",       "--quiet", "--target", "kind",
      "--set", "run_dir=" + (dir / "run")};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Ended trained = downpour(dir, arguments);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
}

Ended predict(const ScratchDir& dir, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {"predict", dir / "run",       "--quiet",
                                        "--data",  dir / "new-1.csv", dir / "new-2.csv"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return downpour(dir, arguments);
}

TEST_CASE("predictions while the run trains use a checkpoint that still exists", "[integration]") {
  const ScratchDir dir;
  write_animals(dir);
  Program train("downpour",
                {"train", dir / "animals.csv", "--quiet", "--target", "kind", "--epochs", "100000",
                 "--set", "eval.early_stop.patience=0", "--set", "train.checkpoint.keep=1", "--set",
                 "run_dir=" + (dir / "run")},
                dir.path());
  for (int i = 0; i < 600 && downpour(dir, {"inspect", dir / "run"}).status != 0; ++i) continue;
  for (int i = 0; i < 20; ++i) {
    const Ended predicted = predict(dir, {});
    INFO(predicted.err);
    CHECK(predicted.status == 0);
    CHECK(std::ranges::count(predicted.out, '\n') == 3);
    CHECK(downpour(dir, {"inspect", dir / "run"}).status == 0);
  }
  train.signal(SIGTERM);
  train.wait(60);
}

TEST_CASE("a model with the hinge loss predicts margins, and --top is refused", "[integration]") {
  const ScratchDir dir;
  // Horses or foxes, the most frequent kinds, against all others.
  train_animals(dir, {"--set", "model.loss=hinge"});
  const Ended ended = predict(dir, {"--header"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const auto lines = lines_of(ended.out);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "margin");
  const double horse = std::stod(lines[1]), mouse = std::stod(lines[2]), fox = std::stod(lines[3]);
  CHECK((horse > 0) != (fox > 0));
  CHECK(mouse < 0);
  CHECK(std::abs(horse) > 0.3);
  const Ended top = predict(dir, {"--top", "1"});
  CHECK(top.status == 64);
  CHECK(top.err.find("--top writes probabilities, and output `margin` with the loss hinge has "
                     "margins") != std::string::npos);
}

TEST_CASE("a job with a preset and no loss learns classes from more than two texts",
          "[integration]") {
  const ScratchDir dir;
  write_animals(dir);
  const std::string target = GENERATE("kind", "label");  // "label" is the default
  std::string text = read_text(dir / "animals.csv");
  text.replace(text.find("kind"), 4, target);
  dir.write("animals.csv", text);
  dir.write("job.toml",
            "run_dir = \"run\"\ndata.source = \"animals.csv\"\ntrain.epochs = 20\n"
            "model = { preset = \"deepfm\", inputs = [\"size\", \"colour\"]" +
                (target == "label" ? "" : ", target = \"" + target + "\"") + " }\n");
  const Ended trained = downpour(dir, {"train", dir / "job.toml", "--quiet"});
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  const Ended ended = predict(dir, {"--top", "1", "--header", "--format", "csv"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const auto lines = lines_of(ended.out);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == target + "," + target + "/probability");
  CHECK(lines[1].starts_with("horse,"));
  CHECK(lines[2].starts_with("mouse,"));
  CHECK(lines[3].starts_with("fox,"));
}

TEST_CASE("predictions never overwrite the data", "[integration]") {
  const ScratchDir dir;
  train_animals(dir);
  const Ended ended = predict(dir, {"--out", dir / "new-2.csv"});
  CHECK(ended.status == 64);
  CHECK(ended.err.find("the predictions would overwrite the data") != std::string::npos);
  const Ended glob = downpour(dir, {"predict", dir / "run", "--quiet", "--data", dir / "new-*.csv",
                                    "--out", dir / "new-2.csv"});
  CHECK(glob.status == 64);
  std::ifstream file(dir / "new-2.csv");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK(text == "colour,tag,size\nbrown,,2\n");
}

TEST_CASE("records of stdin are predicted and evaluated like those of a file", "[integration]") {
  const ScratchDir dir;
  train_animals(dir);
  std::filesystem::create_directory(dir / "tmp");
  const auto piped = [&](const std::string& input, const std::string& verb) {
    const std::string command = "cd " + dir.path() + " && " + input + " | TMPDIR=tmp " +
                                DP_BIN_DIR + "/downpour " + verb + " > out 2> err";
    const int status = WEXITSTATUS(std::system(command.c_str()));
    return Ended{.status = status, .out = read_text(dir / "out"), .err = read_text(dir / "err")};
  };
  const std::string wanted =
      downpour(dir, {"predict", dir / "run", "--quiet", "--data", dir / "new-1.csv"}).out;
  REQUIRE_FALSE(wanted.empty());
  CHECK(piped("cat new-1.csv", "predict run --quiet --data -").out == wanted);
  CHECK(piped("gzip < new-1.csv", "predict run --quiet --data -").out == wanted);
  const Ended evaluated = piped("cat animals.csv", "eval run --quiet --data -");
  CHECK(evaluated.status == 0);
  const Ended empty = piped("true", "predict run --quiet --data -");
  CHECK(empty.status == 65);
  CHECK(empty.err.find("stdin is empty") != std::string::npos);
  CHECK(piped("cat new-1.csv", "predict run --quiet --data - -").status == 64);
  CHECK(std::filesystem::is_empty(dir / "tmp"));
}

TEST_CASE("a run that may only be read predicts and evaluates, and training fails at once",
          "[integration]") {
  const ScratchDir dir;
  train_animals(dir);
  const std::string wanted =
      downpour(dir, {"predict", dir / "run", "--quiet", "--data", dir / "new-1.csv"}).out;
  // Root may write into any folder, unless it gives up the right to.
  const std::string as_user = ::geteuid() == 0 ? "setpriv --bounding-set=-dac_override " : "";
  if (!as_user.empty() && std::system("setpriv --version > /dev/null 2>&1") != 0) {
    WARN("skipped: root needs setpriv (util-linux) for this test");
    return;
  }
  const auto shell = [&](const std::string& arguments) {
    const std::string command = "cd " + dir.path() + " && timeout 50 " + as_user + DP_BIN_DIR +
                                "/downpour " + arguments + " > out 2> err";
    return WEXITSTATUS(std::system(command.c_str()));
  };
  REQUIRE(std::system(("chmod -R a-w " + (dir / "run")).c_str()) == 0);
  CHECK(shell("predict run --quiet --data new-1.csv") == 0);
  CHECK(read_text(dir / "out") == wanted);
  CHECK(shell("eval run --data animals.csv") == 0);
  CHECK(shell("train animals.csv --target kind --set run_dir=run --epochs 99") == 77);
  REQUIRE(std::system(("chmod -R u+w " + (dir / "run")).c_str()) == 0);
  REQUIRE(std::system(("chmod a-w " + (dir / "run/checkpoints")).c_str()) == 0);
  CHECK(shell("train animals.csv --target kind --set run_dir=run --epochs 99 --set "
              "eval.early_stop.patience=0") == 77);
  CHECK_THAT(read_text(dir / "err"), Catch::Contains("checkpoints"));
  REQUIRE(std::system(("chmod -R u+w " + (dir / "run")).c_str()) == 0);
}

TEST_CASE("a stream that is closed or full neither damages files nor loses results unnoticed",
          "[integration]") {
  const ScratchDir dir;
  train_animals(dir);
  const auto shell = [&](const std::string& arguments) {
    const std::string command = "cd " + dir.path() + " && " + DP_BIN_DIR + "/downpour " + arguments;
    return WEXITSTATUS(std::system(command.c_str()));
  };
  const std::string wanted =
      downpour(dir, {"predict", dir / "run", "--quiet", "--data", dir / "new-1.csv"}).out;
  for (const char* closed : {"2>&-", ">&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    CAPTURE(closed);
    CHECK(shell(std::string("predict run --data new-1.csv --out o.txt ") + closed) == 0);
    CHECK(read_text(dir / "o.txt") == wanted);
    CHECK(shell(std::string("train animals.csv --epochs 1 --set run_dir=other --fresh ") +
                closed) == 0);
    CHECK(std::ranges::count(read_text(dir / "other/lock"), '\n') <= 1);
  }
  for (const char* verb : {"eval run --data animals.csv", "predict run --data new-1.csv", "version",
                           "data head animals.csv", "train animals.csv --dry-run", "runs .",
                           "inspect run", "inspect run --json"}) {
    CAPTURE(verb);
    CHECK(shell(std::string(verb) + " > /dev/full 2> err") == 74);
    CHECK_THAT(read_text(dir / "err"),
               Catch::Contains("could not be written") || Catch::Contains("can't write"));
  }
  // As where a batch system limits the size of files.
  const std::string limited = "ulimit -f 1; cd " + dir.path() + "; " + DP_BIN_DIR +
                              "/downpour train animals.csv --fresh > out 2> err";
  CHECK(WEXITSTATUS(std::system(limited.c_str())) == 74);
  CHECK_THAT(read_text(dir / "err"), Catch::Contains("File too large"));
}

TEST_CASE("predictions carry ids, names of classes and a header in every form of lines",
          "[integration]") {
  const ScratchDir dir;
  train_animals(dir);
  SECTION("csv, in the order of the files, with the texts of the ids as they are") {
    const Ended ended =
        predict(dir, {"--id", "tag", "size", "--top", "1", "--header", "--format", "csv"});
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    const auto lines = lines_of(ended.out);
    REQUIRE(lines.size() == 4);
    CHECK(lines[0] == "tag,size,kind,kind/probability");
    const std::vector<std::string> begins = {"007,9,horse,", "\"a, b\",1,mouse,", ",2,fox,"};
    for (size_t i = 0; i < begins.size(); ++i) {
      CAPTURE(lines[i + 1]);
      REQUIRE(lines[i + 1].starts_with(begins[i]));
      const double probability = std::stod(lines[i + 1].substr(begins[i].size()));
      CHECK((probability > 0.5 && probability <= 1));
    }
  }
  SECTION("jsonl; the two likeliest classes are those with the largest probabilities") {
    const Ended all = predict(dir, {"--format", "jsonl"});
    const Ended top = predict(dir, {"--id", "tag", "--top", "2", "--out", dir / "top.jsonl"});
    REQUIRE(all.status == 0);
    INFO(top.err);
    REQUIRE(top.status == 0);
    const auto values = lines_of(all.out), tops = lines_of(read_text(dir / "top.jsonl"));
    REQUIRE(values.size() == 3);
    REQUIRE(tops.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      const Json each = Json::parse(values[i]), best = Json::parse(tops[i]);
      // A missing value has no member.
      CHECK(best.value("tag", "none") == std::vector<std::string>{"007", "a, b", "none"}[i]);
      std::vector<std::pair<double, std::string>> classes;
      for (const auto& [name, value] : each.items())
        classes.emplace_back(-value.get<double>(), name.substr(name.find('/') + 1));
      std::sort(classes.begin(), classes.end());
      REQUIRE(classes.size() == 3);
      CHECK(best["kind/1"] == classes[0].second);
      CHECK(best["kind/1/probability"] == -classes[0].first);
      CHECK(best["kind/2"] == classes[1].second);
    }
  }
  SECTION("npy has the numbers of the lines") {
    const Ended lines = predict(dir, {});
    REQUIRE(lines.status == 0);
    REQUIRE(predict(dir, {"--out", dir / "p.npy"}).status == 0);
    const std::string bytes = read_text(dir / "p.npy");
    REQUIRE(bytes.size() == 128 + 3 * 3 * sizeof(float));
    CHECK(bytes.find("'shape': (3, 3)") != std::string::npos);
    const char* text = lines.out.c_str();
    for (size_t i = 0; i < 9; ++i) {
      float value;
      std::memcpy(&value, bytes.data() + 128 + i * sizeof value, sizeof value);
      char* end = nullptr;
      CHECK(std::strtof(text, &end) == value);
      text = end;
    }
  }
  SECTION("a name with .gz or .zst is that of a compressed file") {
    const Ended plain = predict(dir, {"--header", "--format", "csv"});
    REQUIRE(predict(dir, {"--header", "--out", dir / "p.csv.gz"}).status == 0);
    const std::string unpack = "gzip -dc '" + dir / "p.csv.gz" + "' > '" + dir / "p.csv" + "'";
    REQUIRE(std::system(unpack.c_str()) == 0);
    CHECK(read_text(dir / "p.csv") == plain.out);
    REQUIRE(predict(dir, {"--format", "csv", "--out", dir / "p.zst"}).status == 0);
    CHECK(read_text(dir / "p.zst").starts_with("\x28\xb5\x2f\xfd"));
    const Ended array = predict(dir, {"--out", dir / "p.npy.gz"});
    CHECK(array.status == 64);
    CHECK(array.err.find("npy output can't be compressed") != std::string::npos);
  }
  SECTION("what cannot be written is refused") {
    const Ended person = predict(dir, {"--id", "person"});
    CHECK(person.status == 78);
    CHECK(person.err.find("there is no column \"person\"") != std::string::npos);
    const Ended tab = predict(dir, {"--id", "tag", "--format", "xml"});
    CHECK(tab.status == 64);
    CHECK(tab.err.find("use tsv, csv, jsonl or npy") != std::string::npos);
    const Ended twice = predict(dir, {"--id", "tag", "tag"});
    CHECK(twice.status == 64);
    CHECK(twice.err.find("two columns would be named tag") != std::string::npos);
    const Ended array = predict(dir, {"--id", "tag", "--out", dir / "p.npy"});
    CHECK(array.status == 64);
    CHECK(array.err.find("an array of predictions has no ids") != std::string::npos);
  }
}

TEST_CASE("a bad record ends predictions, also in a model that skips bad records",
          "[integration]") {
  const ScratchDir dir;
  train_animals(dir, {"--set", "data.bad_records=skip"});
  dir.write("new-2.csv", "colour,tag,size\nbrown,x,2\ngrey,y\nbrown,z,3\n");
  const Ended ended = predict(dir, {});
  CHECK(ended.status == 65);
  CHECK(ended.err.find("new-2.csv:3") != std::string::npos);
  CHECK(ended.err.find("each record gets a prediction") != std::string::npos);
  // An older file stays as it is.
  dir.write("old.tsv", "old\n");
  CHECK(predict(dir, {"--out", dir / "old.tsv"}).status == 65);
  std::ifstream old(dir / "old.tsv");
  CHECK(std::string{std::istreambuf_iterator<char>(old), {}} == "old\n");
  CHECK_FALSE(std::ifstream(dir / "old.tsv.tmp").good());
}

TEST_CASE("raw predictions are the logits of the classes", "[integration]") {
  const ScratchDir dir;
  train_animals(dir);
  const Ended probabilities = predict(dir, {}), raw = predict(dir, {"--raw"});
  INFO(raw.err);
  REQUIRE(raw.status == 0);
  const auto wanted = lines_of(probabilities.out), found = lines_of(raw.out);
  REQUIRE(found.size() == 3);
  for (size_t i = 0; i < found.size(); ++i) {
    double z[3], p[3], sum = 0;
    std::istringstream(found[i]) >> z[0] >> z[1] >> z[2];
    std::istringstream(wanted[i]) >> p[0] >> p[1] >> p[2];
    for (const double each : z) sum += std::exp(each);
    for (int k = 0; k < 3; ++k) CHECK(std::exp(z[k]) / sum == Approx(p[k]).margin(1e-6));
  }
  CHECK(found != wanted);
  CHECK(predict(dir, {"--raw", "--top", "1"}).status == 64);
}

}  // namespace
}  // namespace downpour::testing
