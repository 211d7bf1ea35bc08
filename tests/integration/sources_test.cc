// Sources that are more than a list of files: mixes, repeated sources, stdin, lists of names. The
// weights of the counter model show how often each row was applied.
#include <cstdlib>
#include <filesystem>
#include <map>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/env/file_lock.h"
#include "tests/support/counter_rows.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;

void make_rows(const ScratchDir& dir, const std::string& name, int begin, int end) {
  std::string text;
  for (int i = begin; i < end; ++i) text += counter_row(i);
  dir.write(name, text);
}

/// Writes rows 0 to `a` to a.svm, and those from there to `b` to b.svm.
void make_two_files(const ScratchDir& dir, int a, int b) {
  make_rows(dir, "a.svm", 0, a);
  make_rows(dir, "b.svm", a, b);
}

void make_job(const ScratchDir& dir, const std::string& source, int epochs) {
  dir.write("job.toml", "run_dir = \"run\"\npartitions = 16\ndata = { source = " + source +
                            ", format = \"libsvm\", shard_records = 64 }\n" + counter_model() +
                            "train = { epochs = " + std::to_string(epochs) +
                            ", batch_size = 16, reduction = \"sum\" }\n"
                            "cluster = { ps = 2, workers = 2 }\n");
}

/// Trains with the arguments `after`, in a shell that puts `before` in front of the command.
/// Returns the exit status.
int train(const ScratchDir& dir, const std::string& before, const std::string& after = "") {
  const std::string command = "cd " + dir.path() + " && " + before + std::string(DP_BIN_DIR) +
                              "/downpour train job.toml --log-format json --quiet " + after +
                              " > out 2> err";
  return WEXITSTATUS(std::system(command.c_str()));
}

Json trained(const ScratchDir& dir, const std::string& before = "") {
  const int status = train(dir, before);
  INFO(read_text(dir / "err"));
  REQUIRE(status == 0);
  return Json::parse(read_text(dir / "out"));
}

}  // namespace

TEST_CASE(
    "a mix reads each record at most once, in the shares of the weights, and the account shows the "
    "unread bytes",
    "[integration]") {
  const ScratchDir dir;
  make_two_files(dir, 3000, 4000);
  make_job(dir, "[{ path = \"a.svm\", weight = 0.5 }, { path = \"b.svm\", weight = 0.5 }]", 1);
  const Json done = trained(dir);
  const Json& account = done["accounts"][0];
  CHECK(account["read"] == account["applied"]);
  const std::map<int, int> b = rows_by_count(dir, {"b.svm"}), a = rows_by_count(dir, {"a.svm"});
  CHECK(b == std::map<int, int>{{1, 1000}});  // the source that ends first is read completely
  REQUIRE(a.contains(1));
  CHECK(a.at(1) > 900);
  CHECK(a.at(1) < 1100);
  CHECK(a.at(0) == 3000 - a.at(1));
  CHECK(account["applied"] == 1000 + a.at(1));
  REQUIRE(account["unread_bytes"].size() == 2);
  const double line = double(counter_row(0).size());
  CHECK(account["unread_bytes"][0].get<double>() / line == Approx(a.at(0)).margin(2));
  CHECK(account["unread_bytes"][1] == 0);
}

TEST_CASE("CSV records of several lines count once each, wherever their file is split",
          "[integration]") {
  const ScratchDir dir;
  std::string text = "id,\"a\nnote\",label\n";
  for (int i = 0; i < 2000; ++i) {
    const std::string number = std::to_string(1'000'000 + i);
    text += number + ",\"" + std::string(size_t(i % 5), '\n') + number + ",0,0\n\",1073741824\n";
  }
  dir.write("rows.csv", text);
  dir.write("job.toml",
            "run_dir = \"run\"\npartitions = 16\n"
            "data = { source = \"rows.csv\", format = \"csv\", header = true, quoted_newlines = "
            "true, shard_records = 64, fields = { label = {}, features = { column = \"id\", type = "
            "\"int64\", transform = [\"identity\"] } } }\n" +
                counter_model() +
                "train = { epochs = 3, batch_size = 16, reduction = \"sum\" }\n"
                "cluster = { ps = 2, workers = 3 }\n");
  const Json done = trained(dir);
  CHECK(done["accounts"][0]["applied"] == 2000);
  CHECK(rows_by_count(dir, {"rows.csv"}) == std::map<int, int>{{3, 2000}});
  const Ended plan = Program("downpour", {"data", "plan", dir / "job.toml"}, dir.path()).wait(20);
  CHECK_THAT(plan.out,
             Catch::Matchers::Contains("1 file, ") && Catch::Matchers::Contains(", in 32 shards"));
}

