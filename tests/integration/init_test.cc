// `downpour init` as a newcomer runs it: the job that it writes trains what `downpour train FILE`
// trains.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace downpour::testing {
namespace {

namespace fs = std::filesystem;

/// Runs `downpour` in the folder.
Ended run(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  fs::current_path(dir.path());
  return Program("downpour", arguments, dir.path()).wait(120);
}

/// Writes houses whose price follows from area and district.
void write_houses(const std::string& path) {
  std::ofstream out(path);
  out << "area,district,price\n";
  for (int i = 0; i < 900; ++i)
    out << 40 + i * 37 % 211 << ",d" << i % 7 << "," << 1000 * (40 + i * 37 % 211) + 5000 * (i % 7)
        << "\n";
}

/// Returns the effective job without comments, names of files and places of values.
std::string effective_job(const ScratchDir& dir, const std::string& argument) {
  const Ended shown = run(dir, {"train", argument, "--dry-run", "--quiet"});
  INFO(shown.err);
  REQUIRE(shown.status == 0);
  std::istringstream lines(shown.out);
  std::string job, line;
  while (std::getline(lines, line)) {
    if (line.starts_with("#") || line.starts_with("source")) continue;
    job += line.substr(0, line.find("  #")) + "\n";
  }
  return job;
}

/// Trains one epoch so that the result is the same bit for bit, and returns its last evaluation.
std::string trained(const ScratchDir& dir, const std::string& argument) {
  const Ended ended = run(dir, {"train", argument, "--fresh", "--epochs", "1", "--set",
                                "train.mode=sync", "--log-format", "json"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return nlohmann::json::parse(ended.out)["evaluations"].back()["outputs"].dump();
}

TEST_CASE("the job of init trains exactly what train DATAFILE trains", "[integration]") {
  const ScratchDir dir;
  write_houses(dir / "houses.csv");
  const Ended made = run(dir, {"init", "houses.csv"});
  INFO(made.err);
  REQUIRE(made.status == 0);
  CHECK(made.out.find("downpour train houses.toml") != std::string::npos);
  CHECK(made.err.find("target \"price\"") != std::string::npos);
  const std::string text = read_text(dir / "houses.toml");
  CAPTURE(text);
  CHECK(text.find("source = [\"houses.csv\"]") != std::string::npos);
  REQUIRE(run(dir, {"init", "houses.csv", "-o", "other.toml"}).status == 0);
  CHECK(read_text(dir / "other.toml").find("source = [\"houses.csv\"]") != std::string::npos);
  CHECK(effective_job(dir, "houses.toml") == effective_job(dir, "houses.csv"));
  CHECK(trained(dir, "houses.toml") == trained(dir, "houses.csv"));
}

TEST_CASE("init keeps an existing job file unless --force is given", "[integration]") {
  const ScratchDir dir;
  write_houses(dir / "houses.csv");
  dir.write("houses.toml", "mine = true\n");
  const Ended refused = run(dir, {"init", "houses.csv"});
  CHECK(refused.status == 73);
  CHECK(refused.err.find("exists already") != std::string::npos);
  CHECK(refused.err.find("--force") != std::string::npos);
  CHECK(read_text(dir / "houses.toml") == "mine = true\n");
  CHECK(run(dir, {"init", "houses.csv", "--force"}).status == 0);
  CHECK(read_text(dir / "houses.toml").find("[data]") != std::string::npos);
}

TEST_CASE("init predicts the field of --target, in a job file of another folder", "[integration]") {
  const ScratchDir dir;
  write_houses(dir / "houses.csv");
  fs::create_directory(dir / "jobs");
  const Ended made = run(dir, {"init", "houses.csv", "--target", "area", "-o", "jobs/area.toml"});
  INFO(made.err);
  REQUIRE(made.status == 0);
  const std::string text = read_text(dir / "jobs/area.toml");
  CAPTURE(text);
  CHECK(text.find("target = \"area\"") != std::string::npos);
  CHECK(text.find("source = [\"" + (dir / "houses.csv")) != std::string::npos);
  CHECK(run(dir, {"train", "jobs/area.toml", "--epochs", "1", "--quiet"}).status == 0);
  CHECK(fs::exists(dir / "jobs/runs/houses/run"));
}

TEST_CASE("init names what is wrong with its arguments", "[integration]") {
  const ScratchDir dir;
  write_houses(dir / "houses.csv");
  dir.write("same.csv", "a,label\n1,x\n2,x\n3,x\n");
  struct Wrong {
    std::vector<std::string> arguments;
    int status;
    const char* text;
  };
  const Wrong all[] = {
      {{"init", "houses.csv", "--target", "prize"}, 78, "did you mean `price`?"},
      {{"init", "houses.csv", "-o", "job.txt"}, 64, "ends in .toml, not `job.txt`"},
      {{"init", "houses.toml"}, 64, "downpour train houses.toml"},
      {{"init", "absent.csv"}, 66, "absent.csv"},
      {{"init", "same.csv"}, 65, "name another column to predict: --target NAME"},
      {{"init", "houses.csv", "-o", "none/job.toml"}, 73, "none"}};
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.arguments.back());
    const Ended ended = run(dir, wrong.arguments);
    CHECK(ended.status == wrong.status);
    CHECK(ended.err.find(wrong.text) != std::string::npos);
    CHECK(!fs::exists(dir / "houses.toml"));
  }
}

}  // namespace
}  // namespace downpour::testing
