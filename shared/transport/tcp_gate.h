// TcpGate: limits what tcp connections of bound ports cost this process. libzmq itself limits
// neither an unfinished message nor the number of connections.
//
// libzmq calls accept4, recv and close of the C library. This module defines these functions for
// the whole program (tcp_gate_calls.cc) and passes every call to the kernel. It inspects calls for
// connections of the listeners known from add_listener(). It counts each byte before libzmq gets
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

/// Limits of the whole process.
struct GateLimits {
  /// Maximum number of connections. A further one is closed at once, unless a connection may be cut
  /// to make room (see unproven_keep_ns, silent_keep_ns).
  uint32_t connections_max = 16384;
  /// Maximum number of unproven connections. A connection is proven after a valid header of a
  /// message or the end of a CURVE handshake.
  uint32_t unproven_max = 512;
  /// Bytes read from all unproven connections. Above the limit, those that hold more than the mean
  /// are cut.
  uint64_t unproven_bytes_max = 16 * kMiB;
  /// Bytes read from all connections and not yet delivered. Above the limit, those that hold more
  /// than the mean are cut.
  uint64_t held_bytes_max = 1 * kGiB;
  // minimum age at which an unproven connection may be cut to make room
  int64_t unproven_keep_ns = 1 * kSecond;
  // silence after which a proven connection may be cut to make room
  int64_t silent_keep_ns = 60 * kSecond;
  // age at which an unproven connection is cut in any case
  int64_t unproven_idle_ns = 60 * kSecond;
};

/// Returns limits that fit this process: connections from its descriptor limit minus a reserve for
/// files, bytes from its memory.
GateLimits gate_limits_of_process();
/// Returns the number of descriptors reserved for other uses: a quarter of the limit, within 64 to
/// 1024.
uint64_t descriptor_reserve(uint64_t limit);

/// A bound tcp port.
struct GateListener {
  ~GateListener();

  uint32_t frames_max = 3;      // of one message
  uint64_t held_bytes_max = 0;  // read from one connection and not delivered
  // Connections that the port lost since the last report. Written under the gate's lock.
  struct Losses {
    uint64_t connections = 0;
    std::string last;  // reason and peer of the last one
  };
  Losses losses;
  std::atomic<bool> lost{false};
  // Bytes of closed connections that are still in libzmq's queue.
  std::atomic<uint64_t> closed_bytes{0};
};

/// An accepted connection.
class GateConnection {
 public:
  GateConnection(int fd, std::shared_ptr<GateListener> listener, int64_t now_ns);

  /// Reports that the receiver took a message of this cost (as in ZmtpWalker) from libzmq's queue.
  void delivered(uint64_t cost_bytes);
  /// Reports that a valid message arrived.
  void prove(int64_t now_ns);
  bool proven() const { return proven_.load(std::memory_order_relaxed); }

 private:
  friend class TcpGate;
  /// Returns true if its first frame is a valid header, or if the CURVE handshake has ended.
  bool shows_proof();

  const int fd_;
  const std::shared_ptr<GateListener> listener_;
  const int64_t accepted_ns_;
  ZmtpWalker walker_;  // used by the I/O thread that reads
  std::atomic<uint64_t> held_bytes_{0};
  std::atomic<uint64_t> unproven_bytes_{0};  // its share of the gate's sum
  std::atomic<int64_t> heard_ns_;            // time of the last valid message
  std::atomic<bool> proven_{false};
  std::atomic<bool> cut_{false};
  bool counted_ = true;  // included in the gate's counts; under the gate's lock
};

/// Applies the limits. There is one instance, which any thread may call.
class TcpGate {
 public:
  /// Returns the instance of this process.
  static TcpGate& instance();

  void set_limits(const GateLimits& limits);
  GateLimits limits();
  /// Counts the connections of this listening socket until the socket is closed.
  std::shared_ptr<GateListener> add_listener(int fd, uint32_t frames_max, uint64_t held_bytes_max);
  /// Returns the connection with this descriptor, which sent a message of this cost. Returns null
  /// if it holds fewer bytes: then it is a newer connection with the same descriptor.
  std::shared_ptr<GateConnection> connection(int fd, uint64_t cost_bytes);
  /// Reports that the receiver found the queue of the port empty.
  void on_drained(GateListener& listener);
  /// Ends a connection. Does nothing if it has ended already.
  void cut(GateConnection& connection, const std::string& why);
  /// Cuts unproven connections that are older than unproven_idle_ns. Most calls cost almost
  /// nothing.
  void sweep(int64_t now_ns);
  /// Returns the losses of the port since the last call.
  std::optional<GateListener::Losses> take_losses(GateListener& listener);

  struct Counts {
    uint32_t connections = 0, unproven = 0;
    uint64_t held_bytes = 0, unproven_bytes = 0;
  };
  Counts counts();

  // ---- called by tcp_gate_calls.cc

  /// Registers an accepted connection. False: the caller must close it.
  bool on_accepted(int listener_fd, int fd);
  /// Handles a failed accept without a free descriptor: uses the spare descriptor to refuse one
  /// connection.
  void on_no_descriptor(int listener_fd);
  /// Counts received bytes. False: the caller must report the connection as broken.
  bool on_received(int fd, std::span<const uint8_t> bytes);
  void on_close(int fd);
  /// Returns true if a descriptor is a known listener or connection. Needs no instance, because
  /// close() is called before main.
  static bool knows(int fd);

 private:
  friend class GateConnection;
  TcpGate();
  std::string why_cut(const GateConnection& connection, int64_t now_ns) const;
  void cut_locked(GateConnection& connection, const std::string& why);
  void uncount_locked(GateConnection& connection);
  /// Cuts connections that may be cut to make room. Returns true if there is room for one more now.
  bool make_room_locked(int64_t now_ns);

  std::mutex mutex_;
  GateLimits limits_;
  std::unordered_map<int, std::shared_ptr<GateListener>> listeners_;
  std::unordered_map<int, std::shared_ptr<GateConnection>> connections_;
  uint32_t count_ = 0, unproven_ = 0;  // connections that are not cut
  int64_t looked_for_room_ns_ = 0;
  int spare_fd_;
  // Read without the lock:
  std::atomic<uint64_t> held_bytes_{0}, unproven_bytes_{0};
  std::atomic<uint64_t> held_bytes_max_, unproven_bytes_max_;
  std::atomic<uint32_t> count_now_{0}, unproven_now_{0};
  std::atomic<int64_t> next_sweep_ns_{0};
};

}  // namespace downpour::transport
