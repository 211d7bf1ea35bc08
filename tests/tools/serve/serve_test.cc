// The rows of requests, and the API on a real socket: answers, errors, clients that misbehave.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/base/rng.h"
#include "shared/env/storage.h"
#include "tests/support/damage.h"
#include "tests/support/scratch_dir.h"
#include "tests/tools/serve/http_client.h"
#include "tools/embedded/training.h"
#include "tools/serve/api.h"

namespace downpour::tools {
namespace {

using Catch::Contains;
using Json = nlohmann::json;
using testing::HttpClient;
using testing::HttpReply;

constexpr const char* kCsvJob = R"(
data.format = "csv"
data.header = true
data.missing = ["?", "-999"]
data.fields.age = { transform = [{ op = "standardize", mean = 40, scale = 20 }] }
data.fields.age_id = { type = "string", column = "age" }
data.fields.job = { type = "string", default = "none" }
data.fields.label = {}
model = { preset = "wide_deep", target = "label", dim = 4, units = [8] }
optimizer = { type = "adagrad", learning_rate = 0.1 }
train = { epochs = 2, batch_size = 64 }
eval.holdout = 0
)";
constexpr const char* kPairsJob = R"(
data.format = "libsvm"
model.preset = "logistic_regression"
optimizer = { type = "ftrl", learning_rate = 0.1 }
train = { epochs = 2, batch_size = 64 }
eval.holdout = 0
)";

std::string csv_of(uint64_t seed) {
  Rng rng(seed);
  std::string text = "age,job,label\n";
  for (int i = 0; i < 500; ++i) {
    const uint64_t age = 20 + rng.below(60), job = rng.below(6);
    text +=
        str(age, ",", job == 5 ? "?" : str("job ", job), ",", (age + job) % 3 == 0 ? 1 : 0, "\n");
  }
  return text;
}

std::string libsvm_of() {
  Rng rng(3);
  std::string text;
  for (int i = 0; i < 500; ++i) {
    const uint64_t key = rng.below(9);
    text += str(key % 2, " ", key, ":1 ", 10 + rng.below(5), ":0.5\n");
  }
  return text;
}

/// A trained model in a run folder.
struct Run {
  Run(const char* job, const std::string& data) {
    dir.write("data.txt", data);
    TrainingRequest request{.job = job, .data = dir / "data.txt", .threads = 1};
    const auto trained = train(request);
    if (!trained) FAIL(trained.error().what << " " << trained.error().where);
    const auto saved = trained->model.save(disk, dir / "run");
    if (!saved) FAIL(saved.error().what);
    opened = LiveModel::open(disk, {.run_dir = dir / "run", .on_reload = [](bool, auto&) {}});
    if (!opened) FAIL(opened.error().what);
  }
  RowScorer& rows() { return *(*opened)->current()->rows[0]; }

  testing::ScratchDir dir;
  PosixStorage disk;
  Result<std::unique_ptr<LiveModel>> opened = Error{};
};

std::vector<float> predict(Run& run, const std::string& body) {
  RequestRows rows(100);
  std::string padded = body;
  padded.reserve(body.size() + kBodyPadBytes);
  const auto read = rows.read(padded, run.rows());
  if (!read) FAIL(read.error().what << " " << read.error().where);
  std::vector<float> out;
  const auto done = run.rows().predict(rows.rows(), out);
  if (!done) FAIL(done.error().what << " " << done.error().where);
  return out;
}

Error error_of(Run& run, const std::string& body) {
  RequestRows rows(3);
  std::string padded = body;
  padded.reserve(body.size() + kBodyPadBytes);
  auto done = rows.read(padded, run.rows());
  std::vector<float> out;
  if (done) done = run.rows().predict(rows.rows(), out);
  REQUIRE_FALSE(done);
  INFO(done.error().what);
  return done.error();
}

/// One loop on a thread.
struct Served {
  explicit Served(Run& run, HttpLimits limits = {}) {
    const auto bound = listen_on("127.0.0.1", 0);
    REQUIRE(bound);
    address = bound->address;
    fd = bound->fd;
    api =
        std::make_unique<Api>(*run.opened->get(), metrics,
                              Api::Options{.name = "clicks", .rows_max = 50, .connections = [this] {
                                             return loop->connections();
                                           }});
    loop = std::make_unique<HttpLoop>(*api, limits);
    loop->accept_for(fd, {loop.get()});
    thread = std::thread([this] { loop->run(); });
  }
  ~Served() {
    loop->stop();
    thread.join();
    ::close(fd);
  }

