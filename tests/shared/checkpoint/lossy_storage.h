// A disk in memory that tracks what survives a power cut: contents that were fsynced, and names
// whose folder was. Every change of the disk has an ordinal. From a chosen ordinal on, the machine
// is dead.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/rng.h"
#include "shared/env/storage.h"

namespace downpour::checkpoint {

/// What survives of the changes that were not made durable.
enum class Survivors { kNothing, kEverything, kSome };

class LossyStorage final : public Storage {
 public:
  /// Drops the change with this ordinal (from 1) and all later ones. 0: never.
  void die_at(uint64_t ordinal) { die_at_ = ordinal; }
  uint64_t changes() const { return changes_; }
  /// Returns a description of each change, such as "fsync /run/x".
  const std::vector<std::string>& log() const { return log_; }

  /// Returns the disk after the power cut. kSome: each name and each file's tail survives by
  /// chance. A surviving tail may be torn, with zeros in some places.
  LossyStorage after_power_cut(Survivors survivors, uint64_t seed) const {
    Rng rng(seed);
    LossyStorage disk;
    disk.folders_ = folders_;
    std::map<const Inode*, std::shared_ptr<Inode>> copies;
    const auto copy = [&](const std::shared_ptr<Inode>& inode) {
      std::shared_ptr<Inode>& one = copies[inode.get()];
      if (one) return one;
      one = std::make_shared<Inode>();
      one->content = inode->durable;
      const bool keep = survivors == Survivors::kEverything ||
                        (survivors == Survivors::kSome && rng.below(2) == 0);
      if (keep) {
        one->content = inode->content;
        const size_t tail = one->content.size() - inode->durable.size();
        if (survivors == Survivors::kSome && tail > 0 && rng.below(2) == 0) {
          const size_t from = inode->durable.size() + rng.below(tail);
          std::fill(one->content.begin() + std::ptrdiff_t(from), one->content.end(), 0);
        }
      }
      one->durable = one->content;
      return one;
    };
    std::map<std::string, int> all;
    for (const auto& [name, inode] : names_) all[name];
    for (const auto& [name, inode] : durable_names_) all[name];
    for (const auto& [name, unused] : all) {
      const bool newest = survivors == Survivors::kEverything ||
                          (survivors == Survivors::kSome && rng.below(2) == 0);
      const auto& from = newest ? names_ : durable_names_;
      if (const auto found = from.find(name); found != from.end()) {
        disk.names_[name] = disk.durable_names_[name] = copy(found->second);
      }
    }
    return disk;
  }

  Result<Bytes> read_file(const std::string& path, uint64_t bytes_max) override {
    const auto found = names_.find(path);
    if (found == names_.end()) return missing(path);
    if (found->second->content.size() > bytes_max) return Error{ErrorCode::kBadData, "large", path};
    return Bytes::of(found->second->content);
  }
  Result<Bytes> read_range(const std::string& path, uint64_t offset, uint64_t bytes) override {
    const auto found = names_.find(path);
    if (found == names_.end()) return missing(path);
    const std::vector<uint8_t>& content = found->second->content;
    if (offset + bytes > content.size()) return Error{ErrorCode::kBadData, "short", path};
    return Bytes::copy_of(content.data() + offset, bytes);
  }
  Result<uint64_t> file_bytes(const std::string& path) override {
    const auto found = names_.find(path);
    if (found == names_.end()) return missing(path);
    return uint64_t(found->second->content.size());
  }
  Result<bool> exists(const std::string& path) override {
    return names_.contains(path) || folders_.contains(path);
  }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    if (!folders_.contains(folder)) return missing(folder);
    std::vector<std::string> found;
    const auto collect = [&](const std::string& path) {
      if (folder_of(path) == folder) found.push_back(path.substr(folder.size() + 1));
    };
    for (const auto& [path, inode] : names_) collect(path);
    for (const auto& [path, unused] : folders_) collect(path);
    std::sort(found.begin(), found.end());
    return found;
  }

