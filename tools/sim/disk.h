// SimDisk and SimStorage: a file system in memory that fails like a real one. Unsynced data may be
// lost partly or completely, writes may be torn, and the disk may be full, slow or fail with EIO.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "shared/base/rng.h"
#include "shared/base/units.h"
#include "shared/env/storage.h"

namespace downpour::sim {

/// The current faults of the disk, for all processes.
struct DiskFaults {
  bool full = false;            // writes fail with ENOSPC
  bool fsync_fails = false;     // fsync fails with EIO, and the data may be lost
  bool late_manifests = false;  // writing a manifest takes one second longer
  bool read_fails = false;      // reads fail with EIO
  bool lying_fsync = false;     // one fsync in four returns before the data are durable
  bool slow_tasks = false;      // a background task takes up to four seconds longer
  bool stale_names = false;     // machines cache folders and absent names for a second, as with NFS
  uint32_t flip_volatile = 0;   // flip a bit in each of the next N files committed without a sync
  uint32_t slow = 1;            // factor on the duration of every operation
};

/// The speed of the disk.
struct DiskSpeed {
  int64_t operation_ns = 20 * kMicrosecond;
  int64_t fsync_ns = kMillisecond;
  double bytes_per_s = 1e9;
};

struct DiskCounts {
  uint64_t writes = 0, fsyncs = 0, lost_writes = 0, torn_writes = 0, flipped_bits = 0;
  uint64_t enospc = 0, eio = 0, lies = 0, stale = 0;
};

/// The disk that all machines of a cluster share. A change of a folder or of a name is durable
/// after the fsync of its parent folder.
class SimDisk {
 public:
  explicit SimDisk(uint64_t seed) : rng_(seed) {}

  DiskFaults faults;
  DiskSpeed speed;
  const DiskCounts& counts() const { return counts_; }

  /// Simulates a power failure. A random subset of the unsynced data survives, and unsynced sectors
  /// may be torn. With `flip`, a bit of a surviving unsynced sector may also flip.
  void lose_power(bool flip);
  /// Flips one bit of a random synced file whose path passes the filter. Returns its path, or an
  /// empty string if there is no such file.
  std::string flip_bit(const std::function<bool(const std::string&)>& filter);
  /// Flips one bit of a file. Returns false if the file does not exist or has no synced bytes.
  bool flip_bit_of(const std::string& path);
  /// Returns the paths of all files in ascending order.
  std::vector<std::string> files() const;
  /// Returns the current time, for the caches of the machines. If empty, machines cache nothing.
  std::function<int64_t()> now_ns;

 private:
  friend class SimStorage;
  friend class SimOutputFile;
  struct Inode {
    std::vector<uint8_t> bytes;
    uint64_t synced_bytes = 0;
  };
  using InodePtr = std::shared_ptr<Inode>;
  /// A change of a name that is not synced yet.
  struct Renaming {
    std::string path;
    InodePtr before, after;  // null: no such name
  };
  /// A machine's cache: contents of folders and absent names, each with the time of the lookup.
  struct Remembered {
    std::map<std::string, std::pair<int64_t, std::vector<std::string>>> folders;
    std::map<std::string, int64_t> absent;
  };
  void put(const std::string& path, InodePtr inode);
  void spoil(Inode& inode);
  void sync_folder(const std::string& folder);
  void lose_folder(const std::string& folder);

  Rng rng_;
  DiskCounts counts_;
  std::map<std::string, InodePtr> names_;
  std::set<std::string> folders_;
  std::vector<Renaming> renamings_;               // in order of the changes
  std::vector<std::string> folders_unsynced_;     // created after the last fsync of their parent
  std::map<std::string, Remembered> remembered_;  // by machine
};

/// The disk as seen by one process.
class SimStorage final : public Storage {
 public:
  /// Processes with the same `machine` share its cache.
  SimStorage(SimDisk& disk, std::string process, std::string machine = {})
      : disk_(disk), process_(std::move(process)), machine_(std::move(machine)) {}

  Result<Bytes> read_file(const std::string& path, uint64_t bytes_max) override;
  Result<Bytes> read_range(const std::string& path, uint64_t offset, uint64_t bytes) override;
  Result<uint64_t> file_bytes(const std::string& path) override;
  Result<bool> exists(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& folder) override;
  void refresh(const std::string& folder) override { forget(folder + "/"); }
  Result<std::unique_ptr<OutputFile>> create(const std::string& path) override;
  Result<bool> create_exclusive(const std::string& path, std::span<const uint8_t> bytes) override;
  Result<std::unique_ptr<OutputFile>> open_append(const std::string& path) override;
  Result<void> make_dirs(const std::string& folder) override;
  Result<void> remove(const std::string& path) override;

  /// Draws the additional duration of a background task.
  int64_t draw_task_delay_ns() {
    return disk_.faults.slow_tasks ? int64_t(disk_.rng_.below(uint64_t(4 * kSecond))) : 0;
  }
  /// Returns the duration of all operations since the last call.
  int64_t take_cost_ns() { return std::exchange(cost_ns_, 0); }
  /// Ends the process just before its `operations`-th change of the disk from now on: calls `die`,
  /// and fails this change and all later ones with EIO. 0 cancels it.
  void die_at(uint64_t operations, std::function<void()> die) {
    left_ = operations;
    die_ = std::move(die);
  }
  /// Called with the bytes of each append to a file of open_append().
  std::function<void(std::span<const uint8_t>)> on_append;

 private:
  friend class SimOutputFile;
  /// Admits a change of the disk that writes `bytes` bytes, or returns its failure. Called before
  /// every change.
  Result<void> change(const char* operation, const std::string& path, uint64_t bytes);
  Result<void> fsync(const char* operation, const std::string& path, SimDisk::Inode* inode);
  Result<SimDisk::InodePtr> find(const std::string& path);
  /// Admits a read of the disk, or returns its failure. Called before every read.
  Result<void> reading(const char* operation, const std::string& path);
  /// Returns the machine's cache; null if it caches nothing.
  SimDisk::Remembered* remembered();
  bool is_remembered(int64_t since_ns) const;
  void forget(const std::string& path);
  void pay(uint64_t bytes);

  SimDisk& disk_;
  std::string process_;
  std::string machine_;
  int64_t cost_ns_ = 0;
  uint64_t left_ = 0;  // changes until the process ends; 0: never
  bool dead_ = false;
  std::function<void()> die_;
  uint64_t temporaries_ = 0;
  std::set<std::string> durable_;  // folders whose names this process has made durable
};

}  // namespace downpour::sim
