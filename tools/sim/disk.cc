#include "tools/sim/disk.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "shared/env/io_error.h"

namespace downpour::sim {
namespace {

constexpr uint64_t kSectorBytes = 512;
constexpr int64_t kRememberNs = kSecond;

std::string folder_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

// ---- SimDisk

void SimDisk::put(const std::string& path, InodePtr inode) {
  const auto at = names_.find(path);
  renamings_.push_back({path, at == names_.end() ? nullptr : at->second, inode});
  if (inode == nullptr) {
    if (at != names_.end()) names_.erase(at);
  } else {
    names_[path] = std::move(inode);
  }
}

void SimDisk::sync_folder(const std::string& folder) {
  std::erase_if(renamings_, [&](const Renaming& r) { return folder_of(r.path) == folder; });
  std::erase_if(folders_unsynced_,
                [&](const std::string& made) { return folder_of(made) == folder; });
}

/// Removes a folder that was never durable, with all names in it.
void SimDisk::lose_folder(const std::string& folder) {
  const std::string inside = folder + "/";
  std::erase_if(names_, [&](const auto& name) { return name.first.starts_with(inside); });
  std::erase_if(folders_,
                [&](const std::string& f) { return f == folder || f.starts_with(inside); });
}

void SimDisk::lose_power(bool flip) {
  // For each path, the first changes of its name survive, up to a random one.
  std::set<std::string> broken;
  for (const Renaming& change : renamings_) {
    if (broken.contains(change.path)) continue;
    if (rng_.below(2) == 0) continue;
    broken.insert(change.path);
    ++counts_.lost_writes;
    if (change.before == nullptr) {
      names_.erase(change.path);
    } else {
      names_[change.path] = change.before;
    }
  }
  renamings_.clear();
  for (const std::string& folder : folders_unsynced_) {
    if (rng_.below(2) == 0) continue;
    ++counts_.lost_writes;
    lose_folder(folder);
  }
  folders_unsynced_.clear();
  remembered_.clear();
  std::set<Inode*> seen;
  for (auto& [path, inode] : names_) {
    if (!seen.insert(inode.get()).second || inode->synced_bytes >= inode->bytes.size()) continue;
    // Each sector after the synced bytes may be lost, and the file may be shorter.
    const uint64_t unsynced = inode->bytes.size() - inode->synced_bytes;
    const uint64_t kept = rng_.below(unsynced + 1);
    if (kept < unsynced) ++counts_.lost_writes;
    inode->bytes.resize(inode->synced_bytes + kept);
    for (uint64_t at = inode->synced_bytes; at < inode->bytes.size(); at += kSectorBytes) {
      const uint64_t end = std::min<uint64_t>(at + kSectorBytes, inode->bytes.size());
      if (rng_.below(3) == 0) {
        std::fill(inode->bytes.begin() + ptrdiff_t(at), inode->bytes.begin() + ptrdiff_t(end),
                  uint8_t{0});
        ++counts_.torn_writes;
      } else if (flip && rng_.below(8) == 0) {
        inode->bytes[at + rng_.below(end - at)] ^= uint8_t(1U << rng_.below(8));
        ++counts_.flipped_bits;
      }
    }
    inode->synced_bytes = inode->bytes.size();
  }
}

std::string SimDisk::flip_bit(const std::function<bool(const std::string&)>& filter) {
  std::vector<const std::string*> candidates;
  for (const auto& [path, inode] : names_) {
    if (inode->synced_bytes > 0 && filter(path)) candidates.push_back(&path);
  }
  if (candidates.empty()) return {};
  const std::string path = *candidates[rng_.below(candidates.size())];
  flip_bit_of(path);
  return path;
}

bool SimDisk::flip_bit_of(const std::string& path) {
  const auto at = names_.find(path);
  if (at == names_.end() || at->second->synced_bytes == 0) return false;
  // Replace the inode, because readers may still share the old bytes.
  auto inode = std::make_shared<Inode>(*at->second);
  inode->bytes[rng_.below(inode->synced_bytes)] ^= uint8_t(1U << rng_.below(8));
  at->second = std::move(inode);
  ++counts_.flipped_bits;
  return true;
}

void SimDisk::spoil(Inode& inode) {
  if (faults.flip_volatile == 0 || inode.bytes.empty()) return;
  --faults.flip_volatile;
  inode.bytes[rng_.below(inode.bytes.size())] ^= uint8_t(1U << rng_.below(8));
  ++counts_.flipped_bits;
}

std::vector<std::string> SimDisk::files() const {
  std::vector<std::string> out;
  for (const auto& [path, inode] : names_) out.push_back(path);
  return out;
}

// ---- SimStorage

void SimStorage::pay(uint64_t bytes) {
  cost_ns_ += (disk_.speed.operation_ns + int64_t(double(bytes) / disk_.speed.bytes_per_s * 1e9)) *
              disk_.faults.slow;
}

Result<void> SimStorage::change(const char* operation, const std::string& path, uint64_t bytes) {
  if (!dead_ && left_ > 0 && --left_ == 0) {
    dead_ = true;
    if (die_) die_();
  }
  if (dead_) return io_error(operation, path, EIO, Intent::kCreate);
  pay(bytes);
  ++disk_.counts_.writes;
  if (bytes > 0 && disk_.faults.full) {
    ++disk_.counts_.enospc;
    return io_error(operation, path, ENOSPC, Intent::kCreate);
  }
  return {};
}

Result<void> SimStorage::fsync(const char* operation, const std::string& path,
                               SimDisk::Inode* inode) {
  DP_TRY_VOID(change(operation, path, 0));
  cost_ns_ += disk_.speed.fsync_ns * disk_.faults.slow;
  ++disk_.counts_.fsyncs;
  if (disk_.faults.fsync_fails) {
    ++disk_.counts_.eio;
    return io_error(operation, path, EIO, Intent::kCreate);  // the bytes stay unsynced
  }
  if (disk_.faults.lying_fsync && disk_.rng_.below(4) == 0) {
    ++disk_.counts_.lies;
    return {};
  }
  if (inode != nullptr) {
    inode->synced_bytes = inode->bytes.size();
  } else {
    disk_.sync_folder(path);
  }
  return {};
}

Result<void> SimStorage::reading(const char* operation, const std::string& path) {
  pay(0);
  if (!disk_.faults.read_fails) return {};
  ++disk_.counts_.eio;
  return io_error(operation, path, EIO, Intent::kRead);
}

SimDisk::Remembered* SimStorage::remembered() {
  const bool remembers = disk_.faults.stale_names && disk_.now_ns && !machine_.empty();
  return remembers ? &disk_.remembered_[machine_] : nullptr;
}

bool SimStorage::is_remembered(int64_t since_ns) const {
  return disk_.now_ns() - since_ns < kRememberNs;
}

/// Removes the name from the machine's cache, because a process of this machine has changed it.
void SimStorage::forget(const std::string& path) {
  SimDisk::Remembered* const known = remembered();
  if (known == nullptr) return;
  known->folders.erase(folder_of(path));
  known->absent.erase(path);
  if (!path.ends_with('/')) return;
  std::erase_if(known->absent, [&](const auto& name) { return name.first.starts_with(path); });
}

Result<SimDisk::InodePtr> SimStorage::find(const std::string& path) {
  DP_TRY_VOID(reading("open", path));
  SimDisk::Remembered* const known = remembered();
  if (known != nullptr) {
    const auto absent = known->absent.find(path);
    if (absent != known->absent.end() && is_remembered(absent->second)) {
      disk_.counts_.stale += disk_.names_.contains(path) ? 1 : 0;
      return io_error("open", path, ENOENT, Intent::kRead);
    }
  }
  const auto at = disk_.names_.find(path);
  if (at != disk_.names_.end()) return at->second;
  if (known != nullptr) known->absent[path] = disk_.now_ns();
  return io_error("open", path, ENOENT, Intent::kRead);
}

class SimOutputFile final : public OutputFile {
 public:
  SimOutputFile(SimStorage& storage, SimDisk::InodePtr inode, std::string path,
                std::string temporary)
      : storage_(storage),
        inode_(std::move(inode)),
        path_(std::move(path)),
        temporary_(std::move(temporary)) {}
  ~SimOutputFile() override {
    if (!temporary_.empty() && storage_.change("remove", temporary_, 0))
      storage_.disk_.put(temporary_, nullptr);
  }
  Result<void> append(std::span<const uint8_t> bytes) override {
    DP_TRY_VOID(usable());
    if (auto written = storage_.change("write", path_, bytes.size()); !written) {
      failed_ = true;
      return written;
    }
    inode_->bytes.insert(inode_->bytes.end(), bytes.begin(), bytes.end());
    if (temporary_.empty() && storage_.on_append) storage_.on_append(bytes);
    return {};
  }
  Result<void> commit() override {
    DP_TRY_VOID(sync());
    if (temporary_.empty()) return {};
    failed_ = true;  // rejects further appends
    DP_TRY_VOID(storage_.change("rename", path_, 0));
    storage_.disk_.put(temporary_, nullptr);
    storage_.disk_.put(path_, inode_);
    storage_.forget(path_);
    temporary_.clear();
    return storage_.fsync("fsync", folder_of(path_), nullptr);
  }
  Result<void> commit_volatile() override {
    DP_TRY_VOID(usable());
    failed_ = true;
    DP_TRY_VOID(storage_.change("rename", path_, 0));
    storage_.disk_.put(temporary_, nullptr);
    storage_.disk_.put(path_, inode_);
    storage_.forget(path_);
    temporary_.clear();
    storage_.disk_.spoil(*inode_);
    return {};
  }
  Result<bool> commit_exclusive() {
    DP_TRY_VOID(sync());
    failed_ = true;
    DP_TRY_VOID(storage_.change("link", path_, 0));
    if (storage_.disk_.names_.contains(path_)) return false;
    storage_.disk_.put(path_, inode_);
    storage_.forget(path_);
    DP_TRY_VOID(storage_.fsync("fsync", folder_of(path_), nullptr));
    return true;
  }

