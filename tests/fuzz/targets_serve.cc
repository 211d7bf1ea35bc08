// Requests of clients of `downpour serve`: the bytes of a connection, and the bodies of
// predictions.
#include <memory>

#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/partition_writer.h"
#include "shared/checkpoint/paths.h"
#include "shared/checkpoint/run_file.h"
#include "shared/env/memory_storage.h"
#include "shared/job/job_file.h"
#include "shared/job/preset.h"
#include "shared/model/graph.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/target.h"
#include "tools/embedded/model.h"
#include "tools/serve/http_parser.h"
#include "tools/serve/request_rows.h"

namespace downpour::fuzz {
namespace {

constexpr size_t kBodyMax = 64 * 1024;
constexpr size_t kRowsMax = 64;

// ---- HTTP

constexpr std::string_view kHttpTokens[] = {"GET ",
                                            "POST ",
                                            "HTTP/1.1",
                                            "HTTP/1.0",
                                            "HTTP/9.9",
                                            "\r\n",
                                            "\n",
                                            "\r",
                                            "\r\n\r\n",
                                            " ",
                                            "\t",
                                            ":",
                                            "%",
                                            "%20",
                                            "%zz",
                                            "%00",
                                            "?",
                                            "Host: x\r\n",
                                            "Content-Length: 5\r\n",
                                            "Content-Length: 18446744073709551616\r\n",
                                            "Content-Length: -1\r\n",
                                            "Transfer-Encoding: chunked\r\n",
                                            "Transfer-Encoding: gzip, chunked\r\n",
                                            "Expect: 100-continue\r\n",
                                            "Connection: close\r\n",
                                            "0\r\n\r\n",
                                            "ffffffffffffffff\r\n",
                                            "5;x=\"y\"\r\n",
                                            std::string_view("\0", 1),
                                            "\xff"};

/// Returns one to four requests of one connection.
std::string connection_seed(Rng& rng) {
  std::string text;
  for (uint64_t n = 1 + rng.below(4); n > 0; --n) {
    const bool post = rng.below(2) == 0;
    text +=
        post ? "POST /v1/predict HTTP/1.1\r\n" : "GET /v1/models/a%20b:predict?x=1 HTTP/1.1\r\n";
    text += "Host: localhost:8080\r\nUser-Agent: fuzz\r\n";
    if (!post) {
      text += "\r\n";
      continue;
    }
    const std::string body(rng.below(200), 'b');
    text += "Content-Type: application/json\r\n";
    if (one_in(rng, 2)) {
      text += str("Content-Length: ", body.size(), "\r\n\r\n", body);
    } else {
      char size[20];
      std::snprintf(size, sizeof(size), "%zx", body.size());
      text += "Transfer-Encoding: chunked\r\n\r\n";
      if (!body.empty()) text += str(size, "\r\n", body, "\r\n");
      text += "0\r\n\r\n";
    }
  }
  return text;
}

/// Returns what a parser finds in the bytes, which arrive in pieces of up to `piece_max` bytes.
std::string heard(const std::string& bytes, uint64_t piece_max, Rng rng) {
  tools::HttpParser parser(kBodyMax);
  std::string found;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t size = std::min<size_t>(bytes.size() - begin, 1 + rng.below(piece_max));
    const std::string_view piece = std::string_view(bytes).substr(begin, size);
    begin += size;
    for (size_t at = 0;;) {
      const size_t before = at;
      const auto got = parser.parse(piece, at);
      if (at < before || at > piece.size()) return "the place leaves the bytes";
      if (got == tools::HttpParser::Got::kNothing) {
        if (at != piece.size()) return "bytes are left without a request";
        break;
      }
      if (got == tools::HttpParser::Got::kFault) {
        if (parser.fault().status < 400 || parser.fault().what.empty())
          return "a fault without a status or a reason";
        return found + str("fault ", parser.fault().status, " ", parser.fault().what);
      }
      const tools::HttpRequest& request = parser.request();
      if (request.body.size() > kBodyMax) return "a body exceeds the limit";
      found += str(request.method, " ", request.path, " ", request.content_type, " ",
                   request.body.size(), request.keep_alive ? " stays\n" : " closes\n");
    }
  }
  return found + (parser.is_inside() ? "inside" : "between");
}

Target http_target() {
  return {.name = "http",
          .make =
              [](Rng& rng) {
                std::string bytes = connection_seed(rng);
                if (!one_in(rng, 10)) mutate(bytes, connection_seed(rng), kHttpTokens, rng);
                return Input{.knobs = rng.next(), .files = {std::move(bytes)}};
              },
          .run = [](const Input& input) -> std::string {
            const std::string& bytes = input.files[0];
            const std::string whole = heard(bytes, UINT32_MAX, Rng(input.knobs));
            if (whole.ends_with("leaves the bytes") || whole.ends_with("without a request") ||
                whole.ends_with("or a reason") || whole.ends_with("exceeds the limit"))
              return whole;
            const std::string parts = heard(bytes, 1 + input.knobs % 20, Rng(input.knobs));
            return whole == parts ? "" : str("in pieces it is other requests: ", parts);
          },
          .memory_bytes_max = 64 * kMiB};
}

// ---- bodies

constexpr const char* kTableJob = R"(
data.source = "rows.csv"
data.format = "csv"
data.columns = ["age", "job", "words", "label"]
data.missing = ["?"]
data.fields.age = { transform = [{ op = "standardize", mean = 40, scale = 20 }] }
data.fields.age_id = { type = "string", column = "age" }
data.fields.job = { type = "string", default = "none" }
data.fields.words = { type = "string", shape = [-1], default = "" }
data.fields.label = {}
model = { preset = "wide_deep", target = "label", dim = 4, units = [8] }
partitions = 2
)";
constexpr const char* kPairsJob = R"(
data.source = "rows.svm"
data.format = "libsvm"
model.preset = "logistic_regression"
partitions = 2
)";

