// `downpour train DATAFILE` as a newcomer runs it: the model that it chooses must be good, on data
// whose best result is known.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/base/rng.h"
#include "shared/base/str.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;

/// Runs downpour, which must succeed.
Ended succeed(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  Ended ended = Program("downpour", arguments, dir.path()).wait(300);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return ended;
}

/// Trains on the file and evaluates on `test`. Returns the metrics of the only output.
Json train_and_evaluate(const ScratchDir& dir, const std::string& train, const std::string& test) {
  const Ended trained = succeed(dir, {"train", train, "--fresh", "--quiet"});
  CHECK(trained.err.find("warning") == std::string::npos);
  const std::string name = train.substr(train.rfind('/') + 1);
  const std::string run = "runs/" + name.substr(0, name.rfind('.'));
  const Ended evaluated =
      succeed(dir, {"eval", run, "--data", test, "--log-format", "json", "--quiet"});
  return Json::parse(evaluated.out)["evaluations"][0]["outputs"].begin().value();
}

/// Trains. Returns a metric of the only output, for each evaluation.
std::vector<double> evaluations(const ScratchDir& dir, std::vector<std::string> arguments,
                                const char* metric) {
  arguments.insert(arguments.begin(), "train");
  arguments.insert(arguments.end(), {"--quiet", "--log-format", "json"});
  const Ended trained = succeed(dir, arguments);
  const Json summary = Json::parse(trained.out);
  std::vector<double> values;
  for (const Json& evaluation : summary["evaluations"])
    values.push_back(evaluation["outputs"].begin().value()[metric]);
  REQUIRE_FALSE(values.empty());
  return values;
}

/// Generates clicks. Returns the best AUC that any model can reach on them.
double make_clicks(const ScratchDir& dir, const std::string& name, const char* rows,
                   const char* stream) {
  const Ended made =
      Program("downpour",
              {"synth", dir / name, "--rows", rows, "--ids", "50", "--stream", stream, "--json"},
              dir.path())
          .wait(60);
  REQUIRE(made.status == 0);
  return Json::parse(made.out)["bayes_auc"].get<double>();
}

/// Writes houses: a price of about 300,000 with noise of 10,000, from the area (long-tailed), the
/// age (an integer) and the district. The best possible RMSE is 10,000; a constant has about
/// 90,000.
void write_houses(const std::string& path, uint64_t seed, bool sorted, bool price_first = false) {
  Rng rng(seed);
  std::vector<std::pair<double, std::string>> rows;
  for (int i = 0; i < 6000; ++i) {
    const double area = 80 * std::exp(0.5 * rng.normal());
    const uint64_t age = rng.below(60), district = rng.below(12);
    const double price = 150'000 + 60'000 * std::log(area / 20) +
                         (age < 10 ? 80'000 : 40'000 * std::cos(double(age) / 8)) +
                         15'000 * double(district * 7 % 12) + 10'000 * rng.normal();
    const std::string house =
        std::to_string(area) + "," + std::to_string(age) + ",d" + std::to_string(district);
    rows.emplace_back(price, price_first ? std::to_string(price) + "," + house
                                         : house + "," + std::to_string(price));
  }
  if (sorted) std::sort(rows.begin(), rows.end());
  std::ofstream out(path);
  out << (price_first ? "price,area,age,district\n" : "area,age,district,price\n");
  for (const auto& [price, row] : rows) out << row << "\n";
}