  ServeMetrics metrics;
  std::string address;
  int fd = -1;
  std::unique_ptr<Api> api;
  std::unique_ptr<HttpLoop> loop;
  std::thread thread;
};

constexpr const char* kRow = R"({"rows": [{"age": 39, "job": "job 1"}]})";

TEST_CASE("serve: rows and columns give the same predictions in any order", "[serve]") {
  Run run(kCsvJob, csv_of(1));
  const auto wanted =
      predict(run, R"({"rows": [{"age": 39, "job": "job 1"}, {"age": 61, "job": "job 2"}]})");
  REQUIRE(wanted.size() == 2);
  CHECK(wanted[0] != wanted[1]);
  CHECK(predict(run, R"({"columns": {"job": ["job 1", "job 2"], "age": [39, 61.0], "x": [1]}})") ==
        wanted);
  CHECK(predict(run, R"({"instances": [{"extra": [{}], "job": "job 1", "age": 39},
                          {"job": "job 2", "age": 6.1e1}], "signature_name": "x"})") == wanted);
  CHECK(predict(run, R"({"rows": []})").empty());
}

TEST_CASE("serve: null, an empty text and a mark of the training data are missing values",
          "[serve]") {
  Run run(kCsvJob, csv_of(1));
  const auto missing = predict(run, R"({"rows": [{"age": 39, "job": null}]})");
  CHECK(predict(run, R"({"rows": [{"age": 39, "job": "?"}]})") == missing);
  CHECK(predict(run, R"({"rows": [{"age": 39, "job": ""}]})") == missing);
  CHECK(predict(run, R"({"rows": [{"age": 39, "job": "none"}]})") == missing);
  CHECK(predict(run, kRow) != missing);
  CHECK(predict(run, R"({"rows": [{"age": 39, "job": -999 }]})") == missing);
  CHECK(predict(run, R"({"rows": [{"age": 39, "job": -998}]})") != missing);
  for (const char* age : {"-999", "-999 ", "\"-999\"", "null"}) {
    INFO(age);
    CHECK_THAT(error_of(run, str(R"({"rows": [{"job": "job 1", "age": )", age, "}]}")).what,
               Contains("age") && Contains("missing"));
  }
}

TEST_CASE("serve: data.trim of the training data removes the blanks around texts", "[serve]") {
  const std::string body = R"({"rows": [{"age": 39, "job": " job 1\t"}]})";
  Run run(kCsvJob, csv_of(1)), trimmed(str(kCsvJob, "data.trim = true\n").c_str(), csv_of(1));
  CHECK(predict(trimmed, body) == predict(trimmed, kRow));
  CHECK(predict(run, body) != predict(run, kRow));
  CHECK(predict(trimmed, R"({"rows": [{"age": 39, "job": " ? "}]})") ==
        predict(trimmed, R"({"rows": [{"age": 39, "job": null}]})"));
}

TEST_CASE("serve: a text field of a table takes the digits of a number", "[serve]") {
  // The model has learned the job 18446744073709551615, so that its key differs from others'.
  std::string data = "age,job,label\n";
  for (int i = 0; i < 500; ++i)
    data += str(20 + i % 60, ",", i % 2 == 0 ? "18446744073709551615" : "7", ",", i % 2, "\n");
  Run run(kCsvJob, data);
  const auto predict_job = [&](const char* job) {
    return predict(run, str(R"({"rows": [{"age": 39, "job": )", job, "}]}"));
  };
  CHECK(predict_job("18446744073709551615") == predict_job("\"18446744073709551615\""));
  CHECK(predict_job("18446744073709551615") != predict_job("18446744073709551614"));
  CHECK(predict_job("7") == predict_job("\"7\""));
  CHECK(predict_job("7") != predict_job("8"));
  const auto flag = error_of(run, R"({"rows": [{"age": 39, "job": true}]})");
  CHECK(flag.code == ErrorCode::kBadData);
  CHECK_THAT(flag.what, Contains("job") && Contains("true") && Contains("training data"));
}

TEST_CASE("serve: true and false are 1 and 0 in a column of numbers with missing values",
          "[serve]") {
  std::string job = kCsvJob;
  const std::string field = "data.fields.age_id = { type = \"string\", column = \"age\" }";
  job.replace(job.find(field), field.size(),
              "data.fields.age_missing = { type = \"string\", column = \"age\", default = \"\", "
              "positive = [\"\"] }");
  Run run(job.c_str(), csv_of(1));
  const auto predict_age = [&](const char* age) {
    return predict(run, str(R"({"rows": [{"job": "job 1", "age": )", age, "}]}"));
  };
  CHECK(predict_age("true") == predict_age("1"));
  CHECK(predict_age("false") == predict_age("0"));
}

