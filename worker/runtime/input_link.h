// InputLink: the connections of one reading thread to input processes. Belongs to that thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/env/clock.h"
#include "shared/transport/keyring.h"
#include "shared/transport/transport.h"
#include "shared/wire/messages.h"

namespace downpour::worker {

class InputLink {
 public:
  virtual ~InputLink() = default;
  /// Sends a message, and connects first if necessary. A message that cannot be sent is lost, as on
  /// a network.
  virtual void send(const std::string& endpoint, wire::Message&& message) = 0;
  /// Returns the next message from any input process. Waits at most `timeout_ns`.
  virtual std::optional<wire::Message> receive(int64_t timeout_ns) = 0;
  virtual void close(const std::string& endpoint) = 0;
  /// Closes all connections except those to `endpoints`.
  virtual void keep_only(const std::vector<std::string>& endpoints) = 0;
  virtual int64_t now_ns() const = 0;
  /// Returns a number that no shard read of this link has had.
  uint64_t next_shard_read() { return ++last_shard_read_; }

 private:
  uint64_t last_shard_read_ = 0;
};

/// Makes a link with a transport of its own. `keyring`: the worker's; null: no keys.
std::unique_ptr<InputLink> make_input_link(std::shared_ptr<transport::Keyring> keyring);
/// Makes a link over this transport. `clock` must outlive the link.
std::unique_ptr<InputLink> make_input_link(std::unique_ptr<transport::Transport> transport,
                                           const Clock& clock);

}  // namespace downpour::worker
