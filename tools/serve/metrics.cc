#include "tools/serve/metrics.h"

#include <algorithm>
#include <charconv>

#include "shared/base/str.h"

namespace downpour::tools {
namespace {

/// Returns the shortest text that reads as the same number.
std::string shortest(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

void ServeMetrics::count_answer(int status, int64_t latency_ns) {
  const auto bound = std::ranges::lower_bound(kBounds, double(latency_ns) / 1e9);
  const std::lock_guard lock(mutex_);
  ++answers_[status];
  ++histogram_[size_t(bound - kBounds.begin())];
  latency_ns_ += latency_ns;
}

std::string ServeMetrics::text(const std::string& checkpoint, uint64_t connections) const {
  std::string out;
  const auto head = [&](const char* name, const char* type, const char* help) {
    out += str("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  };
  const auto single = [&](const char* name, const char* type, const char* help, uint64_t value) {
    head(name, type, help);
    out += str(name, " ", value, "\n");
  };
  {
    const std::lock_guard lock(mutex_);
    head("downpour_serve_requests_total", "counter", "Answered requests by status.");
    for (const auto& [status, count] : answers_)
      out += str("downpour_serve_requests_total{code=\"", status, "\"} ", count, "\n");
    constexpr const char* kName = "downpour_serve_request_duration_seconds";
    head(kName, "histogram", "Time from the last byte of a request to its answer.");
    uint64_t below = 0;
    for (size_t i = 0; i < kBounds.size(); ++i) {
      below += histogram_[i];
      out += str(kName, "_bucket{le=\"", kBounds[i], "\"} ", below, "\n");
    }
    below += histogram_.back();
    out += str(kName, "_bucket{le=\"+Inf\"} ", below, "\n", kName, "_sum ",
               shortest(double(latency_ns_) / 1e9), "\n", kName, "_count ", below, "\n");
  }
  single("downpour_serve_rows_total", "counter", "Predicted rows.", rows_);
  single("downpour_serve_connections", "gauge", "Open connections.", connections);
  single("downpour_serve_reloads_total", "counter", "Checkpoints loaded after the first.",
         reloads_);
  single("downpour_serve_reload_failures_total", "counter", "Checkpoints that did not load.",
         failed_reloads_);
  head("downpour_serve_model_info", "gauge", "The checkpoint that answers requests.");
  out += str("downpour_serve_model_info{checkpoint=\"", checkpoint, "\"} 1\n");
  return out;
}

}  // namespace downpour::tools