TEST_CASE("a regression without a job is close to the best possible, also on a sorted file",
          "[integration]") {
  const ScratchDir dir;
  write_houses(dir / "houses.csv", 1, false);
  write_houses(dir / "sorted.csv", 1, true);
  write_houses(dir / "test.csv", 2, false);
  for (const char* train : {"houses.csv", "sorted.csv"}) {
    CAPTURE(train);
    const Json metrics = train_and_evaluate(dir, dir / train, dir / "test.csv");
    CHECK(metrics["rmse"].get<double>() < 12'500);
  }
}

TEST_CASE("a job that names only data and target trains on the target's own values",
          "[integration]") {
  const ScratchDir dir;
  write_houses(dir / "houses.csv", 1, false, /*price_first=*/true);
  dir.write(
      "job.toml",
      "run_dir = \"run\"\ndata = { source = \"houses.csv\" }\n"
      "model = { preset = \"wide_deep\", target = \"price\", loss = \"squared\", bins = 16 }\n"
      "train = { epochs = 5, batch_size = 64 }\neval = { holdout = 0.1 }\n");
  const Ended trained = succeed(dir, {"train", dir / "job.toml", "--log-format", "json"});
  const size_t last = trained.err.rfind("\"rmse\":");
  REQUIRE(last != std::string::npos);
  const double rmse = std::stod(trained.err.substr(last + 7));
  CHECK(rmse > 9'000);
  CHECK(rmse < 20'000);
}

TEST_CASE("classes without a job: three classes of numbers that no plane separates",
          "[integration]") {
  const ScratchDir dir;
  for (const char* name : {"rings.csv", "test.csv"}) {
    Rng rng(name[0]);
    std::ofstream out(dir / name);
    out << "x,y,label\n";
    for (int i = 0; i < 5000; ++i) {
      const double x = rng.normal(), y = rng.normal(), radius = std::hypot(x, y);
      out << x << "," << y << "," << (radius < 0.8 ? 0 : radius < 1.5 ? 1 : 2) << "\n";
    }
  }
  const Json metrics = train_and_evaluate(dir, dir / "rings.csv", dir / "test.csv");
  CHECK(metrics["accuracy"].get<double>() > 0.93);
}

TEST_CASE("an override of one option keeps the rest of the chosen optimizer", "[integration]") {
  const ScratchDir dir;
  dir.write("d.svm", "1 1:1 2:1\n0 2:1 3:1\n1 1:1 3:1\n");
  const auto dry_run = [&](const std::string& setting) {
    return Program("downpour", {"train", dir / "d.svm", "--dry-run", "--set", setting}, dir.path())
        .wait(60)
        .out;
  };
  const std::string same = dry_run("optimizer.learning_rate=0.05");
  CHECK(same.find("learning_rate = 0.05") != std::string::npos);
  CHECK(same.find("# chosen from the data") != std::string::npos);
  CHECK(same.find("# --set") != std::string::npos);
  CHECK(same.find("d.toml") == std::string::npos);
  CHECK(same.find("variables = \"linear/*\"") != std::string::npos);
  CHECK(dry_run("model.preset=deepfm").find("linear/*") == std::string::npos);
  // The rates that a preset chooses by itself keep their ratios.
  write_houses(dir / "houses.csv", 1, false);
  const auto rates = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> arguments = {"train", dir / "houses.csv", "--dry-run"};
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    std::istringstream lines(Program("downpour", arguments, dir.path()).wait(60).out);
    std::vector<double> found;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("learning_rate = ")) found.push_back(std::stod(line.substr(16)));
    return found;
  };
  const std::vector<double> chosen = rates({});
  const std::vector<double> tenth =
      rates({"--set", "optimizer.learning_rate=" + std::to_string(chosen.at(0) / 10)});
  REQUIRE(chosen.size() > 1);
  REQUIRE(tenth.size() == chosen.size());
  for (size_t i = 0; i < chosen.size(); ++i) CHECK(tenth[i] == Approx(chosen[i] / 10));
}

TEST_CASE("evaluation data take the place of the held-out records", "[integration]") {
  const ScratchDir dir;
  write_houses(dir / "houses.csv", 1, false);
  write_houses(dir / "test.csv", 2, false);
  const Ended trained =
      succeed(dir, {"train", dir / "houses.csv", "--set", "eval.source=" + (dir / "test.csv"),
                    "--epochs", "1", "--fresh", "--quiet", "--log-format", "json"});
  const Json summary = Json::parse(trained.out);
  CHECK(summary["accounts"][0]["filtered"] == 0);
  CHECK(summary["evaluations"].size() == 1);
}

TEST_CASE("a preset given by its name keeps the task that the data show", "[integration]") {
  const ScratchDir dir;
  write_houses(dir / "houses.csv", 1, false);
  for (const std::string preset :
       {"wide_deep", "deepfm", "dcn_v2", "dlrm", "linear_regression", "factorization_machine"}) {
    CAPTURE(preset);
    const Ended trained =
        succeed(dir, {"train", dir / "houses.csv", "--set", "model.preset=" + preset, "--epochs",
                      "3", "--fresh", "--quiet", "--log-format", "json"});
    const Json summary = Json::parse(trained.out);
    const Json metrics = summary["evaluations"].back()["outputs"].begin().value();
    CHECK(metrics["rmse"].get<double>() < 80'000);  // a constant has about 90,000
  }
}

TEST_CASE("matrix_factorization by its name alone finds the product of users and items",
          "[integration]") {
  constexpr int kUsers = 400, kItems = 200;
  constexpr double kNoise = 0.5;
  const ScratchDir dir;
  Rng truth(7);
  std::vector<std::array<double, 3>> users(kUsers), items(kItems);  // a bias and two factors
  for (auto* side : {&users, &items})
    for (auto& row : *side)
      row = {0.5 * truth.normal(), 0.8 * truth.normal(), 0.8 * truth.normal()};
  for (const char* name : {"ratings.csv", "test.csv"}) {
    Rng rng(name[0]);
    std::ofstream out(dir / name);
    out << "user,item,rating\n";
    for (int i = 0; i < 60'000; ++i) {
      const size_t u = rng.below(kUsers), j = rng.below(kItems);
      const double product = users[u][1] * items[j][1] + users[u][2] * items[j][2];
      out << "u" << u << ",i" << j << ","
          << 3 + users[u][0] + items[j][0] + product + kNoise * rng.normal() << "\n";
    }
  }
  dir.write("job.toml",
            "data = { source = \"ratings.csv\", format = \"csv\", fields = { user = { type = "
            "\"string\", transform = [\"hash\"] }, item = { type = \"string\", transform = "
            "[\"hash\"] }, rating = {} } }\n"
            "model = { preset = \"matrix_factorization\", target = \"rating\" }\n"
            "eval = { source = \"test.csv\", keep_best = true }\ntrain.epochs = 8\n");
  const std::vector<double> rmse = evaluations(dir, {dir / "job.toml"}, "rmse");
  CHECK(*std::ranges::min_element(rmse) < 1.2 * kNoise);  // of the biases alone about 1.03
}

TEST_CASE("each network preset by its name alone comes within .015 AUC of the best possible",
          "[integration]") {
  const ScratchDir dir;
  make_clicks(dir, "clicks.tsv", "100000", "0");
  const double best = make_clicks(dir, "test.tsv", "20000", "1");
  for (const std::string preset : {"wide_deep", "deepfm", "dcn_v2", "dlrm"}) {
    CAPTURE(preset);
    const std::vector<double> auc =
        evaluations(dir,
                    {dir / "clicks.tsv", "--set", "model.preset=" + preset, "--set",
                     "eval.source=" + (dir / "test.tsv"), "--set", "eval.holdout=0", "--epochs",
                     "2", "--fresh"},
                    "auc");
    CHECK(*std::ranges::max_element(auc) > best - 0.015);
  }
}

TEST_CASE("clicks without a job come within .01 AUC of the best possible", "[integration]") {
  const ScratchDir dir;
  for (const std::string extension : {"tsv", "svm"}) {
    CAPTURE(extension);
    make_clicks(dir, "clicks." + extension, "150000", "0");
    const double best = make_clicks(dir, "test." + extension, "20000", "1");
    const Json metrics =
        train_and_evaluate(dir, dir / ("clicks." + extension), dir / ("test." + extension));
    CHECK(metrics["auc"].get<double>() > best - 0.01);
  }
}

/// Writes animals of three kinds, which size and colour decide. Those of the last `rare` records
/// are of a fourth kind.
void write_animals(const std::string& path, int records, int rare, uint64_t seed) {
  Rng rng(seed);
  std::ofstream file(path);
  file << "size,colour,kind\n";
  for (int i = 0; i < records; ++i) {
    const bool is_rare = i >= records - rare;
    const double size = is_rare ? 9 + rng.uniform64() : 6 * rng.uniform64();
    const bool grey = rng.below(2) == 0;
    file << size << (grey ? ",grey," : ",brown,")
         << (is_rare    ? "whale"
             : size > 4 ? "horse"
             : grey     ? "mouse"
                        : "fox")
         << "\n";
  }
}

TEST_CASE("a label of several texts trains a model of all classes, also of those at the file's end",
          "[integration]") {
  const ScratchDir dir;
  write_animals(dir / "animals.csv", 20'000, 300, 1);
  write_animals(dir / "test.csv", 4'000, 60, 2);
  const Json metrics = train_and_evaluate(dir, dir / "animals.csv", dir / "test.csv");
  CHECK(metrics["accuracy"].get<double>() > 0.99);
  CHECK(metrics["logloss"].get<double>() < 0.05);

  const auto downpour = [&](const std::vector<std::string>& arguments) {
    return Program("downpour", arguments, dir.path()).wait(60);
  };
  dir.write("new.csv", "size,colour,kind\n9.5,grey,whale\n1,brown,cat\n");
  const Ended predicted =
      downpour({"predict", "runs/animals", "--data", dir / "new.csv", "--header", "--quiet"});
  REQUIRE(predicted.status == 0);
  CHECK(predicted.out.starts_with("class/fox\tclass/horse\tclass/mouse\tclass/whale\n"));
  CHECK(std::ranges::count(predicted.out, '\n') == 3);
  const Ended refused = downpour({"eval", "runs/animals", "--data", dir / "new.csv"});
  CHECK(refused.status == 65);
  CHECK(refused.err.find("none of the classes of `kind`: \"cat\" (1 record)") != std::string::npos);
  const Ended skipped =
      downpour({"eval", "runs/animals", "--data", dir / "new.csv", "--skip-unknown-labels"});
  CHECK(skipped.status == 0);
  CHECK(skipped.err.find("evaluations leave out 1 record, whose label") != std::string::npos);
}

TEST_CASE("numbered classes are those of all records, and a target of one value is reported",
          "[integration]") {
  const ScratchDir dir;
  std::string sorted = "x,kind\n", constant = "x,bought\n", ages = "x,age\n", pairs = "x,kind\n",
              grades = "x,grade\n";
  for (int i = 0; i < 24'000; ++i) {
    sorted += str(i, ",", i < 22'000 ? i / 11'000 : 2, "\n");
    constant += str(i, ",1\n");
    pairs += str(i, i < 16'000 ? ",1\n" : ",2\n");
    grades += str(i, ",", i % 6 + 4, "\n");
    ages += str(i, ",", 1 + i / 6'000 + (i > 20'000 ? i % 90 : 0), "\n");
  }
  const auto train = [&](const std::string& name, const std::string& text) {
    return Program("downpour", {"train", dir.write(name, text), "--epochs", "1", "--fresh"},
                   dir.path())
        .wait(60);
  };
  const Ended classes = train("sorted.csv", sorted);
  INFO(classes.err);
  CHECK(classes.status == 0);
  CHECK(classes.err.find("(the last column; binary); by all records 3 classes") !=
        std::string::npos);
  const Ended two = train("two.csv", pairs);
  INFO(two.err);
  CHECK(two.status == 0);
  CHECK(two.err.find("by all records 1 means \"2\"") != std::string::npos);
  const Ended named = train("grades.csv", grades);
  INFO(named.err);
  CHECK(named.status == 0);
  CHECK(named.err.find("by all records 6 classes from \"4\" to \"9\"") != std::string::npos);
  const Ended predicted =
      Program("downpour",
              {"predict", "runs/grades", "--data", dir / "grades.csv", "--header", "--quiet"},
              dir.path())
          .wait(60);
  CHECK(predicted.out.starts_with("class/4\tclass/5\tclass/6\t"));
  // The same run goes on, with the same classes.
  CHECK(Program("downpour", {"train", dir / "grades.csv", "--epochs", "2"}, dir.path())
            .wait(60)
            .status == 0);
  const Ended numbers = train("ages.csv", ages);
  INFO(numbers.err);
  CHECK(numbers.status == 0);
  CHECK(numbers.err.find("by all records regression") != std::string::npos);
  const Ended same = train("same.csv", constant);
  CHECK(same.status == 0);
  CHECK(same.out.find("all evaluation data have the same `bought`") != std::string::npos);
  CHECK(same.out.find("worse than a constant") == std::string::npos);
}

}  // namespace
}  // namespace downpour::testing
