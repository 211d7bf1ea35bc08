// ServeMetrics: what `downpour serve` counts, as the text format of Prometheus.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace downpour::tools {

/// Thread-safe.
class ServeMetrics {
 public:
  /// Counts an answered request. `latency_ns`: from its last byte to its answer.
  void count_answer(int status, int64_t latency_ns);
  void count_rows(uint64_t rows) { rows_.fetch_add(rows, std::memory_order_relaxed); }
  void count_reload(bool good) { ++(good ? reloads_ : failed_reloads_); }

  /// `connections`: those that are open.
  std::string text(const std::string& checkpoint, uint64_t connections) const;

 private:
  /// Upper bounds of the latency histogram, in seconds.
  static constexpr std::array kBounds = {50e-6, 100e-6, 200e-6, 300e-6, 500e-6, 750e-6, 1e-3, 2e-3,
                                         3e-3,  5e-3,   10e-3,  25e-3,  50e-3,  .1,     .25,  1.0};

  mutable std::mutex mutex_;
  std::map<int, uint64_t> answers_;                          // by status
  std::array<uint64_t, kBounds.size() + 1> histogram_ = {};  // the last one has no bound
  int64_t latency_ns_ = 0;                                   // of all
  std::atomic<uint64_t> rows_ = 0, reloads_ = 0, failed_reloads_ = 0;
};

}  // namespace downpour::tools
