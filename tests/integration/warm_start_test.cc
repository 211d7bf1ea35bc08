// A warm start takes the model that eval uses, and refuses a job in which it means something else.
#include <filesystem>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace downpour::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Settings of a run that changes nothing: the loss of its evaluation is that of the start.
const std::vector<std::string> kFrozen = {"train.warm_start.slots=false", "optimizer.type=sgd",
                                          "optimizer.learning_rate=1e-12"};

struct Folder {
  Folder() { fs::current_path(dir.path()); }
  Ended program(const std::vector<std::string>& arguments) const {
    return Program("downpour", arguments, dir.path()).wait(120);
  }
  Ended train(const std::string& source, std::vector<std::string> more,
              const std::vector<std::string>& settings) const {
    more.insert(more.begin(), {"train", source, "--log-format", "json", "--quiet"});
    for (const std::string& setting : settings) more.insert(more.end(), {"--set", setting});
    return program(more);
  }
  double loss_of(const Ended& ended) const {
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    return Json::parse(ended.out)["evaluations"].back()["outputs"].items().begin().value()["loss"];
  }
  double eval(const std::string& run, const std::string& data) const {
    return loss_of(program({"eval", run, "--data", data, "--log-format", "json", "--quiet"}));
  }
  void check_refused(const Ended& ended, const std::string& what) const {
    INFO(ended.err);
    CHECK(ended.status == 78);
    CHECK(ended.err.find("DP-2110") != std::string::npos);
    CHECK(ended.err.find(what) != std::string::npos);
  }
  /// Makes a table of colors; `order` is that of its columns.
  void write_table(const std::string& name, bool swapped) const {
    std::string text = swapped ? "color,b,a,y\n" : "a,b,color,y\n";
    const char* const colors[] = {"red", "green", "blue"};
    for (int i = 0; i < 900; ++i) {
      const std::string a = std::to_string(i % 17), b = std::to_string(i % 5 * 10);
      const std::string color = colors[i % 3], y = i % 17 + 2 * (i % 3) > 9 ? "yes" : "no";
      text += swapped ? color + "," + b + "," + a + "," + y + "\n"
                      : a + "," + b + "," + color + "," + y + "\n";
    }
    dir.write(name, text);
  }
  void write_job(const std::string& name, const std::string& vocabulary, const std::string& classes,
                 const std::string& more = "") const {
    dir.write(name,
              "[data]\nsource = \"table.csv\"\nformat = \"csv\"\nheader = true\n"
              "fields.color = { type = \"string\", transform = [{ op = \"vocabulary\", " +
                  vocabulary + ", unknown = \"hash\", buckets = 4 }] }\n" +
                  "fields.y = { type = \"string\", classes = [" + classes + "] }\n" +
                  "[model]\npreset = \"logistic_regression\"\ninputs = [\"color\"]\n" +
                  "target = \"y\"\n[train]\nepochs = 3\nbatch_size = 30\n" + more);
  }

  ScratchDir dir;
};

const std::string kFile = "file = \"words.txt\"", kClasses = "\"no\", \"yes\"";

TEST_CASE("a warm start begins with the best epoch, as eval does", "[integration]") {
  const Folder folder;
  REQUIRE(folder.program({"synth", "few.tsv", "--rows", "3000", "--ids", "10000"}).status == 0);
  REQUIRE(folder.program({"synth", "test.tsv", "--rows", "1000", "--ids", "10000", "--stream", "1"})
              .status == 0);
  const Ended first = folder.train("few.tsv", {"--epochs", "7"}, {});
  REQUIRE(first.status == 0);
  REQUIRE(Json::parse(first.out)["best_epoch"] < 7);
  std::vector<std::string> settings = kFrozen;
  settings.insert(settings.end(), {"run_dir=second", "train.warm_start.run=runs/few"});
  const Ended second = folder.train("few.tsv", {"--epochs", "1"}, settings);
  INFO(second.err);
  REQUIRE(second.status == 0);
  CHECK(folder.eval("second", "test.tsv") ==
        Approx(folder.eval("runs/few", "test.tsv")).epsilon(1e-5));
}

TEST_CASE("a warm start warns of evaluation data that the other run has trained on",
          "[integration]") {
  const Folder folder;
  folder.write_table("table.csv", false);
  const auto train = [&](const char* run, const char* holdout, const char* from) {
    std::vector<std::string> arguments = {"train", "table.csv", "--target", "y", "--epochs", "1"};
    for (const std::string& setting :
         {std::string("run_dir=") + run, std::string("eval.holdout=") + holdout,
          std::string("train.warm_start.run=") + from})
      if (!setting.ends_with('=')) arguments.insert(arguments.end(), {"--set", setting});
    const Ended ended = folder.program(arguments);
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    return ended.out.find("or the run of the warm start, have trained on some") !=
           std::string::npos;
  };
  CHECK_FALSE(train("all", "0", ""));
  CHECK(train("after-all", "0.2", "all"));
  CHECK_FALSE(train("most", "0.2", ""));
  CHECK_FALSE(train("after-most", "0.2", "most"));
  CHECK_FALSE(train("fewer", "0.1", "most"));
}

