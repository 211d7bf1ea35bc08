// Jobs that end inside an epoch, or whose sources never end. The weights of the counter model show
// how often each row was applied.
#include <map>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/counter_rows.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;
constexpr int kRows = 640;  // 40 batches of 16

void make_job(const ScratchDir& dir, const std::string& data, const std::string& train) {
  dir.write("rows.svm", counter_rows(kRows));
  dir.write("job.toml", "run_dir = \"run\"\npartitions = 16\ndata = { " + data +
                            ", format = \"libsvm\" }\n" + counter_model() + "train = { " + train +
                            ", batch_size = 16, reduction = \"sum\" }\n"
                            "cluster = { ps = 2, workers = 2 }\n");
}

Ended train(const ScratchDir& dir, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"train", dir / "job.toml", "--log-format", "json",
                                        "--quiet"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Program("downpour", arguments, dir.path()).wait(120);
}

Json trained(const ScratchDir& dir, const std::vector<std::string>& more = {}) {
  const Ended ended = train(dir, more);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return Json::parse(ended.out);
}

}  // namespace

TEST_CASE("a job with train.steps ends inside an epoch, and continues in it with more steps",
          "[integration]") {
  const ScratchDir dir;
  make_job(dir, "source = \"rows.svm\", shard_records = 64", "steps = 20");
  int applied = 0;
  for (const int steps : {20, 32, 50, 80}) {
    const Json done = trained(dir, {"--steps", std::to_string(steps)});
    const int had = done["steps"];
    CHECK(had >= steps);
    CHECK(had < steps + 12);  // batches that two workers may have in flight
    CHECK(done["steps_wanted"] == steps);
    applied = 0;
    for (const Json& account : done["accounts"]) {
      CHECK(account["read"] == account["applied"]);
      applied += account["applied"].get<int>();
    }
    const Json& last = done["accounts"].back();
    const bool part = last["shards_left"] > 0;
    CHECK((part || applied % kRows == 0));
    if (part) CHECK(applied == int(done["epochs_sealed"]) * kRows + int(last["applied"]));
    std::map<int, int> rows = rows_by_count(dir, {"rows.svm"});
    int counted = 0;
    for (const auto& [times, n] : rows) counted += times * n;
    CHECK(counted == applied);  // the weights agree with the accounts
    CHECK(rows.rbegin()->first - rows.begin()->first <= 1);
  }
  const Json again = trained(dir, {"--steps", "80"});
  CHECK(again["already_finished"] == true);
  CHECK(rows_by_count(dir, {"rows.svm"}).rbegin()->first == (applied + kRows - 1) / kRows);
}

TEST_CASE("train.steps that end with an epoch leave no epoch open", "[integration]") {
  const ScratchDir dir;
  make_job(dir, "source = \"rows.svm\", shard_records = 64", "steps = 80");
  const Json done = trained(dir);
  REQUIRE(done["steps"] == 80);
  REQUIRE(done["accounts"].back()["shards_left"] == 0);
  // So keys that are frozen inside an epoch may change.
  const Json more = trained(dir, {"--steps", "160", "--set", "train.batch_size=8"});
  CHECK(more["steps"] >= 160);
  CHECK(more["accounts"].size() == 3);
}

TEST_CASE("explain and inspect distinguish a partial epoch from a complete one", "[integration]") {
  const ScratchDir dir;
  make_job(dir, "source = \"rows.svm\", shard_records = 64", "steps = 12");
  const Json account = trained(dir)["accounts"].back();
  const int shards = account["shards"], left = account["shards_left"];
  REQUIRE(left > 0);
  REQUIRE(shards + left == 10);
  int applied = 0;
  for (int row = 32; row < kRows; row += 64) {  // one row of each shard
    const Ended told =
        Program("downpour",
                {"explain", dir / "rows.svm:" + std::to_string(row), "--run", dir / "run"},
                dir.path())
            .wait(60);
    INFO(told.out + told.err);
    REQUIRE(told.status == 0);
    CHECK(told.out.find("the job ended in this epoch, " + std::to_string(left)) !=
          std::string::npos);
    applied += told.out.find("applied once at every partition") != std::string::npos ? 1 : 0;
  }
  CHECK(applied == shards);
  const Ended seen = Program("downpour", {"inspect", dir / "run"}, dir.path()).wait(60);
  CHECK(seen.out.find("partial: " + std::to_string(left) + " shards not read") !=
        std::string::npos);
}

TEST_CASE("an epoch of an endless program has steps_per_epoch batches", "[integration]") {
  const ScratchDir dir;
  dir.write("endless.sh",
            "i=$((DOWNPOUR_EPOCH * 100))\n"
            "while :; do echo \"1073741824 $((1000000 + i)):1\"; i=$((i + 1)); done\n");
  make_job(dir, "source = { exec = [\"sh\", \"" + (dir / "endless.sh") + "\"] }, shuffle = \"off\"",
           "epochs = 3, steps_per_epoch = 5");
  const Json done = trained(dir);
  REQUIRE(done["accounts"].size() == 3);
  for (const Json& account : done["accounts"]) {
    CHECK(account["batches"] == 5);
    CHECK(account["applied"] == 80);
  }
  // Rows 0..79, 100..179, 200..279, each once.
  CHECK(rows_by_count(dir, {"rows.svm"}) == std::map<int, int>{{0, kRows - 240}, {1, 240}});

  // With train.steps the job ends in the first epoch, at the end of a shard.
  const std::string endless = dir / "endless.sh";
  const ScratchDir once;
  make_job(once, "source = { exec = [\"sh\", \"" + endless + "\"] }, shuffle = \"off\"",
           "steps = 10");
  const Json ended = trained(once);
  REQUIRE(ended["accounts"].size() == 1);
  const int batches = ended["accounts"][0]["batches"];
  CHECK((batches >= 10 && batches % 4 == 0));
  CHECK(ended["accounts"][0]["applied"] == batches * 16);
  CHECK(rows_by_count(once, {"rows.svm"}) ==
        std::map<int, int>{{0, kRows - batches * 16}, {1, batches * 16}});
  const Ended seen = Program("downpour", {"inspect", once / "run"}, once.path()).wait(60);
  CHECK(seen.out.find("partial: ") != std::string::npos);

  const ScratchDir cut;
  make_job(cut, "source = \"rows.svm\"", "epochs = 1, steps_per_epoch = 5");
  const Ended refused = train(cut, {});
  CHECK(refused.status == 78);
  CHECK(refused.err.find("`steps_per_epoch` does not support a ") != std::string::npos);
}

TEST_CASE("joined shards and shuffle windows count every row once per epoch", "[integration]") {
  for (const std::string sharding : {"auto", "data"}) {
    const ScratchDir dir;
    make_job(dir,
             "source = \"rows.svm\", shard_records = 64, interleave = { cycle = 4, block = 3 }, "
             "shuffle = 10, sharding = \"" +
                 sharding + "\"",
             "epochs = 2");
    const Json done = trained(dir);
    for (const Json& account : done["accounts"]) CHECK(account["applied"] == kRows);
    CHECK(rows_by_count(dir, {"rows.svm"}) == std::map<int, int>{{2, kRows}});
  }
}

}  // namespace downpour::testing
