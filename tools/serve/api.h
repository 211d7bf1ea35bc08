// Api: answers the HTTP requests of `downpour serve`. docs/serving.md describes the API.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/serve/http_loop.h"
#include "tools/serve/live_model.h"
#include "tools/serve/metrics.h"
#include "tools/serve/request_rows.h"

namespace downpour::tools {

/// The part of one thread.
class Api final : public HttpApp {
 public:
  struct Options {
    std::string name;  // NAME in /v1/models/NAME:predict
    uint32_t thread = 0;
    size_t rows_max = 0;
    std::function<uint64_t()> connections;  // open ones, for the metrics
  };
  /// `model` and `metrics` must outlive the object.
  Api(const LiveModel& model, ServeMetrics& metrics, Options options);

  HttpResponse answer(HttpRequest& request) override;
  HttpResponse refuse(const HttpFault& fault) override;
  void on_answered(int status, int64_t latency_ns) override;

 private:
  HttpResponse predict(const HttpRequest& request);
  std::string predictions(const LoadedModel& model, size_t rows) const;

  const LiveModel& model_;
  ServeMetrics& metrics_;
  const Options options_;
  RequestRows rows_;
  std::vector<float> out_;
};

/// Returns {"error": {"id", "what", "where", "hint"}}.
HttpResponse error_response(int status, const Error& error);

}  // namespace downpour::tools
