// WorkerConfig: what a worker core knows from its start, and what its shell reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/units.h"
#include "shared/tensor/variables.h"
#include "shared/wire/member_messages.h"

namespace downpour::worker {

constexpr Incarnation kChief{0};  // address of the chief

struct WorkerConfig {
  wire::Role role = wire::Role::kWorker;  // kInput: a member that requests no leases
  Incarnation incarnation{};
  uint32_t index = UINT32_MAX;  // UINT32_MAX: the chief gives one
  std::string build;
  std::string host;
  uint32_t pid = 0;
  uint32_t threads = 1;                       // compute threads, which the chief displays
  std::string endpoint;                       // input process: where workers connect to it
  uint32_t leases_wanted = 2;                 // shards read at the same time
  bool local = false;                         // started by `downpour train`: a signal stops the job
  int64_t connect_timeout_ns = 10 * kSecond;  // without a Welcome: exit 69
  int64_t chief_silence_ns = 60 * kSecond;    // without a message of the chief: exit 180
  // Time until a pull, push or lease request is repeated first. It doubles, with jitter.
  int64_t request_timeout_ns = 2 * kSecond;
  int64_t retry_max_ns = 8 * kSecond;
  // Limit of the rows of a pull or push. A partition with more is cut into fragments.
  uint64_t message_bytes_max = wire::kFrameBytesMax;
};

/// What a worker core learns from the job.
struct JobSettings {
  std::vector<TableSpec> tables;            // of the model
  uint32_t in_flight = 1;                   // batches
  std::optional<uint64_t> staleness;        // bound, in batches; see PullPolicy
  uint32_t replicas = 0;                    // of synchronous training; 0: not synchronous
  uint32_t backups = 0;                     // replicas that a step may leave out
  uint32_t computed_at_once = 1;            // batches
  int64_t chief_silence_ns = 60 * kSecond;  // without a message of the chief: exit 180
};

/// What the shell knows about its process. Heartbeats carry it.
struct ProcessStats {
  uint64_t rss_bytes_max = 0;
  uint64_t cpu_ns = 0;
  uint64_t pulled_bytes = 0;
  uint64_t pushed_bytes = 0;
  uint64_t read_bytes = 0;
  wire::WorkTime work;
};

}  // namespace downpour::worker
