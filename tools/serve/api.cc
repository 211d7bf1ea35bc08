#include "tools/serve/api.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "shared/base/error_text.h"
#include "shared/base/str.h"
#include "shared/data/formats/json/json_text.h"

namespace downpour::tools {
namespace {

constexpr const char* kPaths =
    "the paths are /v1/predict, /v1/model, /healthz and /metrics; docs/serving.md describes them";

void append_float(float value, std::string& out) {
  if (!std::isfinite(value)) {  // JSON has no other text for it
    out += "null";
    return;
  }
  char text[32];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

/// Returns the status for an error of a request's rows.
int status_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kMalformed:
      return 400;
    case ErrorCode::kUsage:
      return 413;
    case ErrorCode::kBadData:
      return 422;
    default:
      return 500;
  }
}

HttpResponse wrong_method(const char* allowed) {
  HttpResponse response = error_response(
      405, {ErrorCode::kUsage, str("this path takes ", allowed), "the request line", ""});
  response.allow = allowed;
  return response;
}

}  // namespace

HttpResponse error_response(int status, const Error& error) {
  HttpResponse response{.status = status, .body = "{\"error\":{\"id\":"};
  std::string& body = response.body;
  data::append_json_text(body, error_id(error));
  body += ",\"what\":";
  data::append_json_text(body, error.what);
  body += ",\"where\":";
  data::append_json_text(body, error.where);
  body += ",\"hint\":";
  data::append_json_text(body, error.hint);
  body += "}}\n";
  return response;
}

Api::Api(const LiveModel& model, ServeMetrics& metrics, Options options)
    : model_(model), metrics_(metrics), options_(std::move(options)), rows_(options_.rows_max) {}

HttpResponse Api::answer(HttpRequest& request) {
  const std::string& path = request.path;
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (path == "/v1/predict" || path == str("/v1/models/", options_.name, ":predict"))
    return request.method == "POST" ? predict(request) : wrong_method("POST");
  if (path != "/v1/model" && path != "/healthz" && path != "/metrics") {
    return error_response(404,
                          {ErrorCode::kUsage, str("there is no path ", printable_line(path, 200)),
                           "the request line", kPaths});
  }
  if (!reads) return wrong_method("GET, HEAD");
  const auto model = model_.current();
  if (path == "/v1/model") return {.body = model->description + "\n"};
  if (path == "/healthz")
    return {.body = str("{\"status\":\"ok\",\"model\":\"", model->checkpoint, "\"}\n")};
  return {.body = metrics_.text(model->checkpoint, options_.connections()),
          .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

HttpResponse Api::predict(const HttpRequest& request) {
  if (request.content_type != "application/json" && !request.content_type.empty()) {
    return error_response(
        415, {ErrorCode::kUsage, str("the body is ", printable_line(request.content_type, 200)),
              "the header Content-Type", "send application/json"});
  }
  const auto model = model_.current();
  RowScorer& scorer = *model->rows[options_.thread];
  Result<void> done = rows_.read(request.body, scorer);
  if (done) done = scorer.predict(rows_.rows(), out_);
  if (!done) {
    Error& error = done.error();
    if (error.what.starts_with("bad record: ")) {  // of the reader of files
      error.what.erase(0, 12);
      error.hint = "GET /v1/model lists the inputs and their types";
    }
    return error_response(status_of(error), error);
  }
  metrics_.count_rows(rows_.rows().size());
  return {.body = predictions(*model, rows_.rows().size())};
}

std::string Api::predictions(const LoadedModel& model, size_t rows) const {
  const Scorer& scorer = model.rows[options_.thread]->scorer();
  const std::vector<OutputSpec>& outputs = scorer.job().model.outputs;
  const std::vector<uint32_t>& widths = scorer.widths();
  std::string body = str("{\"model\":\"", model.checkpoint, "\",");
  if (!model.classes.empty()) body += str("\"classes\":", model.classes, ",");
  body += "\"predictions\":[";
  const float* from = out_.data();
  for (size_t r = 0; r < rows; ++r) {
    if (r > 0) body += ',';
    if (outputs.size() > 1) body += '{';
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (o > 0) body += ',';
      if (outputs.size() > 1) data::append_json_text(body, outputs[o].name), body += ':';
      if (widths[o] > 1) body += '[';
      for (uint32_t k = 0; k < widths[o]; ++k) {
        if (k > 0) body += ',';
        append_float(*from++, body);
      }
      if (widths[o] > 1) body += ']';
    }
    if (outputs.size() > 1) body += '}';
  }
  body += "]}\n";
  return body;
}

HttpResponse Api::refuse(const HttpFault& fault) {
  return error_response(fault.status,
                        {ErrorCode::kMalformed, fault.what, "the request", fault.hint});
}

void Api::on_answered(int status, int64_t latency_ns) { metrics_.count_answer(status, latency_ns); }

}  // namespace downpour::tools
