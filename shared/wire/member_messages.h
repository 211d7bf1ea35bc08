// Member messages: between the chief and a ps core, worker or input process, about membership, the
// owners of partitions, and signs of life.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/metrics/sums.h"
#include "shared/plan/shard.h"

namespace downpour::wire {

constexpr uint16_t kProtocolVersion = 1;
constexpr uint64_t kFrameBytesMax = 1024 * 1024;   // bytes of a payload frame
constexpr uint64_t kHeaderBytesMax = 1024 * 1024;  // bytes of the header frame
// loads in a heartbeat: one for each partition that a job may have
constexpr uint32_t kLoadsMax = 4096;

enum class Role : uint8_t { kChief, kPs, kWorker, kInput };

/// A statement of a ps core that it holds a partition. A new chief accepts or rejects it.
struct PartitionClaim {
  PartitionId partition{};
  ViewId ownership_generation;  // as in the Adopt that brought the partition
  uint32_t sealed_epochs = 0;
  bool operator==(const PartitionClaim&) const = default;
};

/// The first message on a control connection; repeated until answered. A ps process sends one for
/// each of its cores.
struct Hello {
  Role role = Role::kWorker;
  uint32_t index = UINT32_MAX;  // UINT32_MAX: the chief assigns one
  uint32_t thread = 0;          // ps: number of the core in its process
  Incarnation incarnation{};
  std::string build;  // version of the sender's build
  std::string host;
  uint32_t pid = 0;
  uint32_t threads = 0;  // worker: compute threads
  // ps: endpoint that answers pulls and pushes; input: endpoint that reads for workers
  std::string endpoint;
  // ps: all partitions that it holds, ascending, so that a new chief can continue with them
  std::vector<PartitionClaim> claims;
  uint64_t plan_hash = 0;       // ps: plan of the newest view that it knows; 0: none yet
  bool holds_unsealed = false;  // ps: claimed partitions hold batches of unsealed epochs
  bool operator==(const Hello&) const = default;
};

/// The chief's answer to Hello, from which the member configures itself. The files are those of the
/// data set, as the chief found them at its start.
struct Welcome {
  uint32_t index = 0;
  std::string job;  // effective job, TOML as job_to_toml() prints it
  std::string base_dir;
  std::string run_dir;
  uint64_t plan_hash = 0;
  uint64_t shard_bytes = 0;  // target size in cut_shards()
  std::vector<plan::FileInfo> train_files;
  std::vector<plan::FileInfo> eval_files;
  int64_t heartbeat_ns = 0;  // interval of heartbeats
  int64_t lease_ns = 0;      // silence that ends a lease
  // upper bound of the shards of a training pass; 0: not set
  uint32_t train_shards = 0;
  bool saves = false;  // a ps writes checkpoints into run_dir
  bool operator==(const Welcome&) const = default;
};

/// The chief's refusal of this process: another version, a taken index, a wrong role, or an ended
/// job. The process ends.
struct Refused {
  ErrorCode code = ErrorCode::kUnavailable;
  std::string what;
  std::string hint;
  bool operator==(const Refused&) const = default;
};

/// The owner of one partition in a view.
struct Placement {
  uint32_t owner = UINT32_MAX;  // index into View::owners; UINT32_MAX: no owner
  // under which this owner received the partition, or kept it after a cancelled move
  ViewId ownership_generation;
  bool operator==(const Placement&) const = default;
};
/// A ps core that owns partitions.
struct Owner {
  uint32_t index = 0;  // of the ps process
  uint32_t thread = 0;
  Incarnation incarnation{};
  std::string endpoint;
  bool operator==(const Owner&) const = default;
};
/// Chief -> members: the owner of each partition. Accepted if it is newer than the known view.
struct View {
  ViewId id;
  std::vector<Owner> owners;
  std::vector<Placement> partitions;  // one for each partition
  uint64_t plan_hash = 0;             // of the chief that published the view; 0: not known
  bool operator==(const View&) const = default;
};

/// The location of one partition's image. `file` is a plain name in the folder of `checkpoint`. If
/// `checkpoint` is {}, the folder is the one named by the message that contains this reference.
struct ImageRef {
  PartitionId partition{};
  std::string file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // checksum that a manifest names the image by (XXH3-64)
  uint64_t base = 0;      // checksum of the image that this one builds on; 0: a full image
  // {}: see above; else the image lies in the folder of that checkpoint, a sibling of the folder
  // that the message names
  ViewId checkpoint;
  bool operator==(const ImageRef&) const = default;
};

/// A quarantined batch, or one proposed for quarantine: the job continues without its gradient, and
/// its records count as quarantined. Partitions store markers with their other state until the
/// epoch is sealed (docs/protocol.md).
struct QuarantineMarker {
  BatchId batch;
  bool withdrawn = false;  // the batch counts like any other batch again
  // in replies and images: the batch had been applied already when the marker arrived
  bool had = false;
  // in replies: the watermark is past the batch, and its gradient was left out
  bool passed = false;
  bool operator==(const QuarantineMarker&) const = default;
};

/// Chief -> ps core: hold these partitions under `ownership_generation`, empty or restored from
/// images. Answered by Adopted. The chief publishes the view that names the core only after that
/// answer.
struct Adopt {
  ViewId ownership_generation;
  uint32_t sealed_epochs = 0;
  std::vector<PartitionId> partitions;
  std::string folder;  // checkpoint folder; empty: start empty
  // Per partition: a full image, then the images that build on it; none if it starts empty. The
  // small images of a move travel in the values frame, as in Frozen.
  std::vector<ImageRef> images;
  std::vector<QuarantineMarker> markers = {};  // all that the chief knows
  // False: there may be more markers. The partitions reject pushes until a StatusRequest has sent
  // all of them.
  bool markers_known = true;
  uint64_t plan_hash = 0;  // required of images with batches of unsealed epochs; 0: any plan
  bool operator==(const Adopt&) const = default;
};
struct Adopted {
  ViewId ownership_generation;
  bool ok = true;
  std::string error;                         // if !ok
  ErrorCode code = ErrorCode::kUnavailable;  // of that error
  bool operator==(const Adopted&) const = default;
};

/// The load of a partition in some period: rows pulled and applied, and the bytes of their values.
struct PartitionLoad {
  PartitionId partition{};
  uint64_t rows = 0, bytes = 0;
  bool operator==(const PartitionLoad&) const = default;
};

/// How a worker has spent its time since it started. In the remaining time it had no shard to read.
struct WorkTime {
  uint64_t compute_ns = 0;  // a batch was being computed
  uint64_t network_ns = 0;  // no batch was computed, and the worker waited for a ps
  uint64_t input_ns = 0;    // neither of these; the next batch was still being read
  // Integrals over the time in which the worker had a shard to read: of the number of batches in
  // the queue, and of the capacity of the queue. Their ratio is the mean fill.
  uint64_t queued_ns = 0, queue_ns = 0;
  uint64_t sum() const { return compute_ns + network_ns + input_ns; }
  WorkTime& operator+=(const WorkTime& other) {
    compute_ns += other.compute_ns;
    network_ns += other.network_ns;
    input_ns += other.input_ns;
    queued_ns += other.queued_ns;
    queue_ns += other.queue_ns;
    return *this;
  }
  bool operator==(const WorkTime&) const = default;
};

/// An error after which a process cannot continue and the job must end.
struct Failure {
  ErrorCode code = ErrorCode::kBug;
  std::string what;  // empty: no failure
  std::string hint, id;
  bool operator==(const Failure&) const = default;
};
/// ps core, worker or input process -> chief, every heartbeat_ns: a sign of life, with figures. The
/// figures are only hints; `failure` ends the job. The chief answers workers and input processes
/// with a Heartbeat that has only the receiver's incarnation.
struct Heartbeat {
  Incarnation incarnation{};
  uint64_t rss_bytes_max = 0;
  uint64_t cpu_ns = 0;        // of the process
  uint64_t rows = 0;          // ps: embedding rows held
  uint64_t table_bytes = 0;   // ps: memory of tables and slots
  uint64_t pulled_bytes = 0;  // worker: payload received; ps: payload sent
  uint64_t pushed_bytes = 0;  // worker: payload sent; ps: received; input: bytes of batches sent
  uint64_t records = 0;       // worker: trained since start
  uint64_t read_bytes = 0;    // worker, input: bytes of input read
  std::vector<OutputMetrics> recent;  // worker: since the last heartbeat, with AUC buckets
  std::vector<uint64_t> staleness;    // ps: parts by staleness since start; last bucket: or more
  uint64_t duplicate_parts = 0, gaps = 0;  // ps: parts already applied, parts too early
  int64_t load_ns =
      0;  // ps, in every fourth heartbeat: length of the period of busy_ns and loads; 0: not set
  uint64_t busy_ns = 0;              // time in that period not spent waiting for a message
  std::vector<PartitionLoad> loads;  // estimates for its partitions that were used, ascending
  WorkTime work;                     // worker
  Failure failure = {};              // ps
  bool operator==(const Heartbeat&) const = default;
};

}  // namespace downpour::wire
