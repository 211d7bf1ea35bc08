#include "shared/transport/tcp_gate.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "shared/base/str.h"
#include "shared/env/process.h"
#include "shared/env/steady_time.h"
#include "shared/wire/frame.h"

namespace downpour::transport {
namespace {

constexpr int kFdsMax = 1 << 17;
constexpr int64_t kLookForRoomNs = 50 * kMillisecond;
constexpr int64_t kSweepNs = kSecond;
// Heartbeats of a CURVE connection look like frames but are never delivered. There is at most one
// per second in each direction.
constexpr uint64_t kHeartbeatBytesPerSecond = 512;

// Tables by descriptor, in zeroed memory. Every close() and recv() of the program reads them.
std::array<std::atomic<bool>, kFdsMax> known_fds;
std::array<std::atomic<GateConnection*>, kFdsMax> read_fds;

/// Returns the address of the other end, such as "127.0.0.1:4711".
std::string from_text(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof(host), port,
                    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "a closed connection";
  return str(host, ":", port);
}

uint64_t mean(uint64_t bytes, uint32_t count) { return bytes / std::max(1U, count); }

void lose(GateListener& listener, const std::string& why) {
  ++listener.losses.connections;
  listener.losses.last = why;
  listener.lost.store(true);
}

}  // namespace

uint64_t descriptor_reserve(uint64_t limit) { return std::clamp<uint64_t>(limit / 4, 64, 1024); }

GateLimits gate_limits_of_process() {
  GateLimits limits;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
    const uint64_t limit = files.rlim_cur;
    const uint64_t room = limit - std::min(limit, descriptor_reserve(limit));
    limits.connections_max = uint32_t(std::min<uint64_t>(limits.connections_max, room));
  }
  limits.unproven_max = std::min(limits.unproven_max, limits.connections_max / 2 + 1);
  if (const uint64_t memory = free_memory(); memory > 0)
    limits.held_bytes_max = std::max(256 * kMiB, memory / 16);
  return limits;
}

// ---- one connection

GateConnection::GateConnection(int fd, std::shared_ptr<GateListener> listener, int64_t now_ns)
    : fd_(fd),
      listener_(std::move(listener)),
      accepted_ns_(now_ns),
      walker_(listener_->frames_max),
      heard_ns_(now_ns) {}

void GateConnection::delivered(uint64_t cost_bytes) {
  uint64_t held = held_bytes_.load(std::memory_order_relaxed);
  while (!held_bytes_.compare_exchange_weak(held, held - std::min(held, cost_bytes))) {
  }
  TcpGate::instance().held_bytes_.fetch_sub(std::min(held, cost_bytes));
}

bool GateConnection::shows_proof() {
  // libzmq accepts no data frame before the end of the handshake
  if (walker_.encrypted()) return walker_.frames() > 0;
  const auto first = walker_.take_first_frame();
  return first && wire::open_frame(*first);
}

void GateConnection::prove(int64_t now_ns) {
  heard_ns_.store(now_ns, std::memory_order_relaxed);
  if (proven()) return;
  TcpGate& gate = TcpGate::instance();
  const std::lock_guard lock(gate.mutex_);
  if (proven_.exchange(true)) return;
  gate.unproven_bytes_.fetch_sub(unproven_bytes_.exchange(0));
  if (counted_) gate.unproven_now_.store(--gate.unproven_);
}

// ---- the gate

// its messages are not delivered any more
GateListener::~GateListener() { TcpGate::instance().on_drained(*this); }

TcpGate& TcpGate::instance() {
  // never destroyed, because close() may be called until the process ends
  static auto* const gate = new TcpGate;
  return *gate;
}

TcpGate::TcpGate() : spare_fd_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  set_limits(gate_limits_of_process());
}

void TcpGate::set_limits(const GateLimits& limits) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
  held_bytes_max_ = limits.held_bytes_max;
  unproven_bytes_max_ = limits.unproven_bytes_max;
}

GateLimits TcpGate::limits() {
  const std::lock_guard lock(mutex_);
  return limits_;
}

bool TcpGate::knows(int fd) {
  return fd >= 0 && fd < kFdsMax && known_fds[size_t(fd)].load(std::memory_order_relaxed);
}

