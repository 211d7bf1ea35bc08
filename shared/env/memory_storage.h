// MemoryStorage: files in the memory of this process, for a run that leaves nothing on the disk.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "shared/env/storage.h"

namespace downpour {

/// A Storage whose files end with it. Several threads may use it at the same time.
class MemoryStorage final : public Storage {
 public:
  Result<Bytes> read_file(const std::string& path, uint64_t bytes_max) override;
  Result<Bytes> read_range(const std::string& path, uint64_t offset, uint64_t bytes) override;
  Result<uint64_t> file_bytes(const std::string& path) override;
  Result<bool> exists(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& folder) override;
  Result<std::unique_ptr<OutputFile>> create(const std::string& path) override;
  Result<bool> create_exclusive(const std::string& path, std::span<const uint8_t> bytes) override;
  Result<std::unique_ptr<OutputFile>> open_append(const std::string& path) override;
  Result<void> make_dirs(const std::string& folder) override;
  Result<void> remove(const std::string& path) override;

  /// Returns the paths of all files in a folder and its subfolders, ascending.
  std::vector<std::string> files_below(const std::string& folder) const;

 private:
  class Output;

  Result<Bytes> find(const std::string& path) const;
  void put(const std::string& path, Bytes bytes);

  mutable std::mutex mutex_;
  std::map<std::string, Bytes> files_;
  std::set<std::string> folders_;
};

}  // namespace downpour
