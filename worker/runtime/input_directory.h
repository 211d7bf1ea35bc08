// Input directory: which input processes live, and which of them have delivered, for the reading
// threads of a worker. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/units.h"
#include "shared/transport/keyring.h"
#include "shared/wire/messages.h"

namespace downpour::worker {

struct InputDirectoryOptions {
  bool wanted = false;     // the job says that there are input processes
  bool reads_here = true;  // where none lives the worker reads; false: it may not
  uint64_t run = 0;
  uint64_t plan_hash = 0;
  int64_t first_wait_ns = 2 * kSecond;  // for the first to come, where they are wanted
  // One that failed is not asked for so long; doubles with each failure.
  int64_t suspicion_ns = 10 * kSecond;
  int64_t suspicion_ns_max = 600 * kSecond;
  // While some have failed, of the time of one reader at most 1 part in so many goes into trying
  // input processes that have not delivered.
  int64_t trial_share = 10;
  std::function<void(const std::string& line)> say;  // from any thread; may be empty
  std::shared_ptr<transport::Keyring> keyring;       // of this worker; null: it has none
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
  /// others come and go, the same (highest random weight). None: the worker itself. Where it may
  /// read itself and an input process has failed, those that have not delivered yet are tried by
  /// one reader at a time, and seldom: dead or hostile processes can not hold up the others.
  std::optional<wire::InputProcess> choose(int64_t now_ns, uint64_t shard,
                                           const std::vector<Incarnation>& without);
  /// It sent a batch of the job, or (`whole`) a shard to its end.
  void delivered(Incarnation input, bool whole);
  /// Nothing is wanted of it any more; whether it would have delivered is not known.
  void left(Incarnation input);
  /// True while the first one may still come: for a moment from the first question on.
  bool is_early(int64_t now_ns);
  /// The input process did not answer, or sent an invalid batch.
  void suspect(int64_t now_ns, Incarnation input, const std::string& why);
  /// A reading is done here, because there is no input process. Said once.
  void note_reads_here();

 private:
  InputDirectoryOptions options_;
  mutable std::mutex mutex_;
  std::vector<wire::InputProcess> inputs_;
  struct Record {
    bool delivered = false;  // since it failed last
    uint32_t failures = 0;
    int64_t retry_ns = 0;  // not before
  };
  Record* record_of(Incarnation input);
  std::map<Incarnation, Record> records_;  // of those in inputs_
  std::optional<Incarnation> trial_;       // under way
  int64_t trial_begun_ns_ = 0;
  int64_t trial_at_ns_ = 0;  // the next one, not before
  bool had_some_ = false;
  std::optional<int64_t> asked_ns_;  // first
  bool said_reads_here_ = false;
};

}  // namespace downpour::worker