std::shared_ptr<GateListener> TcpGate::add_listener(int fd, uint32_t frames_max,
                                                    uint64_t held_bytes_max) {
  auto listener = std::make_shared<GateListener>();
  listener->frames_max = frames_max;
  listener->held_bytes_max = held_bytes_max;
  const std::lock_guard lock(mutex_);
  if (fd < 0 || fd >= kFdsMax) return listener;
  listeners_[fd] = listener;
  known_fds[size_t(fd)] = true;
  return listener;
}

std::shared_ptr<GateConnection> TcpGate::connection(int fd, uint64_t cost_bytes) {
  const std::lock_guard lock(mutex_);
  const auto at = connections_.find(fd);
  if (at == connections_.end() || at->second->held_bytes_.load() < cost_bytes) return nullptr;
  return at->second;
}

TcpGate::Counts TcpGate::counts() {
  const std::lock_guard lock(mutex_);
  return {count_, unproven_, held_bytes_.load(), unproven_bytes_.load()};
}

std::optional<GateListener::Losses> TcpGate::take_losses(GateListener& listener) {
  if (!listener.lost.load(std::memory_order_relaxed)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  listener.lost = false;
  return std::exchange(listener.losses, {});
}

void TcpGate::on_drained(GateListener& listener) {
  if (listener.closed_bytes.load(std::memory_order_relaxed) == 0) return;
  held_bytes_.fetch_sub(listener.closed_bytes.exchange(0));
}

// ---- ending connections

void TcpGate::cut(GateConnection& connection, const std::string& why) {
  const std::lock_guard lock(mutex_);
  const auto at = connections_.find(connection.fd_);
  if (at != connections_.end() && at->second.get() == &connection) cut_locked(connection, why);
}

/// The descriptor still belongs to this connection, because on_close() waits for the lock. libzmq
/// then reads the end of the connection and closes it.
void TcpGate::cut_locked(GateConnection& connection, const std::string& why) {
  if (connection.cut_.exchange(true)) return;
  lose(*connection.listener_, str("connection from ", from_text(connection.fd_), " closed: ", why));
  uncount_locked(connection);
  ::shutdown(connection.fd_, SHUT_RDWR);
}

void TcpGate::uncount_locked(GateConnection& connection) {
  if (!std::exchange(connection.counted_, false)) return;
  count_now_.store(--count_);
  if (!connection.proven_.load()) unproven_now_.store(--unproven_);
}

bool TcpGate::make_room_locked(int64_t now_ns) {
  const auto has_room = [this] {
    return count_ < limits_.connections_max && unproven_ < limits_.unproven_max;
  };
  if (has_room() || now_ns - looked_for_room_ns_ < kLookForRoomNs) return has_room();
  looked_for_room_ns_ = now_ns;
  for (const auto& [fd, connection] : connections_) {
    if (!connection->proven() && now_ns - connection->accepted_ns_ >= limits_.unproven_keep_ns)
      cut_locked(*connection, "the process has too many connections without a valid message");
  }
  if (count_ < limits_.connections_max) return has_room();
  for (const auto& [fd, connection] : connections_) {
    if (now_ns - connection->heard_ns_.load() >= limits_.silent_keep_ns)
      cut_locked(*connection, "the process has too many connections, and this one is idle");
  }
  return has_room();
}

void TcpGate::sweep(int64_t now_ns) {
  int64_t due_ns = next_sweep_ns_.load(std::memory_order_relaxed);
  if (now_ns < due_ns || !next_sweep_ns_.compare_exchange_strong(due_ns, now_ns + kSweepNs)) return;
  const std::lock_guard lock(mutex_);
  if (unproven_ == 0) return;
  for (const auto& [fd, connection] : connections_) {
    if (!connection->proven() && now_ns - connection->accepted_ns_ >= limits_.unproven_idle_ns)
      cut_locked(*connection, "it sent no valid message in time");
  }
}

// ---- calls from libzmq

bool TcpGate::on_accepted(int listener_fd, int fd) {
  const int64_t now = steady_ns();
  const std::lock_guard lock(mutex_);
  const auto listener = listeners_.find(listener_fd);
  if (listener == listeners_.end()) return true;
  if (fd >= kFdsMax || !make_room_locked(now)) {
    lose(*listener->second,
         str("connection from ", from_text(fd), " refused: ", count_, " connections, ", unproven_,
             " of them without a valid message (limits ", limits_.connections_max, " and ",
             limits_.unproven_max, ")"));
    return false;
  }
  auto connection = std::make_shared<GateConnection>(fd, listener->second, now);
  count_now_.store(++count_);
  unproven_now_.store(++unproven_);
  read_fds[size_t(fd)] = connection.get();
  known_fds[size_t(fd)] = true;
  connections_[fd] = std::move(connection);
  return true;
}

void TcpGate::on_no_descriptor(int listener_fd) {
  const std::lock_guard lock(mutex_);
  const auto listener = listeners_.find(listener_fd);
  if (listener == listeners_.end() || spare_fd_ < 0) return;
  ::close(spare_fd_);
  const int fd = ::accept(listener_fd, nullptr, nullptr);
  if (fd >= 0) {
    lose(*listener->second, str("connection from ", from_text(fd),
                                " refused: the process has no file descriptor left"));
    ::close(fd);
  }
  spare_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool TcpGate::on_received(int fd, std::span<const uint8_t> bytes) {
  GateConnection* const connection =
      fd >= 0 && fd < kFdsMax ? read_fds[size_t(fd)].load(std::memory_order_acquire) : nullptr;
  if (connection == nullptr) return true;
  if (connection->cut_.load(std::memory_order_relaxed)) return false;
  const uint64_t before = connection->walker_.cost_bytes();
  const ZmtpWalker::Finding finding = connection->walker_.walk(bytes);
  const uint64_t cost = connection->walker_.cost_bytes() - before;
  connection->held_bytes_.fetch_add(cost);
  held_bytes_.fetch_add(cost);
  if (!connection->proven() && connection->shows_proof()) connection->prove(steady_ns());
  if (!connection->proven()) {
    connection->unproven_bytes_.fetch_add(cost);
    unproven_bytes_.fetch_add(cost);
  } else if (connection->unproven_bytes_.load(std::memory_order_relaxed) != 0) {
    // added while another thread proved the connection
    unproven_bytes_.fetch_sub(connection->unproven_bytes_.exchange(0));
  }
  std::string why;
  if (finding == ZmtpWalker::Finding::kNotZmtp3) {
    why = "it does not speak ZMTP 3";
  } else if (finding == ZmtpWalker::Finding::kTooManyFrames) {
    why = str("a message has more than ", connection->listener_->frames_max, " frames");
  } else if (cost > 0) {
    why = why_cut(*connection, steady_ns());
  }
  if (why.empty()) return true;
  cut(*connection, why);
  return false;
}

std::string TcpGate::why_cut(const GateConnection& connection, int64_t now) const {
  const uint64_t unproven = connection.unproven_bytes_.load();
  if (const uint64_t sum = unproven_bytes_.load(); sum > unproven_bytes_max_.load() &&
                                                   unproven > 0 &&
                                                   unproven >= mean(sum, unproven_now_.load()))
    return str("connections without a valid message hold ", sum, " bytes, ", unproven,
               " of them on this one");
  const uint64_t held = connection.held_bytes_.load();
  const auto age_s = uint64_t(std::max<int64_t>(0, now - connection.accepted_ns_) / kSecond);
  if (held > connection.listener_->held_bytes_max + kHeartbeatBytesPerSecond * age_s)
    return str("it sent ", held,
               " bytes that are incomplete messages or messages that no thread has read");
  if (const uint64_t sum = held_bytes_.load();
      sum > held_bytes_max_.load() && held >= mean(sum, count_now_.load()))
    return str("connections hold ", sum, " bytes that no thread has read, ", held,
               " of them on this one");
  return {};
}

void TcpGate::on_close(int fd) {
  const std::lock_guard lock(mutex_);
  listeners_.erase(fd);
  known_fds[size_t(fd)] = false;
  read_fds[size_t(fd)] = nullptr;
  const auto at = connections_.find(fd);
  if (at == connections_.end()) return;
  const std::shared_ptr<GateConnection> connection = std::move(at->second);
  connections_.erase(at);
  uncount_locked(*connection);
  unproven_bytes_.fetch_sub(connection->unproven_bytes_.exchange(0));
  // Complete messages among these bytes are still to be delivered; the rest is freed now.
  connection->listener_->closed_bytes.fetch_add(connection->held_bytes_.exchange(0));
}

}  // namespace downpour::transport