 private:
  Result<void> usable() const {
    if (!failed_) return {};
    return Error{ErrorCode::kIo, "the file is closed, or an earlier write to it failed", path_};
  }
  Result<void> sync() {
    DP_TRY_VOID(usable());
    auto synced = storage_.fsync("fsync", path_, inode_.get());
    failed_ = failed_ || !synced;
    return synced;
  }

  SimStorage& storage_;
  SimDisk::InodePtr inode_;
  std::string path_;
  std::string temporary_;
  bool failed_ = false;
};

Result<Bytes> SimStorage::read_file(const std::string& path, uint64_t bytes_max) {
  DP_TRY(const SimDisk::InodePtr inode, find(path));
  if (inode->bytes.size() > bytes_max) {
    return Error{ErrorCode::kBadData,
                 str(inode->bytes.size(), " bytes is more than the ", bytes_max, " allowed"), path};
  }
  pay(inode->bytes.size());
  return Bytes::copy_of(inode->bytes.data(), inode->bytes.size());
}

Result<Bytes> SimStorage::read_range(const std::string& path, uint64_t offset, uint64_t bytes) {
  DP_TRY(const SimDisk::InodePtr inode, find(path));
  const uint64_t size = inode->bytes.size();
  if (offset > size || bytes > size - offset) {
    return Error{ErrorCode::kBadData,
                 str("the file ends at byte ", size, ", but the reader needs ", bytes,
                     " bytes from byte ", offset),
                 path};
  }
  pay(bytes);
  return Bytes::copy_of(inode->bytes.data() + offset, bytes);
}

Result<uint64_t> SimStorage::file_bytes(const std::string& path) {
  DP_TRY(const SimDisk::InodePtr inode, find(path));
  return uint64_t(inode->bytes.size());
}

Result<bool> SimStorage::exists(const std::string& path) {
  if (disk_.folders_.contains(path)) return true;
  const auto found = find(path);
  if (!found && found.error().code != ErrorCode::kNoInput) return found.error();
  return found.has_value();
}

Result<std::vector<std::string>> SimStorage::list(const std::string& folder) {
  DP_TRY_VOID(reading("open folder", folder));
  SimDisk::Remembered* const known = remembered();
  if (known != nullptr) {
    const auto at = known->folders.find(folder);
    if (at != known->folders.end() && is_remembered(at->second.first)) {
      ++disk_.counts_.stale;
      return at->second.second;
    }
  }
  if (!disk_.folders_.contains(folder))
    return io_error("open folder", folder, ENOENT, Intent::kRead);
  std::set<std::string> names;
  for (auto at = disk_.names_.lower_bound(folder + "/");
       at != disk_.names_.end() && at->first.starts_with(folder + "/"); ++at) {
    if (folder_of(at->first) == folder) names.insert(name_of(at->first));
  }
  for (auto at = disk_.folders_.lower_bound(folder + "/");
       at != disk_.folders_.end() && at->starts_with(folder + "/"); ++at) {
    if (folder_of(*at) == folder) names.insert(name_of(*at));
  }
  std::vector<std::string> all(names.begin(), names.end());
  if (known != nullptr) known->folders[folder] = {disk_.now_ns(), all};
  return all;
}

Result<std::unique_ptr<OutputFile>> SimStorage::create(const std::string& path) {
  DP_TRY_VOID(change("open", path, 0));
  if (!disk_.folders_.contains(folder_of(path))) {
    return Error{ErrorCode::kCannotCreate, "create failed: no such folder", path};
  }
  std::string temporary =
      str(folder_of(path), "/.", name_of(path), ".tmp-", process_, "-", ++temporaries_);
  auto inode = std::make_shared<SimDisk::Inode>();
  disk_.put(temporary, inode);
  return std::unique_ptr<OutputFile>(
      new SimOutputFile(*this, std::move(inode), path, std::move(temporary)));
}

Result<bool> SimStorage::create_exclusive(const std::string& path, std::span<const uint8_t> bytes) {
  if (disk_.names_.contains(path)) return false;
  if (disk_.faults.late_manifests && path.find("/manifest-") != std::string::npos)
    cost_ns_ += kSecond;
  DP_TRY(const std::unique_ptr<OutputFile> file, create(path));
  DP_TRY_VOID(file->append(bytes));
  return static_cast<SimOutputFile&>(*file).commit_exclusive();
}

Result<std::unique_ptr<OutputFile>> SimStorage::open_append(const std::string& path) {
  DP_TRY_VOID(change("open", path, 0));
  auto at = disk_.names_.find(path);
  const bool existed = at != disk_.names_.end();
  auto inode = existed ? at->second : std::make_shared<SimDisk::Inode>();
  if (!existed) {
    disk_.put(path, inode);
    forget(path);
    DP_TRY_VOID(fsync("fsync", folder_of(path), nullptr));
  }
  if (!inode->bytes.empty() && inode->bytes.back() != '\n') inode->bytes.push_back('\n');
  return std::unique_ptr<OutputFile>(new SimOutputFile(*this, std::move(inode), path, {}));
}

Result<void> SimStorage::make_dirs(const std::string& folder) {
  if (durable_.contains(folder)) return {};
  const std::string parent = folder_of(folder);
  if (folder == "/") {
    disk_.folders_.insert(folder);
    return {};
  }
  DP_TRY_VOID(make_dirs(parent));
  if (!disk_.folders_.contains(folder)) {
    DP_TRY_VOID(change("mkdir", folder, 0));
    disk_.folders_.insert(folder);
    disk_.folders_unsynced_.push_back(folder);
    forget(folder);
  }
  DP_TRY_VOID(fsync("fsync", parent, nullptr));
  durable_.insert(folder);
  return {};
}

Result<void> SimStorage::remove(const std::string& path) {
  DP_TRY_VOID(change("remove", path, 0));
  if (disk_.names_.contains(path)) {
    disk_.put(path, nullptr);
    forget(path);
  } else if (disk_.folders_.contains(path)) {
    DP_TRY(const std::vector<std::string> names, list(path));
    if (!names.empty()) return io_error("remove", path, ENOTEMPTY, Intent::kRead);
    disk_.folders_.erase(path);
    durable_.erase(path);
    forget(path);
  }
  return {};
}

}  // namespace downpour::sim
