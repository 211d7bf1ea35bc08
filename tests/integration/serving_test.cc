// `downpour serve` as a process: the same predictions as `downpour predict`, new checkpoints while
// requests arrive, and a stop that loses no request.
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/base/rng.h"
#include "shared/base/str.h"
#include "tests/support/free_address.h"
#include "tests/support/program.h"
#include "tests/tools/serve/http_client.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;
constexpr int kRows = 1000;
constexpr float kTolerance = 1e-5F;

constexpr const char* kMixedJob = R"(
run_dir = "run"
[data]
source = "train.csv"
format = "csv"
columns = ["age", "job", "city", "words", "income", "label"]
missing = ["?"]
[data.fields]
age    = { transform = ["log1p", { op = "standardize", mean = 3.5, scale = 0.5 }] }
age_id = { type = "string", column = "age" }
job    = { type = "string", default = "none" }
city   = { type = "string", transform = [{ op = "hash", buckets = 16 }] }
words  = { type = "string", shape = [-1], default = "" }
income = { default = -1 }
label  = {}
[model]
preset = "wide_deep"
target = "label"
dim = 4
units = [8]
[optimizer]
type = "adagrad"
learning_rate = 0.05
[train]
epochs = 2
batch_size = 64
[eval]
holdout = 0
)";
constexpr const char* kPairsJob = R"(
run_dir = "run"
data = { source = "train.csv", format = "libsvm" }
model.preset = "logistic_regression"
optimizer = { type = "ftrl", learning_rate = 0.1 }
train = { epochs = 2, batch_size = 64 }
eval.holdout = 0
)";

/// Records as lines of a file, and as rows of requests.
struct Records {
  std::string text;
  std::vector<Json> rows;
};

