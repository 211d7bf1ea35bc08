// Reactor: one thread's loop over one transport and the nodes that live on it. Nodes of one reactor
// talk without a thread change; a node is only ever called from here.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shared/env/clock.h"
#include "shared/transport/transport.h"

namespace downpour::transport {

/// A role's shell, driven by a reactor.
class Node {
 public:
  virtual ~Node() = default;
  /// True for the ports this node opened.
  virtual bool owns(PortId port) const = 0;
  virtual void on_message(int64_t now_ns, PortId port, PeerId peer, wire::Message&& message) = 0;
  virtual void on_malformed(int64_t now_ns, PortId port, PeerId peer, const Error& error) = 0;
  /// Called on every turn: completions of other threads, timers, messages kept back by a full peer.
  /// Returns true if there is more to do at once.
  virtual bool pump(int64_t now_ns) = 0;
  virtual int64_t next_deadline_ns() const = 0;
  virtual bool finished() const = 0;
};

/// Its time is the clock's without the stretches in which the thread did not run (the process was
/// stopped, the machine slept, a handler took long): silence that nobody could have broken is
/// nobody's silence.
class Reactor {
 public:
  Reactor(Transport& transport, const Clock& clock) : transport_(transport), clock_(clock) {}
  /// Borrowed; must outlive run().
  void add(Node& node) { nodes_.push_back(&node); }
  /// Turn after turn until every node is finished.
  void run();
  /// Lets every node do what is due, then waits in the transport for messages and delivers some.
  /// False, and nothing done, once every node is finished.
  bool turn();

 private:
  Transport& transport_;
  const Clock& clock_;
  int64_t now_ns();

  std::vector<Node*> nodes_;
  int64_t last_ns_ = 0;     // of the clock
  int64_t skipped_ns_ = 0;  // time in which this thread did not run
};

}  // namespace downpour::transport
