// TcpGate: bounds what tcp connections of bound ports cost this process. libzmq itself bounds
// neither an unfinished message nor the number of connections.
//
// libzmq calls accept4, recv and close of the C library. This module defines these three functions
// for the program (tcp_gate_calls.cc), passes every call on to the kernel, and looks at those for
// connections of a listener that add_listener() made known: it counts each byte before libzmq sees
// it, and ends a connection that exceeds a limit (docs/decisions/0024).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "shared/base/units.h"
#include "shared/transport/zmtp_walker.h"

namespace downpour::transport {

/// Of the whole process.
struct GateLimits {
  /// One more is closed at once, unless a connection that may be cut (see unproven_keep_ns,
  /// silent_keep_ns) makes room.
  uint32_t connections_max = 16384;
  /// The same for connections that are not proven: no valid header of a message has come, and no
  /// CURVE handshake has ended.
  uint32_t unproven_max = 512;
  /// Read from unproven connections. Above it those that hold more than the mean are cut.
  uint64_t unproven_bytes_max = 16 * kMiB;
  /// Read from all connections and not delivered. Above it those that hold more than the mean are
  /// cut.
  uint64_t held_bytes_max = 1 * kGiB;
  int64_t unproven_keep_ns = 1 * kSecond;   // an unproven connection is not cut for room before
  int64_t silent_keep_ns = 60 * kSecond;    // a proven one that delivers nothing
  int64_t unproven_idle_ns = 60 * kSecond;  // an unproven connection is cut after
};

/// Limits that fit this process: connections by its descriptor limit minus a reserve for files,
/// bytes by its memory.
GateLimits gate_limits_of_process();
/// Descriptors that connections leave free: a quarter of the limit, 64 to 1024.
uint64_t descriptor_reserve(uint64_t limit);

/// A bound tcp port.
struct GateListener {
  ~GateListener();

  uint32_t frames_max = 3;      // of one message
  uint64_t held_bytes_max = 0;  // read from one connection and not delivered
  // What the port has lost since the last look. Written under the gate's lock.
  struct Losses {
    uint64_t connections = 0;
    std::string last;  // why, and from where
  };
  Losses losses;
  std::atomic<bool> lost{false};
  // Delivered by connections that are closed, and still in libzmq's queue.
  std::atomic<uint64_t> closed_bytes{0};
};

/// An accepted connection.
class GateConnection {
 public:
  GateConnection(int fd, std::shared_ptr<GateListener> listener, int64_t now_ns);

  /// By the receiver: a message of this cost (as ZmtpWalker counts) has left libzmq's queue.
  void delivered(uint64_t cost_bytes);
  /// A valid message came from here.
  void prove(int64_t now_ns);
  bool proven() const { return proven_.load(std::memory_order_relaxed); }

 private:
  friend class TcpGate;
  /// Whether its first frame is a message's header, or the CURVE handshake has ended.
  bool shows_proof();

  const int fd_;
  const std::shared_ptr<GateListener> listener_;
  const int64_t accepted_ns_;
  ZmtpWalker walker_;  // by the I/O thread that reads
  std::atomic<uint64_t> held_bytes_{0};
  std::atomic<uint64_t> unproven_bytes_{0};  // its share of the gate's sum
  std::atomic<int64_t> heard_ns_;            // last valid message
  std::atomic<bool> proven_{false};
  std::atomic<bool> cut_{false};
  bool counted_ = true;  // under the gate's lock
};

class TcpGate {
 public:
  /// The process's. Its calls may come from any thread.
  static TcpGate& instance();

  void set_limits(const GateLimits& limits);
  GateLimits limits();
  /// Counts the connections of this listening socket, until it is closed.
  std::shared_ptr<GateListener> add_listener(int fd, uint32_t frames_max, uint64_t held_bytes_max);
  /// The connection that sent a message of this cost, by its descriptor. Null where another one has
  /// the descriptor by now: it has not sent so much.
  std::shared_ptr<GateConnection> connection(int fd, uint64_t cost_bytes);
  /// The receiver has found the port's queue empty.
  void on_drained(GateListener& listener);
  /// Ends a connection. Nothing happens where it has ended already.
  void cut(GateConnection& connection, const std::string& why);
  /// Cuts unproven connections that are older than unproven_idle_ns. Cheap to call often.
  void sweep(int64_t now_ns);
  /// What the port has lost since the last call.
  std::optional<GateListener::Losses> take_losses(GateListener& listener);

  struct Counts {
    uint32_t connections = 0, unproven = 0;
    uint64_t held_bytes = 0, unproven_bytes = 0;
  };
  Counts counts();

  // ---- for the calls of tcp_gate_calls.cc

  /// A connection was accepted. False: close it.
  bool on_accepted(int listener_fd, int fd);
  /// accept failed for want of a descriptor: refuses one connection, with the spare descriptor.
  void on_no_descriptor(int listener_fd);
  /// Bytes were read. False: report the connection as broken.
  bool on_received(int fd, std::span<const uint8_t> bytes);
  void on_close(int fd);
  /// Whether a descriptor is a listener or a connection here. Needs no instance: close() is called
  /// before main.
  static bool knows(int fd);

 private:
  friend class GateConnection;
  TcpGate();
  std::string why_cut(const GateConnection& connection, int64_t now_ns) const;
  void cut_locked(GateConnection& connection, const std::string& why);
  void uncount_locked(GateConnection& connection);
  /// Cuts what may be cut at the limits. Whether there is room for one more connection now.
  bool make_room_locked(int64_t now_ns);

  std::mutex mutex_;
  GateLimits limits_;
  std::unordered_map<int, std::shared_ptr<GateListener>> listeners_;
  std::unordered_map<int, std::shared_ptr<GateConnection>> connections_;
  uint32_t count_ = 0, unproven_ = 0;  // of connections that are not cut
  int64_t looked_for_room_ns_ = 0;
  int spare_fd_;
  // Read without the lock.
  std::atomic<uint64_t> held_bytes_{0}, unproven_bytes_{0};
  std::atomic<uint64_t> held_bytes_max_, unproven_bytes_max_;
  std::atomic<uint32_t> count_now_{0}, unproven_now_{0};
  std::atomic<int64_t> next_sweep_ns_{0};
};

}  // namespace downpour::transport
