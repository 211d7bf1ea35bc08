#include "shared/transport/zmq_curve.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/units.h"
#include "shared/env/steady_time.h"
#include "shared/transport/zap.h"

namespace downpour::transport {
namespace {

constexpr const char* kZapEndpoint = "inproc://zeromq.zap.01";
constexpr int kZapEnforceDomain = 93;  // ZMQ_ZAP_ENFORCE_DOMAIN, which the header hides as a draft
constexpr int kReloadMs = 500;         // interval of checks for changes of the allowed keys
constexpr int64_t kNoticeEveryNs = 10 * kSecond;
constexpr size_t kZapFramesMax = 16;
constexpr int kSelfTestMs = 5000;
constexpr int kSocketsMax = 8192;  // of a process

Error no_curve() {
  return {ErrorCode::kUnsupported,
          "this build of ZeroMQ does not support CURVE, so tcp can't be encrypted", "",
          "install a libzmq with libsodium, or use --insecure in a network that you trust",
          "DP-2711"};
}

/// Returns ZeroMQ's text form of a key: 40 characters and a zero.
std::array<char, 41> z85_of(const Key& key) {
  std::array<char, 41> text{};
  DP_CHECK(zmq_z85_encode(text.data(), key.data(), key.size()) != nullptr);
  return text;
}

Key from_z85(const std::array<char, 41>& text) {
  Key key{};
  DP_CHECK(zmq_z85_decode(key.data(), text.data()) != nullptr);
  return key;
}

/// Returns an endpoint by which a process of this machine reaches a port bound to all addresses.
std::string local_endpoint(std::string endpoint) {
  const auto swap = [&](std::string_view any, std::string_view local) {
    if (endpoint.starts_with(any)) endpoint = str(local, endpoint.substr(any.size()));
  };
  swap("tcp://0.0.0.0:", "tcp://127.0.0.1:");
  swap("tcp://[::]:", "tcp://[::1]:");
  return endpoint;
}

}  // namespace

Result<KeyPair> make_key_pair() {
  std::array<char, 41> public_text{};
  std::array<char, 41> secret_text{};
  if (zmq_curve_keypair(public_text.data(), secret_text.data()) != 0) return no_curve();
  return KeyPair{from_z85(public_text), from_z85(secret_text)};
}

Result<Key> public_key_of(const Key& secret_key) {
  std::array<char, 41> public_text{};
  if (zmq_curve_public(public_text.data(), z85_of(secret_key).data()) != 0) return no_curve();
  return from_z85(public_text);
}

// ---- the handler

Result<std::unique_ptr<ZapHandler>> ZapHandler::start(zmq::context_t& context) {
  try {
    zmq::socket_t socket(context, zmq::socket_type::rep);
    socket.set(zmq::sockopt::linger, 0);
    socket.bind(kZapEndpoint);
    return std::unique_ptr<ZapHandler>(new ZapHandler(std::move(socket)));
  } catch (const zmq::error_t& error) {
    return Error{ErrorCode::kBug, str("the key authentication (ZAP) can't start: ", error.what())};
  }
}

ZapHandler::ZapHandler(zmq::socket_t socket) : socket_(std::move(socket)) {
  thread_ = std::thread([this] { run(); });
}

ZapHandler::~ZapHandler() { thread_.join(); }

std::string ZapHandler::domain_of(const std::shared_ptr<Keyring>& keyring) {
  const std::lock_guard lock(mutex_);
  for (const auto& [domain, known] : keyrings_) {
    if (known.lock() == keyring) return domain;
  }
  std::string domain = str("downpour-", ++last_domain_);
  keyrings_[domain] = keyring;
  return domain;
}

void ZapHandler::expect_refusal(const Key& key) {
  const std::lock_guard lock(mutex_);
  expected_.insert(key);
}

std::shared_ptr<Keyring> ZapHandler::keyring_of(const std::string& domain) {
  const std::lock_guard lock(mutex_);
  const auto found = keyrings_.find(domain);
  return found == keyrings_.end() ? nullptr : found->second.lock();
}

void ZapHandler::run() {
  try {
    for (;;) {
      zmq::pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
      zmq::poll(&item, 1, std::chrono::milliseconds(kReloadMs));
      std::vector<std::shared_ptr<Keyring>> keyrings;
      {
        const std::lock_guard lock(mutex_);
        std::erase_if(keyrings_, [](const auto& entry) { return entry.second.expired(); });
        for (const auto& [domain, keyring] : keyrings_) keyrings.push_back(keyring.lock());
      }
      for (const auto& keyring : keyrings) {
        if (keyring != nullptr) keyring->reload();
      }
      if ((item.revents & ZMQ_POLLIN) != 0) answer();
    }
  } catch (const zmq::error_t&) {
    socket_.close();  // the context has been shut down
  }
}

void ZapHandler::answer() {
  std::vector<zmq::message_t> frames;
  for (bool more = true; more;) {
    zmq::message_t frame;
    if (!socket_.recv(frame)) return;
    more = frame.more();
    if (frames.size() < kZapFramesMax) frames.push_back(std::move(frame));
  }
  std::vector<std::string_view> texts;
  for (const zmq::message_t& frame : frames) texts.emplace_back(frame.data<char>(), frame.size());
  const auto request = parse_zap_request(texts);
  std::vector<std::string> reply;
  if (request) {
    const std::shared_ptr<Keyring> keyring = keyring_of(request->domain);
    const auto allowed = keyring == nullptr ? nullptr : keyring->allowed();
    reply = answer_zap(*request, allowed.get());
    bool expected = false;
    {
      const std::lock_guard lock(mutex_);
      expected = expected_.contains(request->key);
    }
    if (!is_admitted(reply) && keyring != nullptr && !expected)
      note_refusal(*keyring, request->address);
  } else {
    reply = refuse_zap(texts);
  }
  for (size_t i = 0; i < reply.size(); ++i) {
    const auto flags = i + 1 < reply.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    (void)socket_.send(zmq::buffer(reply[i]), flags);
  }
}

/// Reports refusals at most once every ten seconds, for any number of strangers.
void ZapHandler::note_refusal(Keyring& keyring, const std::string& address) {
  ++refused_;
  const int64_t now_ns = steady_ns();
  if (!keyring.notice || now_ns < notice_at_ns_) return;
  notice_at_ns_ = now_ns + kNoticeEveryNs;
  keyring.notice(str("refused ", std::exchange(refused_, 0),
                     " connections whose keys are not allowed; the last came from ", address));
}

// ---- the context

std::shared_ptr<SharedContext> shared_context(int io_threads) {
  static std::mutex mutex;
  static std::weak_ptr<SharedContext> current;
  const std::lock_guard lock(mutex);
  std::shared_ptr<SharedContext> context = current.lock();
  if (context == nullptr) {
    context = std::make_shared<SharedContext>(io_threads, kSocketsMax);
    current = context;
  }
  return context;
}

SharedContext::~SharedContext() {
  context_.shutdown();  // ends the handler's wait
  zap_.reset();
}

Result<ZapHandler*> SharedContext::zap() {
  const std::lock_guard lock(mutex_);
  if (zap_ == nullptr) {
    DP_TRY(zap_, ZapHandler::start(context_));
  }
  return zap_.get();
}

// ---- sockets

Result<void> make_curve_server(SharedContext& context, zmq::socket_t& socket,
                               const std::shared_ptr<Keyring>& keyring) {
  if (zmq_has("curve") == 0) return no_curve();
  DP_TRY(ZapHandler* const zap, context.zap());
  socket.set(zmq::sockopt::zap_domain, zap->domain_of(keyring));
  // Refuses every connection if there is no handler. A library without this option relies on the
  // handler, which outlives every port.
  const int enforce = 1;
  (void)zmq_setsockopt(socket.handle(), kZapEnforceDomain, &enforce, sizeof(enforce));
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, z85_of(keyring->own().secret_key).data());
  return {};
}