  Result<std::unique_ptr<OutputFile>> create(const std::string& path) override {
    const std::string temporary =
        str(folder_of(path), "/.", path.substr(path.rfind('/') + 1), ".tmp-1-", ++temporaries_);
    DP_TRY_VOID(change("create", temporary));
    names_[temporary] = std::make_shared<Inode>();
    return std::unique_ptr<OutputFile>(new File(*this, path, temporary));
  }
  Result<bool> create_exclusive(const std::string& path, std::span<const uint8_t> bytes) override {
    if (names_.contains(path)) return false;
    DP_TRY(const std::unique_ptr<OutputFile> file, create(path));
    DP_TRY_VOID(file->append(bytes));
    DP_TRY_VOID(file->commit());
    return true;
  }
  Result<std::unique_ptr<OutputFile>> open_append(const std::string& path) override {
    return Error{ErrorCode::kUnsupported, "no logs here", path};
  }
  Result<void> make_dirs(const std::string& folder) override {
    if (folders_.contains(folder)) return {};
    if (const std::string parent = folder_of(folder); !parent.empty()) {
      DP_TRY_VOID(make_dirs(parent));
    }
    DP_TRY_VOID(change("mkdir", folder));
    folders_[folder] = true;  // durable at once, because only files are tested
    return {};
  }
  Result<void> remove(const std::string& path) override {
    if (!names_.contains(path) && !folders_.contains(path)) return {};
    DP_TRY_VOID(change("remove", path));
    names_.erase(path);
    folders_.erase(path);
    return {};
  }

 private:
  struct Inode {
    std::vector<uint8_t> content, durable;
  };
  class File final : public OutputFile {
   public:
    File(LossyStorage& disk, std::string path, std::string temporary)
        : disk_(disk), path_(std::move(path)), temporary_(std::move(temporary)) {}
    ~File() override {
      if (!done_) (void)disk_.remove(temporary_);
    }
    Result<void> append(std::span<const uint8_t> bytes) override {
      DP_TRY_VOID(disk_.change("write", temporary_));
      std::vector<uint8_t>& content = disk_.names_.at(temporary_)->content;
      content.insert(content.end(), bytes.begin(), bytes.end());
      return {};
    }
    Result<void> commit() override {
      DP_TRY_VOID(disk_.change("fsync", temporary_));
      const std::shared_ptr<Inode> inode = disk_.names_.at(temporary_);
      inode->durable = inode->content;
      DP_TRY_VOID(disk_.change("rename", path_));
      disk_.names_.erase(temporary_);
      disk_.names_[path_] = inode;
      done_ = true;
      DP_TRY_VOID(disk_.change("fsync folder", folder_of(path_)));
      disk_.sync_names(folder_of(path_));
      return {};
    }

   private:
    LossyStorage& disk_;
    std::string path_, temporary_;
    bool done_ = false;
  };

  static Error missing(const std::string& path) {
    return Error{ErrorCode::kNoInput, "not there", path};
  }
  static std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
  Result<void> change(const std::string& what, const std::string& path) {
    ++changes_;
    log_.push_back(what + " " + path);
    if (die_at_ > 0 && changes_ >= die_at_) return Error{ErrorCode::kIo, "the power is out", path};
    return {};
  }
  void sync_names(const std::string& folder) {
    const auto of_folder = [&](const auto& entry) { return folder_of(entry.first) == folder; };
    std::erase_if(durable_names_, of_folder);
    for (const auto& entry : names_) {
      if (of_folder(entry)) durable_names_.insert(entry);
    }
  }

  std::map<std::string, std::shared_ptr<Inode>> names_, durable_names_;
  std::map<std::string, bool> folders_;
  uint64_t die_at_ = 0, changes_ = 0, temporaries_ = 0;
  std::vector<std::string> log_;
};

}  // namespace downpour::checkpoint