TEST_CASE("the steps of earlier runs add up over warm starts with slots, and survive a resume",
          "[integration]") {
  const Folder folder;
  REQUIRE(folder.program({"synth", "some.tsv", "--rows", "1000", "--ids", "1000"}).status == 0);
  const auto train = [&](const std::string& run, const std::string& epochs,
                         const std::string& from = "", const std::string& slots = "true") {
    std::vector<std::string> settings = {"run_dir=" + run, "optimizer.type=adam", "train.mode=sync",
                                         "train.replicas=1", "eval.keep_best=false"};
    if (!from.empty())
      settings.insert(settings.end(),
                      {"train.warm_start.run=" + from, "train.warm_start.slots=" + slots});
    const Ended ended = folder.train("some.tsv", {"--epochs", epochs}, settings);
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    const Ended shown = folder.program({"inspect", run, "--json"});
    REQUIRE(shown.status == 0);
    const Json partitions = Json::parse(shown.out)["partitions"];
    CHECK(partitions["steps_before_min"] == partitions["steps_before_max"]);
    CHECK(partitions["version_min"] == partitions["version_max"]);
    return std::pair(partitions["steps_before_min"].get<uint64_t>(),
                     partitions["version_min"].get<uint64_t>());
  };
  const auto [none, first] = train("first", "1");
  CHECK(none == 0);
  REQUIRE(first > 0);
  const auto [before_second, second] = train("second", "1", "first");
  CHECK(before_second == first);
  const auto [before_third, third] = train("third", "1", "second");
  CHECK(before_third == first + second);
  const auto [resumed_before, resumed] = train("third", "2", "second");
  CHECK(resumed_before == first + second);
  CHECK(resumed > third);
  CHECK_THAT(folder.program({"inspect", "third"}).out,
             Catch::Contains("after " + std::to_string(first + second) + " steps of earlier runs"));
  CHECK(train("anew", "1", "second", "false").first == 0);
}

TEST_CASE("a changed vocabulary is refused at a warm start and at a resume, but it may grow",
          "[integration]") {
  const Folder folder;
  folder.write_table("table.csv", false);
  folder.dir.write("words.txt", "red\ngreen\nblue\n");
  folder.write_job("job.toml", kFile, kClasses);
  const std::string start = "warm_start = { run = \"runs/job\" }\n";
  folder.write_job("next.toml", kFile, kClasses, start);
  REQUIRE(folder.train("job.toml", {}, {}).status == 0);
  folder.dir.write("words.txt", "blue\nred\ngreen\nblack\n");
  const std::string changed = "the vocabulary of `color` has changed: its first 3 words";
  folder.check_refused(folder.train("job.toml", {"--epochs", "4"}, {}), changed);
  folder.check_refused(folder.train("job.toml", {}, {}), changed);
  folder.check_refused(folder.train("next.toml", {}, {}), changed);
  CHECK_FALSE(fs::exists("runs/next/run"));
  folder.dir.write("words.txt", "red\ngreen\nblue\nblack\n");
  CHECK(folder.train("next.toml", {}, {}).status == 0);
  CHECK(folder.train("job.toml", {"--epochs", "4"}, {}).status == 0);
}

TEST_CASE("a warm start refuses classes in another order", "[integration]") {
  const Folder folder;
  folder.write_table("table.csv", false);
  folder.write_job("job.toml", "words = [\"red\", \"green\", \"blue\"]", kClasses);
  REQUIRE(folder.train("job.toml", {}, {}).status == 0);
  folder.write_job("next.toml", "words = [\"red\", \"green\", \"blue\"]", "\"yes\", \"no\"",
                   "warm_start = { run = \"runs/job\" }\n");
  folder.check_refused(folder.train("next.toml", {}, {}), "`data.fields.y.classes` is [");
  // The same holds for the arrays of the run.
  REQUIRE(folder.program({"export", "runs/job", "--out", "w.npz"}).status == 0);
  folder.check_refused(
      folder.train("next.toml", {}, {"train.warm_start.run=\"\"", "train.warm_start.file=w.npz"}),
      "`data.fields.y.classes` is [");
}

TEST_CASE("a warm start from a file with other columns needs the inputs in the old order",
          "[integration]") {
  const Folder folder;
  folder.write_table("table.csv", false);
  folder.write_table("other.csv", true);
  const std::vector<std::string> model = {"model.preset=logistic_regression", "eval.holdout=0"};
  REQUIRE(folder.train("table.csv", {"--epochs", "3"}, model).status == 0);
  std::vector<std::string> settings = kFrozen;
  settings.insert(settings.end(), model.begin(), model.end());
  settings.insert(settings.end(), {"run_dir=next", "train.warm_start.run=runs/table"});
  folder.check_refused(folder.train("other.csv", {"--epochs", "1"}, settings),
                       "`inputs` of layer `linear` is [a, a_scaled, b, b_scaled] in the other run, "
                       "but [b, b_scaled, a, a_scaled]");
  settings.push_back(
      "model.inputs=[\"a_id\", \"b_id\", \"color\", \"a\", \"a_scaled\", \"b\", \"b_scaled\"]");
  const Ended next = folder.train("other.csv", {"--epochs", "1"}, settings);
  INFO(next.err);
  REQUIRE(next.status == 0);
  CHECK(folder.eval("next", "other.csv") ==
        Approx(folder.eval("runs/table", "table.csv")).epsilon(1e-5));
}

}  // namespace
}  // namespace downpour::testing
