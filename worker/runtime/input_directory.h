// InputDirectory: which input processes are alive and which of them have delivered, for the reading
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
#include "shared/wire/read_messages.h"

namespace downpour::worker {

struct InputDirectoryOptions {
  bool wanted = false;     // the job has input processes
  bool reads_here = true;  // without a live input process the worker reads the shards on its own
  uint64_t run = 0;
  uint64_t plan_hash = 0;
  int64_t first_wait_ns = 2 * kSecond;  // wait for the first one, if they are wanted
  // For how long an input process that failed is not asked. Doubles with each failure.
  int64_t suspicion_ns = 10 * kSecond;
  int64_t suspicion_ns_max = 600 * kSecond;
  // While some have failed, trials of input processes that have not delivered take at most
  // 1/trial_share of one reader's time.
  int64_t trial_share = 10;
  std::function<void(const std::string& line)> say;  // called from any thread; may be empty
  std::shared_ptr<transport::Keyring> keyring;       // of this worker; null: no keys
};

class InputDirectory {
 public:
  explicit InputDirectory(InputDirectoryOptions options) : options_(std::move(options)) {}
  const InputDirectoryOptions& options() const { return options_; }

  /// Replaces the list of live input processes.
  void update(std::vector<wire::InputProcess> inputs);
  /// Whether input processes may read shards: some are wanted or listed.
  bool in_use() const;
  bool lives(Incarnation input) const;
  std::vector<std::string> endpoints() const;
  /// Chooses the input process that reads a shard, except those in `without`. Returns nothing if
  /// the worker reads it itself. Every reader chooses the same one, and it stays the same when
  /// others come and go (highest random weight). There is one more rule if the worker may read
  /// on its own, and some input process has failed and not delivered since. Then only one reader at
  /// a time tries those that have not delivered yet, and only rarely. So dead or hostile processes
  /// cannot hold up the other readers.
  std::optional<wire::InputProcess> choose(int64_t now_ns, uint64_t shard,
                                           const std::vector<Incarnation>& without);
  /// Notes that it sent a batch of the job, or (`whole`) a whole shard.
  void delivered(Incarnation input, bool whole);
  /// Notes that the reader left it before it was known whether it would deliver.
  void left(Incarnation input);
  /// Whether the first input process may still come. True only for a short time after the first
  /// call.
  bool is_early(int64_t now_ns);
  /// Notes that the input process did not answer or sent an invalid batch.
  void suspect(int64_t now_ns, Incarnation input, const std::string& why);
  /// Reports that this worker reads on its own, because no input process exists or can read the
  /// shard. Reports it once until the next update() with input processes.
  void note_reads_here();

 private:
  InputDirectoryOptions options_;
  mutable std::mutex mutex_;
  std::vector<wire::InputProcess> inputs_;
  struct Record {
    bool delivered = false;  // since its last failure
    uint32_t failures = 0;
    int64_t retry_ns = 0;  // not asked before this time
  };
  Record* record_of(Incarnation input);
  std::map<Incarnation, Record> records_;  // by input process in inputs_
  std::optional<Incarnation> trial_;       // in progress
  int64_t trial_begun_ns_ = 0;
  int64_t trial_at_ns_ = 0;  // earliest start of the next trial
  bool had_some_ = false;
  std::optional<int64_t> asked_ns_;  // first call of is_early()
  bool said_reads_here_ = false;
};

}  // namespace downpour::worker