/// Returns a model with the initial values of its variables.
std::unique_ptr<tools::RowScorer> untrained(const char* text) {
  auto loaded = load_job(JobSource{"/job.toml", text}, {},
                         [](const std::string&) { return std::optional<std::string>(); });
  DP_CHECK(bool(loaded));
  Job job = std::move(loaded->job);
  DP_CHECK(bool(complete_job(job)));
  const auto graph = model::Graph::build(job);
  DP_CHECK(bool(graph));
  MemoryStorage storage;
  checkpoint::Manifest manifest{.id = {1, 1},
                                .run = 1,
                                .plan_hash = 1,
                                .job = job_to_toml(job),
                                .partitions = job.partitions,
                                .tables = (*graph)->tables()};
  std::vector<checkpoint::PartitionImage> images(job.partitions);
  for (uint32_t p = 0; p < job.partitions; ++p) images[p].partition = PartitionId(p);
  DP_CHECK(bool(checkpoint::write_run(storage, "/run", {.id = 1, .job = manifest.job})));
  auto refs = checkpoint::write_images(storage, checkpoint::checkpoint_folder("/run", manifest.id),
                                       "a.ckpt", images, manifest.tables);
  DP_CHECK(bool(refs));
  manifest.images = *std::move(refs);
  DP_CHECK(bool(checkpoint::publish(storage, "/run", manifest)));
  auto scorer = tools::Scorer::open(storage, "/run");
  DP_CHECK(bool(scorer));
  auto rows = tools::RowScorer::make(std::shared_ptr<const tools::Scorer>(std::move(*scorer)));
  DP_CHECK(bool(rows));
  return std::move(*rows);
}

constexpr std::string_view kBodies[] = {
    R"({"rows": [{"age": 39, "job": "clerk", "words": "a b"}, {"age": null, "job": null}]})",
    R"({"instances": [{"age": "?", "job": 7, "words": ["a", "b"], "label": 1}]})",
    R"({"columns": {"age": [39, 1e3], "job": ["clerk", ""], "words": ["a", null]}})",
    R"({"inputs": {"age": [], "job": [], "words": []}})",
    R"({"rows": [{"features": {"keys": [3, 17], "values": [0.5, 1]}}, {"features": [3, 17]}]})",
    R"({"columns": {"features": [[1, 2], {"keys": [18446744073709551615]}]}})"};
constexpr std::string_view kBodyTokens[] = {"{",
                                            "}",
                                            "[",
                                            "]",
                                            ",",
                                            ":",
                                            "\"rows\"",
                                            "\"columns\"",
                                            "null",
                                            "true",
                                            "1e309",
                                            "-0",
                                            "1.5",
                                            "\"\\ud800\"",
                                            "\"a\"",
                                            "\"age\"",
                                            "\"job\"",
                                            "\"keys\"",
                                            "\"values\"",
                                            "\"fields\"",
                                            "18446744073709551616",
                                            "-1",
                                            "\\",
                                            "\"",
                                            "{\"rows\": [",
                                            "[[[[[[[[",
                                            "\xff",
                                            "\"features\"",
                                            "\n",
                                            "\"words\""};

std::string check_body(const std::string& text, tools::RowScorer& model) {
  static tools::RequestRows rows(kRowsMax);
  std::string padded = text;
  padded.append(tools::kBodyPadBytes, '\0');
  const std::string_view body = std::string_view(padded).substr(0, text.size());
  const auto read = rows.read(body, model);
  if (!read) {
    const ErrorCode code = read.error().code;
    const bool known =
        code == ErrorCode::kMalformed || code == ErrorCode::kBadData || code == ErrorCode::kUsage;
    return known && !read.error().what.empty() ? "" : "an error of another code, or without text";
  }
  if (rows.rows().size() > kRowsMax) return "more rows than the limit";
  std::vector<float> out;
  const auto predicted = model.predict(rows.rows(), out);
  if (!predicted) {
    return predicted.error().code == ErrorCode::kBadData && !predicted.error().where.empty()
               ? ""
               : "an error of another code, or without a row";
  }
  if (out.size() != rows.rows().size() * model.scorer().row_floats())
    return "another number of predictions than rows";
  std::vector<float> again;
  if (!rows.read(body, model) || !model.predict(rows.rows(), again))
    return "read again it is an error";
  const bool same = std::equal(out.begin(), out.end(), again.begin(), again.end(),
                               [](float a, float b) { return a == b || (a != a && b != b); });
  return same ? "" : "read again it gives other predictions";
}

Target body_target(const char* name, const char* job) {
  return {
      .name = name,
      .make =
          [](Rng& rng) {
            std::string body(one_of(Dictionary(kBodies), rng));
            if (!one_in(rng, 10))
              mutate(body, std::string(one_of(Dictionary(kBodies), rng)), kBodyTokens, rng);
            return Input{.files = {std::move(body)}};
          },
      .run =
          [job, model = std::make_shared<std::unique_ptr<tools::RowScorer>>()](const Input& input) {
            if (*model == nullptr) *model = untrained(job);
            return check_body(input.files[0], **model);
          },
      .memory_bytes_max = 64 * kMiB};
}

}  // namespace

void add_serve_targets(std::vector<Target>& out) {
  out.push_back(http_target());
  out.push_back(body_target("serve-rows", kTableJob));
  out.push_back(body_target("serve-pairs", kPairsJob));
}

}  // namespace downpour::fuzz
