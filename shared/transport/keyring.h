// Keyring: the keys of one process. Its own pair, and the list of the keys that may connect to it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "shared/transport/keys.h"
#include "shared/wire/peer_identity.h"

namespace downpour::transport {

/// Shared by all transports of a process; all calls are safe from any thread.
class Keyring {
 public:
  /// For tests, and for keys that lie in no folder.
  Keyring(KeyPair own, AllowList allowed);

  /// Opens `path`: a key folder, of which it takes NAME-INDEX.key or else NAME.key where NAME is
  /// the role's; or one secret file of a key folder. Errors: as key_folder.h; kConfig where the
  /// list gives the key another role.
  static Result<std::shared_ptr<Keyring>> open(const std::string& path, wire::Role role,
                                               uint32_t index);

  const KeyPair& own() const { return own_; }
  const std::string& name() const { return name_; }  // of the own key; empty: not from a folder
  const std::string& folder() const { return folder_; }
  std::shared_ptr<const AllowList> allowed() const;
  /// Rises whenever the list changes.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// Reads the list again if its file has changed. A list that can't be read changes nothing.
  void reload();
  void replace(AllowList allowed);

  /// Receives what an operator should read: a refused connection, a list that can't be read. Set it
  /// before the first transport uses the keyring; called on any thread.
  std::function<void(const std::string& text)> notice;

 private:
  KeyPair own_;
  std::string name_;
  std::string folder_;
  mutable std::mutex mutex_;
  std::shared_ptr<const AllowList> allowed_;
  uint64_t stamp_ = 0;  // of the list's file, when it was read
  std::atomic<uint64_t> version_{1};
};

using wire::PeerIdentity;

}  // namespace downpour::transport
