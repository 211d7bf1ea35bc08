// serve(): answers HTTP requests with the predictions of a saved model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "shared/base/result.h"
#include "shared/env/storage.h"

namespace downpour::tools {

struct ServeOptions {
  std::string run_dir;
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: a free one
  uint32_t threads = 0;  // 0: one for each processor that this process may use
  size_t rows_max = 1024;
  size_t body_bytes_max = size_t{1} << 20;
  double timeout_s = 10;
  double poll_s = 1;
  /// Called once requests are answered.
  std::function<void(const std::string& address, const std::string& checkpoint)> on_ready;
  std::function<void(const std::string& text)> on_warning;
};

/// Serves until SIGINT or SIGTERM, and then answers the requests that have begun. Errors: those of
/// Scorer::open() and listen_on().
Result<void> serve(Storage& storage, const ServeOptions& options);

}  // namespace downpour::tools