TEST_CASE("serve: errors name the row, the column and the value", "[serve]") {
  Run run(kCsvJob, csv_of(1));
  const auto missing = error_of(run, R"({"rows": [{"age": 1, "job": "a"}, {"age": 39}]})");
  CHECK(missing.code == ErrorCode::kBadData);
  CHECK(missing.what == "the column `job` is missing");
  CHECK(missing.where == "row 1");
  const auto text = error_of(run, R"({"rows": [{"age": "old", "job": "a"}]})");
  CHECK(text.code == ErrorCode::kBadData);
  CHECK_THAT(text.what, Contains("age") && Contains("old"));
  CHECK(text.where == "row 0");
  CHECK_THAT(error_of(run, R"({"rows": [{"age": null, "job": "a"}]})").what, Contains("age"));
  CHECK_THAT(error_of(run, R"({"rows": [{"age": [1, 2], "job": "a"}]})").what, Contains("age"));
  CHECK_THAT(error_of(run, R"({"rows": [{"age": 1e99, "job": "a"}]})").what, Contains("age"));
  CHECK_THAT(error_of(run, R"({"columns": {"age": [1]}})").what, Contains("`job` is missing"));
  CHECK_THAT(error_of(run, R"({"columns": {"age": [1], "job": []}})").what, Contains("0 values"));
  CHECK(error_of(run, R"({"rows": [{}, {}, {}, {}]})").code == ErrorCode::kUsage);
  CHECK(error_of(run, R"({"columns": {"age": [1, 2, 3, 4], "job": ["", "", "", ""]}})").code ==
        ErrorCode::kUsage);
  for (const char* body :
       {"", "[", "{", "nonsense", "[1]", R"({"rows": 1})", R"({"rows": [1]})", R"({"rows": [{]})",
        R"({"rows": [{}]} x)", R"({"row": []})", R"({"rows": [], "columns": {}})",
        R"({"columns": {}})", R"({"columns": {"age": 3}})", "{\"rows\": [{\"age\xff\": 1}]}"}) {
    INFO(body);
    CHECK(error_of(run, body).code == ErrorCode::kMalformed);
  }
}

TEST_CASE("serve: a column of objects is refused, a column of one of their members is not",
          "[serve]") {
  std::string lines;
  for (int i = 0; i < 200; ++i)
    lines += str("{\"user\": {\"age\": ", i % 50, "}, \"label\": ", i % 50 / 25, "}\n");
  Run run(R"(
data = { format = "jsonl", fields = { age = { column = "user.age" }, label = {} } }
model = { preset = "logistic_regression", inputs = ["age"] }
)",
          lines);
  CHECK(predict(run, R"({"columns": {"user.age": [7]}})") ==
        predict(run, R"({"rows": [{"user": {"age": 7}}]})"));
  CHECK(predict(run, R"({"columns": {"user": [17], "user.age": [7]}})") ==
        predict(run, R"({"columns": {"user.age": [7]}})"));
  const Error error = error_of(run, R"({"columns": {"user": [{"age": 7}]}})");
  CHECK(error.code == ErrorCode::kMalformed);
  CHECK_THAT(error.what, Contains("such as `user.age`"));
}

TEST_CASE("serve: a model of libsvm lines takes keys with values", "[serve]") {
  Run run(kPairsJob, libsvm_of());
  const auto wanted = predict(
      run, R"({"rows": [{"features": {"keys": [3, 12], "values": [1, 0.5]}}, {"features": []}]})");
  REQUIRE(wanted.size() == 2);
  CHECK(wanted[0] > 0.5F);  // an odd key
  CHECK(predict(run,
                R"({"columns": {"features": [{"values": [1, 5e-1], "keys": [3, 12]}, null]}})") ==
        wanted);
  const auto ones = predict(run, R"({"rows": [{"features": [3, 12]}]})");
  CHECK(ones == predict(run, R"({"rows": [{"features": {"keys": [3, 12], "values": [1, 1]}}]})"));
  CHECK(ones[0] != wanted[0]);
  for (const char* body :
       {R"({"rows": [{"feature": [3]}]})", R"({"rows": [{"features": {"keys": [-3]}}]})",
        R"({"rows": [{"features": {"keys": [1.5]}}]})", R"({"rows": [{"features": 3}]})",
        R"({"rows": [{"features": {"keys": [3], "values": [1, 2]}}]})",
        R"({"rows": [{"features": {"keys": [3], "values": ["x"]}}]})"}) {
    INFO(body);
    const Error error = error_of(run, body);
    CHECK(error.code == ErrorCode::kBadData);
    CHECK(error.where == "row 0");
  }
}

