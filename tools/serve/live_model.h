// LiveModel: the model that answers requests. Follows the checkpoints of a run.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/env/storage.h"
#include "tools/embedded/model.h"

namespace downpour::tools {

struct LoadedModel {
  std::string checkpoint;                        // "1-17"
  std::string description;                       // the answer to GET /v1/model
  std::string classes;                           // JSON: the member `classes`; empty: no class
  std::vector<std::unique_ptr<RowScorer>> rows;  // one for each thread
};

class LiveModel {
 public:
  struct Options {
    std::string run_dir;
    uint32_t threads = 1;
    int64_t poll_ns = 1'000'000'000;
    /// Called on the thread that loads: whether a newer checkpoint was loaded, and what to log.
    std::function<void(bool good, const std::string& text)> on_reload;
  };
  /// Loads the checkpoint that predictions use (checkpoint::load_model()), and starts a thread that
  /// loads its successors. `storage` must outlive the object. Errors: those of Scorer::open().
  static Result<std::unique_ptr<LiveModel>> open(Storage& storage, Options options);
  ~LiveModel();

  /// Returns the newest model that is loaded. It stays usable while the caller holds it.
  /// Thread-safe.
  std::shared_ptr<const LoadedModel> current() const;

 private:
  LiveModel(Storage& storage, Options options);
  Result<std::shared_ptr<const LoadedModel>> load();
  uint64_t run_id() const;
  void poll();
  void run();

  Storage& storage_;
  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable wakeup_;
  bool ends_ = false;
  std::shared_ptr<const LoadedModel> current_;
  // Only the loading thread uses these.
  std::vector<std::shared_ptr<const LoadedModel>> retired_;  // freed here, not by a loop
  /// A checkpoint. Those of another run in the same folder have the same numbers.
  struct Version {
    uint64_t run = 0;
    ViewId id;
    bool operator==(const Version&) const = default;
  };
  Version seen_, loaded_;
  std::string last_error_;
  std::thread thread_;
};

}  // namespace downpour::tools
