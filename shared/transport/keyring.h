// Keyring: the keys of one process: its own key pair, and the list of keys that may connect to it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "shared/transport/keys.h"
#include "shared/wire/peer_identity.h"

namespace downpour::transport {

/// Shared by all transports of a process. All methods may be called from any thread.
class Keyring {
 public:
  /// For tests, and for keys that are not in a folder.
  Keyring(KeyPair own, AllowList allowed);

  /// Opens a key folder or a secret file in one. From a folder it takes NAME-INDEX.key, or else
  /// NAME.key, where NAME is the name of the role. Errors: as in key_folder.h; kConfig if the list
  /// assigns another role to the key.
  static Result<std::shared_ptr<Keyring>> open(const std::string& path, wire::Role role,
                                               uint32_t index);

  const KeyPair& own() const { return own_; }
  // of the own key; empty if it is not from a folder
  const std::string& name() const { return name_; }
  const std::string& folder() const { return folder_; }
  std::shared_ptr<const AllowList> allowed() const;
  /// Returns a number that rises with every change of the list.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// Reads the list again if its file has changed. If the file cannot be read, the list stays.
  void reload();
  void replace(AllowList allowed);

  /// Receives messages for the operator: a refused connection, or a list that cannot be read. Set
  /// it before the first transport uses the keyring. It is called from any thread.
  std::function<void(const std::string& text)> notice;

 private:
  KeyPair own_;
  std::string name_;
  std::string folder_;
  mutable std::mutex mutex_;
  std::shared_ptr<const AllowList> allowed_;
  uint64_t stamp_ = 0;  // of the list's file when it was read
  std::atomic<uint64_t> version_{1};
};

using wire::PeerIdentity;

}  // namespace downpour::transport