TEST_CASE("a source from which an epoch would read nothing cannot be part of a mix",
          "[integration]") {
  const ScratchDir dir;
  make_two_files(dir, 100, 20'000);
  REQUIRE(std::system(("gzip " + dir.path() + "/b.svm").c_str()) == 0);
  make_job(dir, "[{ path = \"a.svm\", weight = 0.5 }, { path = \"b.svm.gz\", weight = 0.5 }]", 1);
  CHECK(train(dir, "") == 78);
  CHECK(read_text(dir / "err").find("entry 2 of the source can't be mixed in") !=
        std::string::npos);
}

TEST_CASE("a repeated source counts as often as it is repeated in an epoch, the others once",
          "[integration]") {
  const ScratchDir dir;
  make_two_files(dir, 300, 500);
  make_job(dir, "[{ path = \"a.svm\", repeat = 3 }, \"b.svm\"]", 2);
  CHECK(trained(dir)["accounts"][1]["applied"] == 1100);
  CHECK(rows_by_count(dir, {"a.svm"}) == std::map<int, int>{{6, 300}});
  CHECK(rows_by_count(dir, {"b.svm"}) == std::map<int, int>{{2, 200}});
}

TEST_CASE("stdin is read once and stored, so that every epoch and a resumed run read it",
          "[integration]") {
  const ScratchDir dir;
  make_rows(dir, "a.svm", 0, 500);
  make_job(dir, "\"-\"", 2);
  CHECK(trained(dir, "gzip -c a.svm | ")["accounts"][1]["applied"] == 500);
  CHECK(rows_by_count(dir, {"a.svm"}) == std::map<int, int>{{2, 500}});
  make_job(dir, "\"-\"", 3);
  CHECK(trained(dir, "< /dev/null ").at("accounts").size() == 3);
  CHECK(rows_by_count(dir, {"a.svm"}) == std::map<int, int>{{3, 500}});

  // While the run waits for stdin, it reports that.
  make_job(dir, "\"-\"", 1);
  const std::string slowly = "cd " + dir.path() + " && (cat a.svm; sleep 6) | " + DP_BIN_DIR +
                             "/downpour train job.toml --fresh > out 2> err";
  REQUIRE(std::system(slowly.c_str()) == 0);
  CHECK(read_text(dir / "err")
            .find("read from stdin so far; all of it is stored before the first record is used") !=
        std::string::npos);

  const ScratchDir empty;
  make_job(empty, "\"-\"", 1);
  CHECK(train(empty, "< /dev/null ") == 65);
  CHECK(read_text(empty / "err").find("stdin is empty") != std::string::npos);
}

TEST_CASE("a program with replay = none runs once for all epochs, workers and resumed runs",
          "[integration]") {
  const ScratchDir dir;
  make_rows(dir, "a.svm", 0, 500);
  dir.write("once.sh", "echo $DOWNPOUR_PURPOSE >> runs; cat a.svm; [ $(wc -l < runs) = 1 ]\n");
  const std::string source = "{ exec = [\"sh\", \"once.sh\"], replay = \"none\" }";
  make_job(dir, source, 2);
  CHECK(train(dir, "", "--dry-run") == 64);
  CHECK(read_text(dir / "err").find("has not been run yet") != std::string::npos);
  CHECK(trained(dir)["accounts"][1]["applied"] == 500);
  CHECK(rows_by_count(dir, {"a.svm"}) == std::map<int, int>{{2, 500}});
  make_job(dir, source, 3);
  CHECK(trained(dir).at("accounts").size() == 3);
  CHECK(read_text(dir / "err").find("the program is not run") != std::string::npos);
  CHECK(rows_by_count(dir, {"a.svm"}) == std::map<int, int>{{3, 500}});
  CHECK(read_text(dir / "runs") == "train\n");
  // The output of a failed program is discarded.
  CHECK(train(dir, "", "--fresh") == 65);
  CHECK(read_text(dir / "err").find("the program ended with status 1") != std::string::npos);

  // Two sources with the same text run the program separately.
  const ScratchDir two;
  make_rows(two, "train.svm", 0, 500);
  make_rows(two, "eval.svm", 0, 40);
  two.write("both.sh", "cat $DOWNPOUR_PURPOSE.svm\n");
  const std::string both = "{ exec = [\"sh\", \"both.sh\"], replay = \"none\" }";
  make_job(two, both, 1);
  two.write("job.toml", "eval.source = " + both + "\n" + read_text(two / "job.toml"));
  const Json done = trained(two);
  CHECK(done["accounts"][0]["applied"] == 500);
  CHECK(rows_by_count(two, {"train.svm"}) == std::map<int, int>{{1, 500}});
  size_t kept = 0;
  for (const auto& file : std::filesystem::directory_iterator(two / "run/sources")) {
    kept += std::filesystem::file_size(file) == read_text(two / "eval.svm").size() ||
            std::filesystem::file_size(file) == read_text(two / "train.svm").size();
  }
  CHECK(kept == 2);

  const ScratchDir empty;
  make_job(empty, "{ exec = [\"true\"], replay = \"none\" }", 1);
  CHECK(train(empty, "") == 65);
  CHECK(read_text(empty / "err").find("the program wrote nothing") != std::string::npos);
  CHECK(std::filesystem::is_empty(empty / "run/sources"));
}

TEST_CASE("one signal while a source is being stored ends the run before it begins",
          "[integration]") {
  const ScratchDir dir;
  make_rows(dir, "a.svm", 0, 500);
  const auto check_stopped = [&](int status, int wanted) {
    CHECK(status == wanted);
    CHECK(read_text(dir / "err").find("no run was started; run the same command to start over") !=
          std::string::npos);
    CHECK(std::filesystem::is_empty(dir / "run/sources"));
  };
  // After three seconds the run is reading its source.
  const std::string interrupted = "timeout --preserve-status -s INT 3 ";
  const std::string terminated = "timeout --preserve-status -s TERM 3 ";
  make_job(dir, "\"-\"", 1);
  check_stopped(train(dir, "(cat a.svm; sleep 8) | " + interrupted), 130);
  check_stopped(train(dir, "(cat a.svm; sleep 8) | " + terminated), 143);
  make_job(dir, "{ exec = [\"sh\", \"-c\", \"cat a.svm; sleep 1000\"], replay = \"none\" }", 1);
  check_stopped(train(dir, interrupted), 130);
}

TEST_CASE("only a run reads stdin, only the first start does, and only under the lock of the run",
          "[integration]") {
  const ScratchDir dir;
  make_two_files(dir, 300, 400);
  make_job(dir, "\"-\"", 1);
  CHECK(train(dir, "cat a.svm | ", "--dry-run") == 64);
  CHECK(read_text(dir / "err").find("no run has read stdin yet") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(dir / "run/sources"));
  CHECK(trained(dir, "cat a.svm | ")["accounts"][0]["applied"] == 300);
  const std::string kept = dir / "run/sources/stdin";
  CHECK(train(dir, "cat b.svm | ", "--dry-run") == 0);
  CHECK(read_text(kept) == read_text(dir / "a.svm"));

  make_job(dir, "\"-\"", 2);
  CHECK(trained(dir, "cat b.svm | ")["accounts"][1]["applied"] == 300);
  CHECK(read_text(dir / "err").find("stdin is not read") != std::string::npos);
  CHECK(trained(dir, "< /dev/null ").at("accounts").size() == 2);
  CHECK(read_text(dir / "err").find("stdin is not read") == std::string::npos);

  dir.write("run/sources/range-7", "0\n");
  {
    const auto other = FileLock::take(dir / "run/lock", "another chief");
    REQUIRE(other);
    CHECK(train(dir, "cat b.svm | ", "--fresh") != 0);
    CHECK(read_text(dir / "err").find("another chief runs the job") != std::string::npos);
    CHECK(read_text(kept) == read_text(dir / "a.svm"));
  }
  CHECK(train(dir, "< /dev/null ", "--fresh") == 65);
  CHECK(read_text(kept) == read_text(dir / "a.svm"));
  CHECK(train(dir, "cat b.svm | ", "--fresh") == 0);
  CHECK(read_text(kept) == read_text(dir / "b.svm"));
  CHECK_FALSE(std::filesystem::exists(dir / "run/sources/range-7"));

  make_job(dir, "[\"-\", \"-\"]", 1);
  CHECK(train(dir, "cat a.svm | ", "--fresh") == 64);
  CHECK(read_text(dir / "err").find("is given twice, but stdin can be read only once") !=
        std::string::npos);
}

TEST_CASE("with a cache a worker reads the files once, and every record counts once in each epoch",
          "[integration]") {
  for (const char* cache : {"memory", "file"}) {
    const ScratchDir dir;
    make_rows(dir, "a.svm", 0, 3000);
    make_job(dir, "\"a.svm\"", 4);
    const auto read_bytes = [&](const std::string& more) {
      INFO(cache << " " << more);
      const int status = train(dir, "", "--fresh --workers 1 --set data.cache=" + more);
      INFO(read_text(dir / "err"));
      REQUIRE(status == 0);
      CHECK(rows_by_count(dir, {"a.svm"}) == std::map<int, int>{{4, 3000}});
      const Json done = Json::parse(read_text(dir / "out"));
      uint64_t bytes = 0;
      for (const Json& process : done["processes"])
        bytes += process.value("read_bytes", uint64_t{0});
      return bytes;
    };
    const uint64_t all = std::filesystem::file_size(dir / "a.svm");
    CHECK(read_bytes("off") == 4 * all);
    CHECK(read_bytes(cache) == all);
    // A cache that is too small for a shard stores nothing.
    if (std::string(cache) == "memory") CHECK(read_bytes("memory --set data.memory=1") == 4 * all);
  }
}

TEST_CASE("a range of numbers, synthetic clicks and a list of names are sources", "[integration]") {
  const ScratchDir dir;
  dir.write("job.toml",
            "run_dir = \"run\"\ndata.source = \"range:1000\"\ndata.fields.value = { transform = "
            "[{ op = \"standardize\", mean = 500.0, scale = 300.0 }] }\n"
            "model.layers = [{ name = \"line\", type = \"linear\", inputs = [\"value\"] }]\n"
            "model.outputs = [{ name = \"y\", input = \"line\", target = \"value\", loss = "
            "\"squared\" }]\n");
  CHECK(train(dir, "", "--dry-run") == 64);
  CHECK_FALSE(std::filesystem::exists(dir / "run"));
  CHECK(trained(dir)["accounts"][0]["applied"] == 1000);

  // Two streams of training clicks and one of evaluation clicks. Each is stored in a file of its
  // own.
  const ScratchDir clicks;
  clicks.write("job.toml",
               "run_dir = \"run\"\ndata.source = [\"synth:3000,ids=50\", \"synth:1000,ids=50,"
               "stream=2\"]\neval.source = \"synth:500,ids=50,stream=1\"\n"
               "model = { preset = \"logistic_regression\", target = \"label\" }\n");
  CHECK(train(clicks, "", "--dry-run") == 64);
  const Json done = trained(clicks);
  CHECK(done["accounts"][0]["applied"] == 4000);
  CHECK(done["evaluations"][0]["records"] == 500);
  CHECK(std::distance(std::filesystem::directory_iterator(clicks / "run/sources"), {}) == 3);

  const ScratchDir lists;
  std::filesystem::create_directory(lists / "parts");
  make_rows(lists, "parts/a.svm", 0, 100);
  make_rows(lists, "parts/b.svm", 100, 200);
  lists.write("parts/names.txt", "a.svm\nb.svm\n");
  make_job(lists, "\"@parts/names.txt\"", 1);
  CHECK(trained(lists)["accounts"][0]["applied"] == 200);
}

}  // namespace downpour::testing
