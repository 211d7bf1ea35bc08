// Transport: moves messages between nodes; knows nothing of what they mean. One instance belongs to
// one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/transport/keyring.h"
#include "shared/wire/messages.h"

namespace downpour::transport {

/// A bound or connected socket of this transport.
enum class PortId : uint32_t {};
/// The other end of one connection, as seen from here. Never reused.
enum class PeerId : uint64_t {};

enum class SendStatus : uint8_t {
  kSent,
  kFull,      // over the byte or message limit of this peer; try again after the next poll
  kGone,      // no such peer (any more)
  kTooLarge,  // it fits in no frame and never will: drop it; poll() reports the error
};

/// Called on the transport's thread.
struct Receiver {
  /// A message arrived. `port` says on which socket, `peer` whom to answer.
  std::function<void(PortId, PeerId, wire::Message&&)> on_message;
  /// Something was dropped, or a connection was: a frame that was no valid message (the peer got a
  /// Reject where that was possible), a message of ours that fits in no frame, or connections that
  /// exceed a limit (then the peer is PeerId{}). Peers cause these at will, so that only some of
  /// many are reported.
  std::function<void(PortId, PeerId, const Error&)> on_malformed;
};

struct TransportStats {
  uint64_t sent_messages = 0, sent_bytes = 0;
  uint64_t received_messages = 0, received_bytes = 0;
  uint64_t malformed = 0;
  uint64_t unsendable = 0;       // messages of ours that fit in no frame
  uint64_t connections_cut = 0;  // of tcp, at bound ports: cut or refused, as limits say
  uint64_t shared_bytes = 0;     // of those sent: through memory shared with the peer
  int64_t waited_ns = 0;         // in poll(), for something to do
};

/// Endpoints: "inproc://name", "ipc:///path", "tcp://host:port" ("tcp://127.0.0.1:*" chooses a
/// port). Where the transport has keys, the endpoint of a tcp port carries the key of the process
/// that listens there
/// ("tcp://host:port?key=HEX"), and only such an endpoint can be connected to.
/// Two ports of the same instance are joined by a queue; inproc passes pointers; ipc and tcp
/// encode.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Errors: kUnavailable "port in use", kCannotCreate (ipc path), kConfig (address), kPermission
  /// (a port with keys that admits a random key).
  virtual Result<PortId> bind(const std::string& endpoint) = 0;
  /// The address others connect to (wildcards resolved, with the key of this process where it has
  /// one).
  virtual std::string endpoint(PortId port) const = 0;
  /// Starts to connect; messages queue (bounded) until it stands. Reconnects by itself.
  virtual Result<PeerId> connect(const std::string& endpoint) = 0;
  virtual PortId port_of(PeerId peer) const = 0;
  /// The key of the process at the other end, proven by the connection; a message says nothing
  /// about it. Without a role where the connection proves no key, or where this process connected
  /// to a key that its own list does not name. Valid until the next call of poll().
  virtual const PeerIdentity& identity(PeerId peer) const {
    static const PeerIdentity none;
    (void)peer;
    return none;
  }
  /// Never blocks. On kFull and kGone the message is left untouched in the caller's hands; after
  /// kFull a poll() ends when there is room again. Where a message's size follows from what the
  /// user wrote (a Welcome with its file list), ask wire::Codec::encode first, so that the error
  /// comes before the job begins.
  virtual SendStatus send(PeerId peer, wire::Message&& message) = 0;
  /// Closes a connected peer, or forgets one of a bound port.
  virtual void close(PeerId peer) = 0;
  virtual void close(PortId port) = 0;

  /// Waits until something arrives, wake() is called or `timeout_ns` passed (0: does not wait; < 0:
  /// for ever), then delivers at most `messages_max` messages. Returns how many were delivered.
  virtual size_t poll(int64_t timeout_ns, size_t messages_max, const Receiver& receiver) = 0;
  /// Ends a poll() from any other thread. Cheap when already pending.
  virtual void wake() = 0;
  virtual TransportStats stats() const = 0;
  /// Waits for queued messages to leave, at most `linger_ns`, then closes everything.
  virtual void shutdown(int64_t linger_ns) = 0;
};

struct ZmqOptions {
  uint64_t send_bytes_max = 64ULL << 20;  // queued to one peer; above it send() says kFull
  uint64_t receive_frame_bytes_max = wire::kFrameBytesMax;
  bool shared_memory = true;         // ipc: large values go through memory that both processes map
  int io_threads = 1;                // of the process-wide context; the first caller decides
  std::shared_ptr<Keyring> keyring;  // tcp is encrypted, and peers prove their keys; null: neither
};

/// Transport over ZeroMQ. All instances of a process share one context, so that inproc reaches
/// every thread.
std::unique_ptr<Transport> make_zmq_transport(const ZmqOptions& options = {});

/// Lets the allocator keep the memory of frames: else glibc maps and unmaps each, and touching
/// fresh pages costs more than copying the frame. For mains to call once, before other threads
/// start.
void tune_malloc_for_frames();

}  // namespace downpour::transport