Records mixed(uint64_t seed) {
  Rng rng(seed);
  Records all;
  for (int i = 0; i < kRows; ++i) {
    const double age = double(rng.below(900)) / 10;
    const uint64_t job = rng.below(8), city = rng.below(40), income = rng.below(90'000);
    std::ostringstream age_text;
    age_text << age;
    const std::string job_text = job == 7 ? "?" : job == 6 ? "" : str("job ", job);
    const std::string words = str("w", rng.below(20), " w", rng.below(20));
    const bool has_income = rng.below(4) > 0, label = (job + city) % 3 == 0;
    all.text += str(age_text.str(), ",", job_text, ",\"city, ", city, "\",", words, ",",
                    has_income ? str(income) : "", ",", label ? 1 : 0, "\n");
    all.rows.push_back({{"age", age},
                        {"job", job == 5 ? Json("job 5") : Json(job_text)},
                        {"city", str("city, ", city)},
                        {"words", words},
                        {"income", has_income ? Json(income) : Json()}});
  }
  return all;
}

Records pairs(uint64_t seed) {
  Rng rng(seed);
  Records all;
  for (int i = 0; i < kRows; ++i) {
    const uint64_t first = rng.below(50), second = 50 + rng.below(1'000'000'000'000);
    const double value = double(rng.below(1000)) / 250;
    std::ostringstream line;
    line << (first % 3 == 0 ? 1 : 0) << ' ' << first << ":1 " << second << ':' << value << '\n';
    all.text += line.str();
    all.rows.push_back({{"features", {{"keys", {first, second}}, {"values", {1.0, value}}}}});
  }
  return all;
}

Ended downpour(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  Ended ended = Program("downpour", arguments, dir.path()).wait(120);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return ended;
}

void train_run(const ScratchDir& dir, const char* job, const Records& records) {
  dir.write("job.toml", job);
  dir.write("train.csv", records.text);
  downpour(dir, {"train", dir / "job.toml", "--quiet"});
}

/// `downpour serve run` on a free port.
struct Serving {
  explicit Serving(const ScratchDir& dir)
      : address(free_address()),
        program("downpour",
                {"serve", dir / "run", "--port", address.substr(address.find(':') + 1), "--poll",
                 "0.05"},
                dir.path()) {
    for (int i = 0; i < 400; ++i) {
      if (HttpClient(address).connected()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    FAIL("serve does not listen: " << program.wait(0.1).err);
  }
  std::string address;
  Program program;
};

/// Calls `get` until it returns another text than `before`, for at most 10 s. Returns the last
/// text.
template <typename Get>
std::string changed(const std::string& before, const Get& get) {
  std::string now = before;
  for (int i = 0; i < 200 && now == before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    now = get();
  }
  return now;
}

/// Trains on `train`, and returns the largest difference between the predictions of `downpour
/// predict` and of `downpour serve` for `rows`.
float skew(const ScratchDir& dir, const char* job, const Records& train, const Records& test) {
  train_run(dir, job, train);
  dir.write("test.csv", test.text);
  downpour(dir, {"predict", dir / "run", "--data", dir / "test.csv", "--out", dir / "out.txt",
                 "--quiet"});
  std::ifstream file(dir / "out.txt");
  Serving serving(dir);
  HttpClient client(serving.address);
  float worst = 0;
  for (size_t begin = 0; begin < test.rows.size(); begin += 100) {
    Json body;
    for (size_t i = begin; i < begin + 100; ++i) body["rows"].push_back(test.rows[i]);
    const HttpReply reply = client.post(body.dump());
    INFO(reply.body);
    REQUIRE(reply.status == 200);
    const Json predictions = Json::parse(reply.body)["predictions"];
    REQUIRE(predictions.size() == 100);
    for (const Json& served : predictions) {
      float predicted = NAN;
      file >> predicted;
      worst = std::max(worst, std::fabs(predicted - served.get<float>()));
      CHECK(std::isfinite(predicted));
    }
  }
  return worst;
}

TEST_CASE("serve predicts what predict does, for a table of numbers and texts", "[integration]") {
  const ScratchDir dir;
  CHECK(skew(dir, kMixedJob, mixed(1), mixed(2)) <= kTolerance);
}

TEST_CASE("serve predicts with averages of the weights as predict does", "[integration]") {
  const ScratchDir dir;
  std::string job = kMixedJob;
  const std::string rate = "learning_rate = 0.05\n";
  job.insert(job.find(rate) + rate.size(), "ema = 0.99\n");
  CHECK(skew(dir, job.c_str(), mixed(1), mixed(2)) <= kTolerance);
}

TEST_CASE("serve predicts what predict does, for libsvm", "[integration]") {
  const ScratchDir dir;
  CHECK(skew(dir, kPairsJob, pairs(1), pairs(2)) <= kTolerance);
}

TEST_CASE("serve loads the checkpoint of a new run in the same folder", "[integration]") {
  const ScratchDir dir;
  const Records records = pairs(1);
  train_run(dir, kPairsJob, records);
  Serving serving(dir);
  const std::string body = Json{{"rows", {records.rows[0]}}}.dump();
  const std::string before = HttpClient(serving.address).post(body).body;
  downpour(dir, {"train", dir / "job.toml", "--quiet", "--fresh", "--set", "seed=2", "--set",
                 "optimizer.learning_rate=0.001"});
  const auto model = [](const std::string& reply) { return Json::parse(reply)["model"]; };
  // The last checkpoint has the same number as before. The one of the first epoch does not count.
  const std::string after = changed(before, [&] {
    const std::string now = HttpClient(serving.address).post(body).body;
    return model(now) == model(before) ? now : before;
  });
  CHECK(after != before);
}

TEST_CASE("serve loads new checkpoints without a failed request, and stops gracefully",
          "[integration]") {
  const ScratchDir dir;
  const Records records = mixed(1);
  train_run(dir, kMixedJob, records);
  Serving serving(dir);
  const std::string body = Json{{"rows", {records.rows[0], records.rows[1]}}}.dump();
  std::atomic<bool> ends = false;
  std::atomic<int> good = 0, failed = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      HttpClient client(serving.address);
      while (!ends) ++(client.post(body).status == 200 ? good : failed);
    });
  }
  const auto model = [&] {
    const HttpReply reply = HttpClient(serving.address).get("/healthz");
    return reply.status == 200 ? Json::parse(reply.body)["model"].get<std::string>() : "";
  };
  std::string before = model();
  for (int epochs = 3; epochs < 8; ++epochs) {
    downpour(dir, {"train", dir / "job.toml", "--quiet", "--epochs", std::to_string(epochs)});
    const std::string after = changed(before, model);
    CHECK(after != before);
    before = after;
  }
  const HttpReply metrics = HttpClient(serving.address).get("/metrics");
  CHECK_THAT(metrics.body, Catch::Contains("downpour_serve_reload_failures_total 0"));
  ends = true;
  for (std::thread& client : clients) client.join();
  CHECK(good > 0);
  CHECK(failed == 0);

  HttpClient slow(serving.address), idle(serving.address);
  const std::string request = HttpClient::request(body);
  slow.send(request.substr(0, request.size() - 5));
  CHECK(HttpClient(serving.address).get("/healthz").status == 200);  // the others are accepted
  serving.program.signal(SIGTERM);
  CHECK(idle.closed());
  slow.send(request.substr(request.size() - 5));
  const HttpReply last = slow.receive();
  CHECK(last.status == 200);
  CHECK_THAT(last.head, Catch::Contains("Connection: close"));
  const Ended ended = serving.program.wait(20);
  INFO(ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("serve names what is wrong with its arguments", "[integration]") {
  const ScratchDir dir;
  const Ended none = Program("downpour", {"serve", dir / "none"}, dir.path()).wait();
  CHECK(none.status == 66);
  CHECK_THAT(none.err, Catch::Contains("the run folder does not exist"));
  std::filesystem::create_directory(dir / "empty");
  CHECK(Program("downpour", {"serve", dir / "empty"}, dir.path()).wait().status == 66);
  CHECK(
      Program("downpour", {"serve", dir / "empty", "--port", "70000"}, dir.path()).wait().status ==
      64);
}

}  // namespace
}  // namespace downpour::testing