TEST_CASE("serve: a damaged body gives an error or predictions", "[serve]") {
  Run table(kCsvJob, csv_of(1)), lines(kPairsJob, libsvm_of());
  Rng rng(5);
  const std::vector<std::string> valid = {
      R"({"rows": [{"age": 39, "job": "job 1"}, {"job": null, "age": 4.5e1}]})",
      R"({"columns": {"job": ["job 1", "\u00e9"], "age": [39, 61.0], "x": [{}]}})",
      R"({"rows": [{"features": {"keys": [3, 12], "values": [1, 0.5]}}, {"features": []}]})"};
  int good = 0, bad = 0;
  RequestRows rows(3);
  std::vector<float> out;
  for (int i = 0; i < 30'000; ++i) {
    std::string body = valid[size_t(i) % valid.size()];
    for (uint64_t n = rng.below(4); n > 0 && !body.empty(); --n) testing::damage(body, rng);
    body.reserve(body.size() + kBodyPadBytes);
    RowScorer& scorer = i % 3 == 2 ? lines.rows() : table.rows();
    auto done = rows.read(body, scorer);
    if (done) done = scorer.predict(rows.rows(), out);
    ++(done ? good : bad);
    if (done && out.size() != rows.rows().size()) FAIL(body);
    if (!done && (done.error().what.empty() || done.error().where.empty())) FAIL(body);
  }
  CHECK(good > 5000);
  CHECK(bad > 5000);
}

TEST_CASE("serve: the paths answer on one connection", "[serve]") {
  Run run(kCsvJob, csv_of(1));
  Served served(run);
  HttpClient client(served.address);
  const HttpReply reply = client.post(kRow);
  CHECK(reply.status == 200);
  const Json json = Json::parse(reply.body);
  CHECK(json["predictions"].size() == 1);
  CHECK(json["predictions"][0].get<float>() == predict(run, kRow)[0]);
  CHECK(json["model"] == (*run.opened)->current()->checkpoint);
  CHECK(client.post(kRow, "/v1/models/clicks:predict").body == reply.body);
  CHECK(client.get("/healthz").status == 200);
  const Json model = Json::parse(client.get("/v1/model").body);
  CHECK(model["inputs"].size() == 2);  // two fields read `age`
  CHECK(model["outputs"][0]["target"] == "label");
  const HttpReply metrics = client.get("/metrics");
  CHECK_THAT(metrics.body, Contains("downpour_serve_requests_total{code=\"200\"} 4"));
  CHECK_THAT(metrics.body, Contains("downpour_serve_rows_total 2"));
  CHECK_THAT(metrics.head, Contains("text/plain"));
  client.send("HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n");  // no body follows
  client.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK_THAT(client.receive().head, Contains("200 OK"));
}

TEST_CASE("serve: each wrong request has its status, and the connection stays usable", "[serve]") {
  Run run(kCsvJob, csv_of(1));
  Served served(run);
  HttpClient client(served.address);
  CHECK(client.get("/v1/nothing").status == 404);
  CHECK(client.post(kRow, "/v1/models/other:predict").status == 404);
  const HttpReply method = client.get("/v1/predict");
  CHECK(method.status == 405);
  CHECK_THAT(method.head, Contains("Allow: POST\r\n"));
  CHECK(client.post(kRow, "/metrics").status == 405);
  CHECK(client.post("{").status == 400);
  CHECK(client.post(R"({"rows": [{"age": "x", "job": "y"}]})").status == 422);
  const HttpReply missing = client.post(R"({"rows": [{"job": "y"}]})");
  CHECK(missing.status == 422);
  const Json error = Json::parse(missing.body)["error"];
  CHECK(error["what"] == "the column `age` is missing");
  CHECK(error["where"] == "row 0");
  CHECK_THAT(error["id"].get<std::string>(), Contains("DP-"));
  std::string many = R"({"rows": [{"age":1,"job":"a"})";
  for (int i = 0; i < 50; ++i) many += R"(,{"age":1,"job":"a"})";
  CHECK(client.post(many + "]}").status == 413);
  client.send(
      "POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Type: text/csv\r\n"
      "Content-Length: 1\r\n\r\nx");
  CHECK(client.receive().status == 415);
  CHECK(client.post(kRow).status == 200);
}

