#include <cstdio>
#include <filesystem>

#include "shared/base/error_text.h"
#include "shared/env/storage.h"
#include "tools/cli/verbs.h"
#include "tools/serve/serve.h"

namespace downpour::tools {
namespace {

Result<void> run_serve(const ServeOptions& given) {
  ServeOptions options = given;
  std::error_code ignored;
  const std::string named = options.run_dir;
  options.run_dir = std::filesystem::absolute(named, ignored).lexically_normal().string();
  if (options.run_dir.ends_with('/')) options.run_dir.pop_back();
  if (!std::filesystem::is_directory(options.run_dir, ignored)) {
    return Error{ErrorCode::kNoInput, "the run folder does not exist", named,
                 "give the run folder that training printed"};
  }
  options.on_ready = [&](const std::string& address, const std::string& checkpoint) {
    std::printf("serving checkpoint %s of %s on http://%s\n", checkpoint.c_str(),
                printable(named).c_str(), address.c_str());
    std::fflush(stdout);
  };
  options.on_warning = [](const std::string& text) {
    std::fprintf(stderr, "serve: %s\n", printable(text).c_str());
  };
  PosixStorage storage;
  return serve(storage, options);
}

}  // namespace

void declare_serve(CLI::App* verb, int& status) {
  auto* const options = set_run(verb, status, run_serve);
  verb->add_option("run", options->run_dir, "Run folder")->required();
  verb->option_defaults()->always_capture_default();
  verb->add_option("--host", options->host, "Address to listen on");
  verb->add_option("--port", options->port, "Port to listen on; 0 chooses a free one")
      ->check(CLI::Range(0, 65'535));
  verb->add_option("--threads", options->threads,
                   "Threads that answer requests; 0: one for each processor")
      ->check(CLI::Range(0, 64));
  verb->add_option("--max-rows", options->rows_max, "Most rows in a request")
      ->check(CLI::Range(1, 1 << 20));
  verb->add_option("--max-body", options->body_bytes_max, "Most bytes in the body of a request")
      ->check(CLI::Range(1, 1 << 30));
  verb->add_option("--timeout", options->timeout_s,
                   "Seconds from the first byte of a request to its last")
      ->check(CLI::Range(0.1, 3600.0));
  verb->add_option("--poll", options->poll_s, "Seconds between looks for a newer checkpoint")
      ->check(CLI::Range(0.05, 3600.0));
  verb->footer(
      "Example:\n  downpour serve runs/clicks --port 8080\n  curl -d '{\"rows\": [{\"age\": 39}]}' "
      "-H 'Content-Type: application/json' http://127.0.0.1:8080/v1/predict");
}

}  // namespace downpour::tools