void make_curve_client(zmq::socket_t& socket, const KeyPair& own, const Key& server) {
  socket.set(zmq::sockopt::curve_serverkey, z85_of(server).data());
  socket.set(zmq::sockopt::curve_publickey, z85_of(own.public_key).data());
  socket.set(zmq::sockopt::curve_secretkey, z85_of(own.secret_key).data());
}

Result<void> check_refuses_strangers(SharedContext& context, const std::string& endpoint,
                                     const Key& server) {
  DP_TRY(const KeyPair stranger, make_key_pair());
  DP_TRY(ZapHandler* const zap, context.zap());
  zap->expect_refusal(stranger.public_key);
  return check_refuses(context.zmq(), endpoint, server, stranger);
}

Result<void> check_refuses(zmq::context_t& context, const std::string& endpoint, const Key& server,
                           const KeyPair& stranger) {
  static std::atomic<uint64_t> last_test{0};
  const std::string events_at = str("inproc://downpour-self-test-", ++last_test);
  const Error silent{
      ErrorCode::kUnavailable,
      "the port does not answer its self-test, so its protection can't be verified", endpoint,
      "check whether a firewall blocks connections from this machine to itself", "DP-2714"};
  try {
    zmq::socket_t probe(context, zmq::socket_type::dealer);
    probe.set(zmq::sockopt::linger, 0);
    probe.set(zmq::sockopt::ipv6, endpoint.find('[') != std::string::npos);
    make_curve_client(probe, stranger, server);
    constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    if (zmq_socket_monitor(probe.handle(), events_at.c_str(), kEvents) != 0) return silent;
    zmq::socket_t events(context, zmq::socket_type::pair);
    events.set(zmq::sockopt::linger, 0);
    events.set(zmq::sockopt::rcvtimeo, kSelfTestMs);
    events.connect(events_at);
    probe.connect(local_endpoint(endpoint));
    zmq::message_t event;
    if (!events.recv(event) || event.size() < sizeof(uint16_t)) return silent;
    uint16_t number = 0;
    std::memcpy(&number, event.data(), sizeof(number));
    zmq::message_t address;
    (void)events.recv(address);
    if (number == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return {};
    return Error{
        ErrorCode::kPermission,
        "the port accepted a random key and is therefore not protected; this process stops",
        endpoint, "report this bug, and do not use the port", "DP-2714"};
  } catch (const zmq::error_t& error) {
    return Error{ErrorCode::kUnavailable, str("the self-test of the port failed: ", error.what()),
                 endpoint};
  }
}

}  // namespace downpour::transport