TEST_CASE("serve: pipelined, chunked and HTTP/1.0 requests are answered in order", "[serve]") {
  Run run(kCsvJob, csv_of(1));
  Served served(run);
  HttpClient client(served.address);
  const std::string body = kRow;
  std::string chunk = "POST /v1/predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  chunk += str(hex(body.size()), "\r\n", body, "\r\n0\r\n\r\n");
  client.send(HttpClient::request(body) + chunk + HttpClient::request("{") +
              HttpClient::request(body));
  std::vector<int> statuses;
  for (int i = 0; i < 4; ++i) statuses.push_back(client.receive().status);
  CHECK(statuses == std::vector<int>{200, 200, 400, 200});
  client.send("GET /healthz HTTP/1.0\r\n\r\n");
  CHECK_THAT(client.receive().head, Contains("Connection: close"));
  CHECK(client.closed());
}

TEST_CASE("serve: every one of many pipelined requests is answered", "[serve]") {
  Run run(kCsvJob, csv_of(1));
  Served served(run);
  HttpClient client(served.address);
  std::string many;  // its answers are longer than what the loop keeps before it sends
  for (int i = 0; i < 400; ++i) many += "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::string last = HttpClient::request(kRow);
  client.send(many + last.substr(0, last.size() - 5));
  for (int i = 0; i < 400; ++i) REQUIRE(client.receive().status == 200);
  client.send(last.substr(last.size() - 5));
  CHECK_THAT(client.receive().body, Contains("predictions"));
}

TEST_CASE("serve: malformed, oversized and slow clients get 4xx and harm no other", "[serve]") {
  Run run(kCsvJob, csv_of(1));
  Served served(run, {.body_bytes_max = 1000, .request_ns_max = 400'000'000});
  HttpClient good(served.address);
  HttpClient slow(served.address), silent(served.address);
  slow.send("POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{");
  HttpClient wrong(served.address);
  wrong.send("nonsense\r\n\r\n");
  CHECK(wrong.receive().status == 400);
  CHECK(wrong.closed());
  HttpClient large(served.address);
  large.send("POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n" +
             std::string(1001, 'x'));
  const HttpReply refused = large.receive();
  CHECK(refused.status == 413);
  CHECK_THAT(refused.body, Contains("--max-body"));
  CHECK(large.closed());
  std::thread trickle([&] {  // each byte is progress, but the request is still too slow
    for (int i = 0; i < 20; ++i) {
      slow.send(" ");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  for (int i = 0; i < 100; ++i) CHECK(good.post(kRow).status == 200);
  CHECK(slow.receive().status == 408);
  trickle.join();
  CHECK(slow.closed());
  CHECK(good.post(kRow).status == 200);
  CHECK(silent.post(kRow).status == 200);  // an idle connection is not a slow request
}

TEST_CASE("serve: a client that does not read its answers is closed", "[serve]") {
  Run run(kCsvJob, csv_of(1));
  Served served(run, {.request_ns_max = 300'000'000});
  HttpClient deaf(served.address), good(served.address);
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
  std::thread sender([&] {
    for (int i = 0; i < 20; ++i) deaf.send(many);  // ends when the connection is closed
  });
  sender.join();
  CHECK(good.get("/healthz").status == 200);
}

TEST_CASE("serve: a damaged newest checkpoint is counted once and the model stays", "[serve]") {
  Run run(kCsvJob, csv_of(1));
  std::atomic<int> good = 0, bad = 0;
  auto opened = LiveModel::open(
      run.disk, {.run_dir = run.dir / "run",
                 .poll_ns = 1'000'000,
                 .on_reload = [&](bool loaded, auto&) { ++(loaded ? good : bad); }});
  REQUIRE(opened);
  const std::string checkpoint = (*opened)->current()->checkpoint;
  run.dir.write("run/checkpoints/manifest-99-1.dpm", "damaged");
  for (int i = 0; i < 1000 && bad == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // many polls
  CHECK(bad == 1);
  CHECK(good == 0);
  CHECK((*opened)->current()->checkpoint == checkpoint);
}

TEST_CASE("serve: the sum of latencies is exact", "[serve]") {
  ServeMetrics metrics;
  metrics.count_answer(200, 1'234'567'000'000);
  metrics.count_answer(200, 891);
  CHECK_THAT(metrics.text("1-1", 0), Contains("_sum 1234.567000891\n"));
}

TEST_CASE("serve: above the limit of connections a client gets 503", "[serve]") {
  Run run(kCsvJob, csv_of(1));
  Served served(run, {.connections_max = 2});
  HttpClient first(served.address), second(served.address);
  CHECK(first.get("/healthz").status == 200);
  CHECK(second.get("/healthz").status == 200);
  HttpClient third(served.address);
  CHECK(third.receive().status == 503);
  CHECK(first.get("/healthz").status == 200);
}

}  // namespace
}  // namespace downpour::tools
