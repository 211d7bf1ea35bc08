// Reactor: the loop of one thread over one transport and the nodes on it. Nodes of one reactor
// exchange messages without a change of threads. A node is only called by its reactor.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shared/env/clock.h"
#include "shared/transport/transport.h"

namespace downpour::transport {

/// The shell of a role, driven by a reactor.
class Node {
 public:
  virtual ~Node() = default;
  /// Returns true for the ports that this node opened.
  virtual bool owns(PortId port) const = 0;
  virtual void on_message(int64_t now_ns, PortId port, PeerId peer, wire::Message&& message) = 0;
  virtual void on_malformed(int64_t now_ns, PortId port, PeerId peer, const Error& error) = 0;
  /// Called on every turn: handles completions of other threads, timers that are due, and messages
  /// that were kept because a peer's queue was full. Returns true if there is more to do at once.
  virtual bool pump(int64_t now_ns) = 0;
  virtual int64_t next_deadline_ns() const = 0;
  virtual bool finished() const = 0;
};

/// Runs nodes until they are finished. Its time is that of the clock, minus every interval of more
/// than 1 s between two readings of the clock: the process was suspended, the machine slept, or a
/// handler took long. Nodes must not count such an interval as silence of a peer.
class Reactor {
 public:
  Reactor(Transport& transport, const Clock& clock) : transport_(transport), clock_(clock) {}
  /// Adds a node, which must outlive run().
  void add(Node& node) { nodes_.push_back(&node); }
  /// Runs turns until every node is finished.
  void run();
  /// Runs one turn: every node does what is due, then the transport waits for messages and delivers
  /// some. Returns false, and does nothing, if every node is finished.
  bool turn();

 private:
  Transport& transport_;
  const Clock& clock_;
  int64_t now_ns();

  std::vector<Node*> nodes_;
  int64_t last_ns_ = 0;     // last reading of the clock
  int64_t skipped_ns_ = 0;  // sum of the periods that do not count
};

}  // namespace downpour::transport
