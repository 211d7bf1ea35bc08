// A file system in memory that fails as real ones do: what was not synced may be lost, in part or
// in whole, writes may be torn, the disk may be full, slow or answer EIO.
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

/// What the disk does to everybody who uses it now.
struct DiskFaults {
  bool full = false;            // writes answer ENOSPC
  bool fsync_fails = false;     // fsync answers EIO, and what it was asked to keep may be lost
  bool late_manifests = false;  // a manifest takes a second
  bool read_fails = false;      // reads answer EIO
  bool lying_fsync = false;     // one fsync in four answers before anything is durable
  bool slow_tasks = false;      // a background task takes up to four seconds longer
  bool stale_names = false;    // machines keep what they know of a folder for a second, as over NFS
  uint32_t flip_volatile = 0;  // of so many of the next files that nobody syncs a bit flips
  uint32_t slow = 1;           // everything takes this many times as long
};

/// How fast it is.
struct DiskSpeed {
  int64_t operation_ns = 20 * kMicrosecond;
  int64_t fsync_ns = kMillisecond;
  double bytes_per_s = 1e9;
};

struct DiskCounts {
  uint64_t writes = 0, fsyncs = 0, lost_writes = 0, torn_writes = 0, flipped_bits = 0;
  uint64_t enospc = 0, eio = 0, lies = 0, stale = 0;
};

/// The disk that all nodes of a cluster share. Folders and names are as durable as their last
/// fsync.
class SimDisk {
 public:
  explicit SimDisk(uint64_t seed) : rng_(seed) {}

  DiskFaults faults;
  DiskSpeed speed;
  const DiskCounts& counts() const { return counts_; }

  /// The machine stops: an arbitrary subset of what was not synced survives, sectors may be torn,
  /// with `flip` a bit of an unsynced sector that survives may be another one.
  void lose_power(bool flip);
  /// Flips one bit of one synced file whose path passes the filter; returns its path, empty where
  /// there is none.
  std::string flip_bit(const std::function<bool(const std::string&)>& filter);
  /// Flips one bit of one file; false if it is absent or empty.
  bool flip_bit_of(const std::string& path);
  /// Paths of all files, ascending.
  std::vector<std::string> files() const;
  /// Tells the time, for what machines remember. Empty: they remember nothing.
  std::function<int64_t()> now_ns;

 private:
  friend class SimStorage;
  friend class SimOutputFile;
  struct Inode {
    std::vector<uint8_t> bytes;
    uint64_t synced_bytes = 0;
  };
  using InodePtr = std::shared_ptr<Inode>;
  /// A name that changed and was not synced: what it named before.
  struct Renaming {
    std::string path;
    InodePtr before, after;  // null: no such name
  };
  /// What a machine remembers of folders and of names that were absent, and since when.
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
  std::vector<Renaming> renamings_;               // in order
  std::vector<std::string> folders_unsynced_;     // made, and their parents not synced since
  std::map<std::string, Remembered> remembered_;  // by machine
};

/// The disk as one process uses it.
class SimStorage final : public Storage {
 public:
  /// Processes of one machine share what it remembers.
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

  /// By how much a background task takes longer than its operations.
  int64_t draw_task_delay_ns() {
    return disk_.faults.slow_tasks ? int64_t(disk_.rng_.below(uint64_t(4 * kSecond))) : 0;
  }
  /// What the operations since the last call took.
  int64_t take_cost_ns() { return std::exchange(cost_ns_, 0); }
  /// The process ends at its `operations`-th change of the disk from now on, before it is done;
  /// then `die` is called.
  void die_at(uint64_t operations, std::function<void()> die) {
    left_ = operations;
    die_ = std::move(die);
  }
  /// Called with each line's bytes that is appended to a file of open_append().
  std::function<void(std::span<const uint8_t>)> on_append;

 private:
  friend class SimOutputFile;
  /// Every change of the disk asks first. `bytes` are to be written.
  Result<void> change(const char* operation, const std::string& path, uint64_t bytes);
  Result<void> fsync(const char* operation, const std::string& path, SimDisk::Inode* inode);
  Result<SimDisk::InodePtr> find(const std::string& path);
  /// Every read of the disk asks first.
  Result<void> reading(const char* operation, const std::string& path);
  /// What the machine remembers; null where it remembers nothing.
  SimDisk::Remembered* remembered();
  bool is_remembered(int64_t since_ns) const;
  void forget(const std::string& path);
  void pay(uint64_t bytes);

  SimDisk& disk_;
  std::string process_;
  std::string machine_;
  int64_t cost_ns_ = 0;
  uint64_t left_ = 0;  // 0: no end planned
  bool dead_ = false;
  std::function<void()> die_;
  uint64_t temporaries_ = 0;
};

}  // namespace downpour::sim
