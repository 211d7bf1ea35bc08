// Input directory: which input processes live, for the reading threads of a worker. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/units.h"
#include "shared/wire/messages.h"

namespace downpour::worker {

struct InputDirectoryOptions {
  bool wanted = false;     // the job says that there are input processes
  bool reads_here = true;  // where none lives the worker reads; false: it may not
  uint64_t run = 0;
  uint64_t plan_hash = 0;
  int64_t first_wait_ns = 2 * kSecond;  // for the first to come, where they are wanted
  int64_t suspicion_ns = 10 * kSecond;  // one that did not answer is not asked for so long
  std::function<void(const std::string& line)> say;  // from any thread; may be empty
};

class InputDirectory {
 public:
  explicit InputDirectory(InputDirectoryOptions options) : options_(std::move(options)) {}
  const InputDirectoryOptions& options() const { return options_; }

  /// These live now.
  void update(std::vector<wire::InputProcess> inputs);
  /// Whether a reading may be elsewhere: some are wanted, or there.
  bool in_use() const;
  bool lives(Incarnation input) const;
  std::vector<std::string> endpoints() const;
  /// Which is to read a shard, of those that are not in `without`: whoever asks, and whichever
  /// others come and go, the same (highest random weight). None: the worker itself.
  std::optional<wire::InputProcess> choose(int64_t now_ns, uint64_t shard,
                                           const std::vector<Incarnation>& without) const;
  /// True while the first one may still come: for a moment from the first question on.
  bool is_early(int64_t now_ns);
  /// It did not answer, or sent what is no batch.
  void suspect(int64_t now_ns, Incarnation input, const std::string& why);
  /// A reading is done here, because there is no input process. Said once.
  void note_reads_here();

 private:
  InputDirectoryOptions options_;
  mutable std::mutex mutex_;
  std::vector<wire::InputProcess> inputs_;
  std::vector<std::pair<Incarnation, int64_t>> suspects_;  // until when
  bool had_some_ = false;
  std::optional<int64_t> asked_ns_;  // first
  bool said_reads_here_ = false;
};

}  // namespace downpour::worker
