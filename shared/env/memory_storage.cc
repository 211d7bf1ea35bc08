#include "shared/env/memory_storage.h"

#include <utility>

namespace downpour {

/// Collects the bytes of a file. It gets its name in commit().
class MemoryStorage::Output final : public OutputFile {
 public:
  Output(MemoryStorage& storage, std::string path, std::vector<uint8_t> bytes, bool appends)
      : storage_(storage), path_(std::move(path)), bytes_(std::move(bytes)), appends_(appends) {}
  Result<void> append(std::span<const uint8_t> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  Result<void> commit() override {
    if (appends_) {
      storage_.put(path_, Bytes::copy_of(bytes_.data(), bytes_.size()));
    } else {
      storage_.put(path_, Bytes::of(std::move(bytes_)));
    }
    return {};
  }

 private:
  MemoryStorage& storage_;
  std::string path_;
  std::vector<uint8_t> bytes_;
  bool appends_;
};

Result<Bytes> MemoryStorage::find(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(path);
  if (found != files_.end()) return found->second;
  return Error{ErrorCode::kNoInput, "the file does not exist", path};
}

void MemoryStorage::put(const std::string& path, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  files_[path] = std::move(bytes);
}

Result<Bytes> MemoryStorage::read_file(const std::string& path, uint64_t bytes_max) {
  DP_TRY(Bytes bytes, find(path));
  if (bytes.size() <= bytes_max) return bytes;
  return Error{ErrorCode::kBadData,
               str(bytes.size(), " bytes is more than the ", bytes_max, " allowed"), path};
}

Result<Bytes> MemoryStorage::read_range(const std::string& path, uint64_t offset, uint64_t bytes) {
  DP_TRY(const Bytes all, find(path));
  if (offset <= all.size() && bytes <= all.size() - offset) return all.slice(offset, bytes);
  return Error{ErrorCode::kBadData,
               str("the file ends at byte ", all.size(), ", but the reader needs ", bytes,
                   " bytes from byte ", offset),
               path};
}

Result<uint64_t> MemoryStorage::file_bytes(const std::string& path) {
  DP_TRY(const Bytes bytes, find(path));
  return uint64_t{bytes.size()};
}

Result<bool> MemoryStorage::exists(const std::string& path) {
  const std::lock_guard lock(mutex_);
  return files_.contains(path) || folders_.contains(path);
}

Result<std::vector<std::string>> MemoryStorage::list(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  if (!folders_.contains(folder))
    return Error{ErrorCode::kNoInput, "the folder does not exist", folder};
  std::set<std::string> names;
  const std::string prefix = folder + "/";
  const auto add = [&](const std::string& path) {
    if (path.starts_with(prefix))
      names.insert(path.substr(prefix.size(), path.find('/', prefix.size()) - prefix.size()));
  };
  for (const auto& [path, bytes] : files_) add(path);
  for (const std::string& path : folders_) add(path);
  return std::vector<std::string>(names.begin(), names.end());
}

Result<std::unique_ptr<OutputFile>> MemoryStorage::create(const std::string& path) {
  return std::unique_ptr<OutputFile>(
      std::make_unique<Output>(*this, path, std::vector<uint8_t>(), /*appends=*/false));
}

Result<bool> MemoryStorage::create_exclusive(const std::string& path,
                                             std::span<const uint8_t> bytes) {
  const std::lock_guard lock(mutex_);
  return files_.try_emplace(path, Bytes::copy_of(bytes.data(), bytes.size())).second;
}

Result<std::unique_ptr<OutputFile>> MemoryStorage::open_append(const std::string& path) {
  const Result<Bytes> before = find(path);
  std::vector<uint8_t> bytes;
  if (before) bytes.assign(before->data(), before->data() + before->size());
  return std::unique_ptr<OutputFile>(
      std::make_unique<Output>(*this, path, std::move(bytes), /*appends=*/true));
}

Result<void> MemoryStorage::make_dirs(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  for (size_t end = folder.find('/', 1); end != std::string::npos; end = folder.find('/', end + 1))
    folders_.insert(folder.substr(0, end));
  folders_.insert(folder);
  return {};
}

Result<void> MemoryStorage::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  files_.erase(path);
  folders_.erase(path);
  return {};
}

std::vector<std::string> MemoryStorage::files_below(const std::string& folder) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [path, bytes] : files_)
    if (path.starts_with(folder + "/")) paths.push_back(path);
  return paths;
}

}  // namespace downpour
