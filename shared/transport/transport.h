// Transport: moves messages between nodes without knowing their meaning. An instance belongs to one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/transport/keyring.h"
#include "shared/wire/member_messages.h"

namespace downpour::wire {
struct Message;
}

namespace downpour::transport {

/// A bound or connected socket of this transport.
enum class PortId : uint32_t {};
/// The other end of one connection of this transport. Ids are never reused.
enum class PeerId : uint64_t {};

enum class SendStatus : uint8_t {
  kSent,
  kFull,      // above the byte or message limit of this peer; try again after the next poll
  kGone,      // the peer is unknown, or its connection has ended
  kTooLarge,  // does not fit into a frame and never will; drop it, poll() reports the error
};

/// Callbacks of poll(), called on the transport's thread.
struct Receiver {
  /// Called with each message, the port on which it arrived, and the peer to answer.
  std::function<void(PortId, PeerId, wire::Message&&)> on_message;
  /// Called for dropped input or output: a frame that was not a valid message (the peer gets a
  /// Reject if possible), a message of this process that fits into no frame, or connections that
  /// exceed a limit (then the peer is PeerId{}). Peers can cause these at will, so only some of
  /// them are reported.
  std::function<void(PortId, PeerId, const Error&)> on_malformed;
};

struct TransportStats {
  uint64_t sent_messages = 0, sent_bytes = 0;
  uint64_t received_messages = 0, received_bytes = 0;
  uint64_t malformed = 0;
  uint64_t unsendable = 0;  // own messages that fit into no frame
  // tcp connections of bound ports that were cut or refused because of limits
  uint64_t connections_cut = 0;
  uint64_t shared_bytes = 0;  // part of sent_bytes that went through shared memory
  int64_t waited_ns = 0;      // time in poll() spent waiting
};

/// Moves messages over endpoints "inproc://name", "ipc:///path" and "tcp://host:port"
/// ("tcp://127.0.0.1:*" chooses a port). If the transport has keys, a tcp endpoint contains the key
/// of the listening process ("tcp://host:port?key=HEX"), and only such an endpoint can be connected
/// to.
///
/// Two ports of the same instance are connected by a queue, whatever their scheme. Otherwise inproc
/// passes pointers, and ipc and tcp encode messages.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Opens a port. A port with keys is tested: it must refuse a connection with a random key.
  /// Errors: kUnavailable (port in use, or no answer to the test), kCannotCreate (ipc path),
  /// kConfig (address), kPermission (the system does not allow listening, or the port accepted the
  /// random key).
  virtual Result<PortId> bind(const std::string& endpoint) = 0;
  /// Returns the address that others connect to: wildcards are resolved, and it contains the key of
  /// this process if it has one.
  virtual std::string endpoint(PortId port) const = 0;
  /// Starts to connect. Messages are queued, up to a limit, until the connection is established.
  /// Reconnects by itself.
  virtual Result<PeerId> connect(const std::string& endpoint) = 0;
  virtual PortId port_of(PeerId peer) const = 0;
  /// Returns the identity that the connection proves for the process at the other end; messages
  /// have no influence on it. It has no role if the connection proves no key, or if this process
  /// opened the connection and the other end's key is not in its list. Valid until the next call of
  /// poll().
  virtual const PeerIdentity& identity(PeerId peer) const {
    static const PeerIdentity none;
    (void)peer;
    return none;
  }
  /// Sends a message and never blocks. On kFull and kGone, `message` is unchanged. After kFull,
  /// poll() ends when there is room again.
  ///
  /// If the size of a message depends on user input (a Welcome with its list of files), call
  /// wire::Codec::encode() first, so that the error is reported before the job starts.
  virtual SendStatus send(PeerId peer, wire::Message&& message) = 0;
  /// Closes a connected peer, or forgets a peer of a bound port.
  virtual void close(PeerId peer) = 0;
  virtual void close(PortId port) = 0;

  /// Waits until a message arrives, wake() is called, or `timeout_ns` has passed (0: does not wait;
  /// < 0: forever). Then delivers at most `messages_max` messages. Returns the number of delivered
  /// messages.
  virtual size_t poll(int64_t timeout_ns, size_t messages_max, const Receiver& receiver) = 0;
  /// Ends the current or the next poll(). Any thread may call it. Costs little if a wake-up is
  /// already pending.
  virtual void wake() = 0;
  virtual TransportStats stats() const = 0;
  /// Waits at most `linger_ns` until queued messages have left, then closes everything.
  virtual void shutdown(int64_t linger_ns) = 0;
};

struct ZmqOptions {
  uint64_t send_bytes_max = 64ULL << 20;  // queued to one peer; above this, send() returns kFull
  uint64_t receive_frame_bytes_max = wire::kFrameBytesMax;
  bool shared_memory = true;  // ipc: large values go through shared memory
  int io_threads =
      1;  // of the context, which all transports of a process share; the first one decides
  // encrypts tcp, and peers must prove their keys; null: no encryption and no keys
  std::shared_ptr<Keyring> keyring;
};

/// Returns a transport over ZeroMQ. All instances of a process share one context, so that inproc
/// works between its threads.
std::unique_ptr<Transport> make_zmq_transport(const ZmqOptions& options = {});

/// Configures the allocator to keep the memory of frames. Otherwise glibc maps and unmaps each
/// frame, and touching new pages costs more than copying the frame. Called once by mains before
/// other threads start.
void tune_malloc_for_frames();

}  // namespace downpour::transport
