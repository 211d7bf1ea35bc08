// CURVE on ZeroMQ sockets: the options of both ends, the thread that answers ZAP requests, and a
// test that every bound port refuses a random key.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include <zmq.hpp>

#include "shared/transport/keyring.h"

namespace downpour::transport {

/// Decides for all CURVE ports of one context which keys may connect. Each keyring is a ZAP domain.
class ZapHandler {
 public:
  /// Starts the thread that answers requests. Errors: kBug if the context has another handler.
  static Result<std::unique_ptr<ZapHandler>> start(zmq::context_t& context);
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;
  /// Joins the thread. The context must have been shut down before, which ends the thread.
  ~ZapHandler();

  /// Returns the domain of this keyring.
  std::string domain_of(const std::shared_ptr<Keyring>& keyring);
  /// Suppresses the notice when this key is refused.
  void expect_refusal(const Key& key);

 private:
  explicit ZapHandler(zmq::socket_t socket);
  void run();
  void answer();
  void note_refusal(Keyring& keyring, const std::string& address);
  std::shared_ptr<Keyring> keyring_of(const std::string& domain);

  zmq::socket_t socket_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Keyring>> keyrings_;  // by domain
  uint64_t last_domain_ = 0;
  std::set<Key> expected_;
  uint64_t refused_ = 0;  // since the last notice
  int64_t notice_at_ns_ = 0;
  std::thread thread_;
};

/// The context of all transports that live at the same time. It gets a ZAP handler when the first
/// port needs one.
class SharedContext {
 public:
  SharedContext(int io_threads, int sockets_max) : context_(io_threads, sockets_max) {}
  SharedContext(const SharedContext&) = delete;
  SharedContext& operator=(const SharedContext&) = delete;
  ~SharedContext();

  zmq::context_t& zmq() { return context_; }
  Result<ZapHandler*> zap();

 private:
  zmq::context_t context_;
  std::mutex mutex_;
  std::unique_ptr<ZapHandler> zap_;
};

/// Returns the context of all transports that live at the same time. It is destroyed with the last
/// of them.
std::shared_ptr<SharedContext> shared_context(int io_threads);

/// Configures a socket before bind: it accepts only CURVE peers whose keys the keyring allows, and
/// refuses PLAIN and NULL.
Result<void> make_curve_server(SharedContext& context, zmq::socket_t& socket,
                               const std::shared_ptr<Keyring>& keyring);
/// Configures a socket before connect: it talks only to a process with the secret key of `server`.
void make_curve_client(zmq::socket_t& socket, const KeyPair& own, const Key& server);
/// Connects to a bound port with the key of a stranger. Errors: kPermission if the port accepts it,
/// kUnavailable if the port does not answer.
Result<void> check_refuses(zmq::context_t& context, const std::string& endpoint, const Key& server,
                           const KeyPair& stranger);
/// Does the same with a random key, whose refusal causes no notice.
Result<void> check_refuses_strangers(SharedContext& context, const std::string& endpoint,
                                     const Key& server);

}  // namespace downpour::transport
