// Input link: how one reading thread of a worker speaks with input processes. Belongs to that
// thread.
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
  /// Connects where it is not connected yet. What can't be sent is lost, as by a network.
  virtual void send(const std::string& endpoint, wire::Message&& message) = 0;
  /// The next message from anyone, waited for at most so long.
  virtual std::optional<wire::Message> receive(int64_t timeout_ns) = 0;
  virtual void close(const std::string& endpoint) = 0;
  /// Closes what is connected to anyone else.
  virtual void keep_only(const std::vector<std::string>& endpoints) = 0;
  virtual int64_t now_ns() const = 0;
  /// A number that no reading of this link has had.
  uint64_t next_shard_read() { return ++last_shard_read_; }

 private:
  uint64_t last_shard_read_ = 0;
};

/// Over a transport of its own. `keyring`: the worker's; null: it has none.
std::unique_ptr<InputLink> make_input_link(std::shared_ptr<transport::Keyring> keyring);
/// Over this transport, with the time of `clock`, which must outlive the link.
std::unique_ptr<InputLink> make_input_link(std::unique_ptr<transport::Transport> transport,
                                           const Clock& clock);

}  // namespace downpour::worker
