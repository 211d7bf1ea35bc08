// Sharding: which worker reads which records. The weights of the counter model show how often each
// row was applied.
#include <algorithm>
#include <map>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/counter_rows.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

constexpr int kRows = 700;
constexpr int kEpochs = 2;

void make_rows(const ScratchDir& dir, int files, int workers) {
  std::string sources;
  for (int f = 0; f < files; ++f) {
    std::string text;
    for (int i = kRows * f / files; i < kRows * (f + 1) / files; ++i) {
      text += counter_row(i);
    }
    const std::string name = "f" + std::to_string(f) + ".svm";
    dir.write(name, text);
    sources += (f > 0 ? ", \"" : "\"") + name + "\"";
  }
  dir.write("job.toml",
            "run_dir = \"run\"\npartitions = 16\n"
            "data = { source = [" +
                sources + "], format = \"libsvm\", shard_records = 40 }\n" + counter_model() +
                "train = { epochs = " + std::to_string(kEpochs) +
                ", batch_size = 16, reduction = \"sum\" }\n"
                "cluster = { ps = 2, workers = " +
                std::to_string(workers) + " }\n");
}

Ended downpour(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  return Program("downpour", arguments, dir.path()).wait(120);
}

/// Returns the number of rows by how often they were applied.
std::map<int, int> counted(const ScratchDir& dir, int files) {
  std::vector<std::string> names;
  for (int f = 0; f < files; ++f) names.push_back("f" + std::to_string(f) + ".svm");
  return rows_by_count(dir, names);
}

/// Checks that the workers' records, bytes and seconds are consistent with the summary.
void check_workers(const nlohmann::json& done, int workers) {
  uint64_t records = 0;
  uint64_t bytes = 0;
  int count = 0;
  for (const auto& process : done["processes"]) {
    if (process["role"] != "worker") continue;
    ++count;
    records += process["records"].get<uint64_t>();
    bytes += process["read_bytes"].get<uint64_t>();
    const auto& work = process["work"];
    const double busy = work["compute_seconds"].get<double>() +
                        work["network_seconds"].get<double>() + work["input_seconds"].get<double>();
    CHECK(busy <= done["wall_seconds"].get<double>());
    if (process["records"] > 0) {
      CHECK(work["queue_fill"].get<double>() >= 0);
      CHECK(work["queue_fill"].get<double>() <= 1);
    }
    if (process["records"] > 0) CHECK(work["compute_seconds"].get<double>() > 0);
  }
  CHECK(count == workers);
  CHECK(records == done["records"]);
  uint64_t data_bytes = 0;
  for (const auto& account : done["accounts"]) data_bytes += account["bytes"].get<uint64_t>();
  CHECK(data_bytes > 0);
  CHECK(bytes >= data_bytes);
  CHECK(bytes == done["read_bytes"]);
}

}  // namespace

TEST_CASE(
    "with 1, 2, 3 or 7 files, auto, file and data count every row once per epoch, and off once per "
    "stream",
    "[integration]") {
  for (const int workers : {1, 2}) {
    for (const int files : {1, 2, 3, 7}) {
      for (const std::string sharding : {"auto", "file", "data", "off"}) {
        INFO(workers << " workers, " << files << " files, " << sharding);
        const ScratchDir dir;
        make_rows(dir, files, workers);
        const Ended trained =
            downpour(dir, {"train", dir / "job.toml", "--set", "data.sharding=" + sharding,
                           "--log-format", "json", "--quiet"});
        INFO(trained.err);
        if (sharding == "file" && workers > files) {
          CHECK(trained.status == 78);
          CHECK(trained.err.find("needs the same number of files, but the source has 1") !=
                std::string::npos);
          continue;
        }
        REQUIRE(trained.status == 0);
        const int times = sharding == "off" ? workers : 1;
        CHECK(counted(dir, files) == std::map<int, int>{{kEpochs * times, kRows}});
        const auto done = nlohmann::json::parse(trained.out);
        for (const auto& account : done["accounts"]) CHECK(account["applied"] == kRows * times);
        CHECK(done["sharding"].get<std::string>().starts_with("sharding = \"" + sharding + "\""));
        check_workers(done, workers);
      }
    }
  }
}

TEST_CASE("only the first records of a source are read with take, under every sharding",
          "[integration]") {
  for (const char* sharding : {"auto", "data"}) {
    const ScratchDir dir;
    make_rows(dir, 3, 2);
    const Ended trained = downpour(
        dir, {"train", dir / "job.toml", "--set", "data.source={ path = \"f*.svm\", take = 100 }",
              "--set", std::string("data.sharding=") + sharding, "--log-format", "json"});
    INFO(trained.err);
    REQUIRE(trained.status == 0);
    CHECK(counted(dir, 3) == std::map<int, int>{{0, kRows - 100}, {kEpochs, 100}});
    const auto done = nlohmann::json::parse(trained.out);
    for (const auto& account : done["accounts"]) {
      CHECK(account["applied"] == 100);
      CHECK(account["shards"] <= 8);  // instead of 18, or 36 with sharding = "data"
    }
    const auto explained = [&](const char* record) {
      return downpour(dir, {"explain", dir / record, "--run", dir / "run"}).out;
    };
    CHECK(explained("f0.svm:50").find("applied once") != std::string::npos);
    CHECK(explained("f0.svm:150")
              .find(": not read, because data.source does not select this record (skip, take, "
                    "shard)\n") != std::string::npos);
    CHECK(explained("f2.svm:150")
              .find(": not read, because data.source does not select this record (skip, take, "
                    "shard)\n") != std::string::npos);
  }
}

TEST_CASE("records that are read but not selected count as bytes read", "[integration]") {
  const ScratchDir dir;
  make_rows(dir, 1, 2);
  const Ended trained =
      downpour(dir, {"train", dir / "job.toml", "--set", "data.sharding=\"data\"", "--set",
                     "data.source={ path = \"f*.svm\", shard = { count = 175, index = 3 } }",
                     "--log-format", "json"});
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  const auto done = nlohmann::json::parse(trained.out);
  CHECK(done["accounts"][0]["applied"] == 4);
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(dir.path()))
    if (file.path().extension() == ".svm") bytes += file.file_size();
  CHECK(done["read_bytes"].get<uint64_t>() >= 2 * bytes * done["accounts"].size());
}

TEST_CASE(
    "a worker reads the stream of its index, and only the selected records of a source are trained",
    "[integration]") {
  const ScratchDir dir;
  make_rows(dir, 7, 3);
  const Ended trained =
      downpour(dir, {"train", dir / "job.toml", "--set", "data.sharding=\"file\"", "--set",
                     "data.source={ path = \"f*.svm\", skip = 50, take = 600, shard = { count = 2, "
                     "index = 1 } }"});
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(trained.err.find("\nreading   sharding = \"file\": 3 streams") != std::string::npos);
  CHECK(counted(dir, 7) == std::map<int, int>{{0, 400}, {kEpochs, 300}});
  std::ifstream events(dir / "run/events.jsonl");
  int leases = 0;
  for (std::string line; std::getline(events, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event["event"] != "lease" || event["purpose"] != "train") continue;
    ++leases;
    CHECK(event["stream"] == event["file"].get<int>() % 3);
  }
  CHECK(leases >= 7 * kEpochs);
  CHECK(trained.err.find("file i belongs to stream i mod 3") != std::string::npos);
}

}  // namespace downpour::testing
