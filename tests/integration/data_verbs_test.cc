// downpour data and downpour shard as a user runs them: output streams, exit codes, memory, Ctrl-C.
#include <algorithm>
#include <filesystem>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/seeds.h"

namespace downpour::testing {
namespace {

using Catch::Contains;
using Json = nlohmann::json;
namespace fs = std::filesystem;

Ended downpour(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  return Program("downpour", arguments, dir.path()).wait(120);
}

/// Returns a job on the columns `x` and `label` of a source that a program reads.
std::string program_job(const std::string& source, const std::string& program) {
  return "[data]\nformat = \"csv\"\ncolumns = [\"x\", \"label\"]\nsource = " + source +
         "\nprogram = " + program +
         "\nfields = { x = {}, label = {} }\n"
         "[model]\npreset = \"logistic_regression\"\ntarget = \"label\"\n";
}

size_t entries(const std::string& folder) {
  return size_t(std::distance(fs::directory_iterator(folder), {}));
}

/// Writes `megabytes` MiB of JSON lines, each with its number and padding, and returns the path.
std::string make_lines(const ScratchDir& dir, size_t megabytes) {
  std::ofstream out(dir / "lines.jsonl", std::ios::binary);
  const std::string filling(200, 'x');
  for (size_t i = 0, bytes = 0; bytes < megabytes << 20; ++i) {
    const std::string line = "{\"x\": " + std::to_string(i) + ", \"t\": \"" + filling + "\"}\n";
    bytes += line.size();
    out << line;
  }
  return dir / "lines.jsonl";
}

TEST_CASE("results go to stdout, everything else goes to stderr, and bad data end with 65",
          "[integration]") {
  const ScratchDir dir;
  const std::string good = dir.write("good.csv", "x,label\n1,0\n2,1\n3,0\n");
  const std::string bad = dir.write(
      "bad.csv", "x,label\n1,0\n2\n3,1\n" + [] {
        std::string more;
        for (int i = 0; i < 100; ++i) more += "4,0\n5,1\n";
        return more;
      }());
  const Ended head = downpour(dir, {"data", "head", good, "-n", "2"});
  CHECK(head.status == 0);
  CHECK(head.out == "  x  label\n  1      0\n  2      1\n");
  CHECK_THAT(head.err, Contains("data: csv with header"));
  CHECK(head.out.find('\x1b') + head.err.find('\x1b') + 2 == 0);  // both are npos
  CHECK(downpour(dir, {"data", "head", good, "--quiet"}).err.empty());
  const Ended counted = downpour(dir, {"data", "count", good, bad, "--json"});
  CHECK(Json::parse(counted.out)["records"] == 206);
  CHECK(downpour(dir, {"data", "validate", good}).status == 0);
  const Ended found = downpour(dir, {"data", "validate", bad, "--json"});
  CHECK(found.status == 65);
  CHECK(Json::parse(found.out)["first"][0]["where"] == bad + ":3");
  CHECK(downpour(dir, {"data", "head", bad}).status == 65);
  CHECK(downpour(dir, {"data", "count", dir / "none.csv"}).status == 66);
  CHECK(downpour(dir, {"data", "head", good, "--worker", "4/4"}).status == 64);
  CHECK(downpour(dir, {"data"}).status == 64);
  for (const char* verb : {"stats", "plan", "bench"}) {
    INFO(verb);
    CHECK(Json::parse(downpour(dir, {"data", verb, good, "--json"}).out).is_object());
    const Ended shown = downpour(dir, {"data", verb, good, "--quiet"});
    CHECK(shown.status == 0);
    CHECK(std::count(shown.out.begin(), shown.out.end(), '\n') > 2);
  }
  for (const char* verb : {"head", "count", "stats", "validate", "plan", "bench"})
    CHECK_THAT(downpour(dir, {"data", verb, "--help"}).out, Contains("Examples:"));
}

TEST_CASE("a job has as many streams as the requested number of workers", "[integration]") {
  const ScratchDir dir;
  for (const char* name : {"a.svm", "b.svm", "c.svm"}) dir.write(name, "1 5:1\n0 6:1\n");
  const std::string job =
      dir.write("job.toml",
                "data = { source = \"*.svm\", format = \"libsvm\", sharding = \"file\" }\n"
                "model.preset = \"logistic_regression\"\n");
  const Ended plan = downpour(dir, {"data", "plan", job, "--workers", "3", "--json"});
  INFO(plan.err);
  REQUIRE(plan.status == 0);
  CHECK(downpour(dir, {"data", "plan", job, "--epoch", "0"}).status == 64);  // counted from 1
  CHECK_THAT(plan.out, Contains("3 streams"));
  const Json told = Json::parse(plan.out);
  for (const Json& shard : told["shards"]) CHECK(shard["worker"] == shard["file"]);
  const Ended head = downpour(dir, {"data", "head", job, "--worker", "1/3", "--json"});
  CHECK(std::count(head.out.begin(), head.out.end(), '\n') == 2);
  CHECK(head.out.find("a.svm") + head.out.find("c.svm") + 2 == 0);  // both are npos
}

TEST_CASE("head and stats show the records that a job's program writes", "[integration]") {
  const ScratchDir dir;
  dir.write("raw.csv", "1,0\n2,1\n3,0\n");
  dir.write("drop.awk", "{ print $1 == 2 ? \"\" : $1 * 10 \",\" $2 }\n");
  dir.write("job.toml", program_job("\"raw.csv\"", R"(["awk", "-F,", "-f", "drop.awk"])"));
  const Ended head = downpour(dir, {"data", "head", dir / "job.toml"});
  INFO(head.err);
  CHECK(head.out == "   x  label\n  10      0\n  30      0\n");
  const Json stats = Json::parse(downpour(dir, {"data", "stats", dir / "job.toml", "--json"}).out);
  CHECK(stats["records"] == 2);
  CHECK(Json::parse(downpour(dir, {"data", "count", dir / "job.toml", "--json"}).out)["records"] ==
        3);
}

TEST_CASE("records of a source are selected before a program reads them", "[integration]") {
  const ScratchDir dir;
  dir.write("a.csv", "1,0\n2,1\n3,0\n");
  dir.write("b.csv", "4,0\n5,1\n6,0\n7,1\n8,0\n");
  dir.write("job.toml", program_job(R"({ path = ["a.csv", "b.csv"], skip = 1, take = 6,)"
                                    R"( shard = { count = 2, index = 0 } })",
                                    R"(["tee", "-a", "seen"])") +
                            "[train]\nepochs = 2\n");
  const Ended head = downpour(dir, {"data", "head", dir / "job.toml"});
  INFO(head.err);
  CHECK(head.out == "  x  label\n  2      1\n  4      0\n  6      0\n");
  CHECK(read_text(dir / "seen") == "2,1\n4,0\n6,0\n");
  const Ended trained =
      downpour(dir, {"train", dir / "job.toml", "--workers", "1", "--log-format", "json"});
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(Json::parse(trained.out)["accounts"][1]["read"] == 3);
  const std::string seen = read_text(dir / "seen");
  CHECK(std::count(seen.begin(), seen.end(), '\n') == 9);
}

TEST_CASE(
    "a table whose format cannot be detected is read as its job declares, and bad lines are named",
    "[integration]") {
  const ScratchDir dir;
  dir.write("odd.csv", "x,label\n1,0\n\"a\nb\xff\",1\n");
  dir.write("job.toml",
            "data = { source = \"odd.csv\", format = \"csv\", header = true, "
            "fields = { x = {}, label = {} } }\n"
            "[model]\npreset = \"logistic_regression\"\ntarget = \"label\"\n");
  const Ended looked = downpour(dir, {"data", "validate", dir / "job.toml"});
  INFO(looked.err);
  CHECK(looked.status == 65);
  CHECK_THAT(looked.out,
             Contains("odd.csv:3: bad record: ") &&
                 Contains("has a quote that is not closed, or text after a closing quote (a line "
                          "break inside quotes needs data.quoted_newlines = true)") &&
                 Contains("odd.csv:4: ") && Contains("b\\xff"));
}

TEST_CASE("a job can train on shards under the names that downpour shard gave them",
          "[integration]") {
  const ScratchDir dir;
  REQUIRE(downpour(dir, {"synth", dir / "a.csv", "--rows", "4000"}).status == 0);
  const Ended made = downpour(dir, {"shard", dir / "a.csv", "-o", dir / "out", "-n", "3", "--to",
                                    "tfrecord", "--index", "--json"});
  INFO(made.err);
  REQUIRE(made.status == 0);
  const Json summary = Json::parse(made.out);
  CHECK(summary["records"] == 4000);
  CHECK(summary["files"].size() == 3);
  dir.write("job.toml",
            "data = { source = \"out/a-*.tfrecord\", format = \"tfrecord\" }\n"
            "model = { preset = \"wide_deep\" }\ntrain = { batch_size = 100 }\n");
  const Ended trained = downpour(dir, {"train", dir / "job.toml", "--log-format", "json"});
  INFO(trained.err);
  CHECK(trained.status == 0);
  CHECK(Json::parse(trained.out)["accounts"][0]["read"] == 4000);
  CHECK(downpour(dir, {"shard", dir / "a.csv", "-o", dir / "out"}).status == 73);
}

TEST_CASE("shard shuffles four times as many bytes as its memory limit", "[integration]") {
  const ScratchDir dir;
  const std::string lines = make_lines(dir, 400);
  const std::string program = std::string(DP_BIN_DIR) + "/downpour";
  const std::string out = dir / "out";
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(program.c_str(), "downpour", "shard", lines.c_str(), "-o", out.c_str(), "-n", "5",
            "--shuffle", "--memory", "100MB", "--quiet", nullptr);
    ::_exit(127);
  }
  int status = -1;
  rusage used{};
  REQUIRE(::wait4(child, &status, 0, &used) == child);
  CHECK(WEXITSTATUS(status) == 0);
  if (!kSanitized) CHECK(used.ru_maxrss * 1024 < 100'000'000);  // a sanitizer adds its own memory
  uint64_t bytes = 0;
  for (const auto& file : fs::directory_iterator(out)) bytes += file.file_size();
  CHECK(bytes == fs::file_size(lines));
}

TEST_CASE("Ctrl-C and SIGTERM end shard with 128 + signal number and leave no files",
          "[integration]") {
  const ScratchDir dir;
  const ScratchDir logs;
  const std::string lines = make_lines(dir, 300);
  for (const int number : {SIGINT, SIGTERM}) {
    Program shard("downpour",
                  {"shard", lines, "-o", dir / "out", "--shuffle", "--compress", "gzip"},
                  logs.path());
    while (entries(dir.path()) < 2) ::usleep(1000);  // waits for the output folder
    shard.signal(number);
    const Ended ended = shard.wait(60);
    CHECK(ended.status == 128 + number);
    CHECK(entries(dir.path()) == 1);
  }
}

TEST_CASE("one Ctrl-C ends data stats while its program writes nothing", "[integration]") {
  const ScratchDir dir;
  dir.write("d.csv", "x,label\n1,0\n2,1\n");
  dir.write("job.toml",
            "data = { source = \"d.csv\", format = \"csv\", header = true, "
            "fields = { x = {}, label = {} }, "
            "program = [\"sh\", \"-c\", \"echo begun > begun; sleep 1000\"] }\n"
            "model.preset = \"logistic_regression\"\n");
  Program looking("downpour", {"data", "stats", dir / "job.toml"}, dir.path());
  for (int i = 0; i < 1000 && !fs::exists(dir / "begun"); ++i) usleep(10'000);
  REQUIRE(fs::exists(dir / "begun"));
  looking.signal(SIGINT);
  const Ended ended = looking.wait(30);
  CHECK_FALSE(ended.timed_out);
  CHECK(ended.status == 130);
  CHECK_THAT(ended.err, Contains("DP-8000"));
}

}  // namespace
}  // namespace downpour::testing
