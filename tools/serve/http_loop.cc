#include "tools/serve/http_loop.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string_view>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/str.h"
#include "shared/env/steady_time.h"

namespace downpour::tools {
namespace {

constexpr size_t kReadBytes = 64 * 1024;              // of one connection in one turn
constexpr int64_t kTickNs = 100'000'000;              // between checks of the deadlines
constexpr int64_t kDrainNs = 2'000'000'000;           // for a refused request's bytes
constexpr size_t kWaitingBytesMax = size_t{1} << 18;  // answers to pipelined requests; above it the
                                                      // requests wait

}  // namespace

struct HttpLoop::Connection {
  Connection(int descriptor, size_t body_bytes_max) : fd(descriptor), parser(body_bytes_max) {}

  const int fd;
  HttpParser parser;
  std::string in;  // bytes that are not parsed yet, from in_at on
  size_t in_at = 0;
  std::string out;  // bytes that are not sent yet, from out_at on
  size_t out_at = 0;
  int64_t deadline_ns = 0;
  uint32_t watched = 0;  // events
  bool inside = false;   // a request has begun
  bool ends = false;     // close after the answer
  bool drains = false;   // the answer is sent; discards what the peer still sends
  bool sends() const { return out_at < out.size(); }
};

Result<Listening> listen_on(const std::string& host, uint16_t port) {
  const std::string where = str(host, ":", port);
  const auto failed = [&](const std::string& what) {
    return Error{ErrorCode::kUnavailable, str("cannot listen: ", what), where,
                 "choose another --host or --port; --port 0 chooses a free one"};
  };
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string bare = bracketed ? host.substr(1, host.size() - 2) : host;
  const int code = ::getaddrinfo(bare.c_str(), str(port).c_str(), &hints, &found);
  if (code != 0) return failed(::gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  Listening listening;
  listening.fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listening.fd < 0) return failed(std::strerror(errno));
  const int on = 1;
  ::setsockopt(listening.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::bind(listening.fd, found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(listening.fd, SOMAXCONN) != 0 ||
      ::getsockname(listening.fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    const int error = errno;
    ::close(listening.fd);
    return failed(std::strerror(error));
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (bound.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(bound);
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    listening.address = str("[", text.data(), "]:", ntohs(address.sin6_port));
    listening.loopback = IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
  } else {
    const auto& address = reinterpret_cast<const sockaddr_in&>(bound);
    ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    listening.address = str(text.data(), ":", ntohs(address.sin_port));
    listening.loopback = (ntohl(address.sin_addr.s_addr) >> 24) == 127;
  }
  return listening;
}

HttpLoop::HttpLoop(HttpApp& app, const HttpLimits& limits) : app_(app), limits_(limits) {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  wakeup_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  DP_CHECK(epoll_ >= 0 && wakeup_ >= 0, errno);
  epoll_event event{.events = EPOLLIN, .data = {.fd = wakeup_}};
  DP_CHECK(::epoll_ctl(epoll_, EPOLL_CTL_ADD, wakeup_, &event) == 0, errno);
  buffer_.resize(kReadBytes);
}

HttpLoop::~HttpLoop() {
  for (const auto& [fd, connection] : connections_) ::close(fd);
  for (const int fd : adopted_) ::close(fd);
  ::close(wakeup_);
  ::close(epoll_);
}

void HttpLoop::accept_for(int listening, std::vector<HttpLoop*> loops) {
  listening_ = listening;
  loops_ = std::move(loops);
}

void HttpLoop::stop() {
  stopping_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wakeup_, &one, sizeof one);
}

void HttpLoop::adopt(int fd) {
  ++connection_count_;
  {
    const std::lock_guard lock(mutex_);
    adopted_.push_back(fd);
  }
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wakeup_, &one, sizeof one);
}

void HttpLoop::take_adopted() {
  uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(wakeup_, &count, sizeof count);
  std::vector<int> adopted;
  {
    const std::lock_guard lock(mutex_);
    adopted.swap(adopted_);
  }
  for (const int fd : adopted) add(fd);
}

void HttpLoop::add(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  auto& connection = connections_[fd];
  connection = std::make_unique<Connection>(fd, limits_.body_bytes_max);
  connection->deadline_ns = now_ns_ + limits_.idle_ns_max;
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) return close_connection(fd);
  connection->watched = EPOLLIN;
  if (connections_.size() > limits_.connections_max) {
    refuse(*connection, {503, "too many connections are open", "close idle connections"});
    after(*connection, send(*connection));
  }
}

void HttpLoop::accept() {
  const int fd = ::accept4(listening_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    // Without descriptors, the loop would spin. The next check of deadlines tries again.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      ::epoll_ctl(epoll_, EPOLL_CTL_DEL, listening_, nullptr);
      accepting_ = false;
    }
    return;
  }
  HttpLoop* const loop = *std::ranges::min_element(loops_, {}, &HttpLoop::connections);
  if (loop != this) return loop->adopt(fd);
  ++connection_count_;
  add(fd);
}

void HttpLoop::close_connection(int fd) {
  ::close(fd);  // also removes it from epoll
  connections_.erase(fd);
  --connection_count_;
}

void HttpLoop::watch(Connection& connection) {
  const uint32_t wanted = connection.sends() ? EPOLLOUT : EPOLLIN;
  if (wanted == connection.watched) return;
  epoll_event event{.events = wanted, .data = {.fd = connection.fd}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event);
  connection.watched = wanted;
}

bool HttpLoop::receive(Connection& connection) {
  const ssize_t got = ::recv(connection.fd, buffer_.data(), buffer_.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  if (connection.drains) return true;
  connection.in.append(buffer_.data(), size_t(got));
  return true;
}

bool HttpLoop::answer_and_send(Connection& connection) {
  // Bytes remain in `in` only if requests wait for answers to be sent: the parser keeps the begin
  // of a request itself.
  while (!connection.sends() && !connection.ends && !connection.in.empty()) {
    answer_all(connection);
    if (!send(connection)) return false;
  }
  return true;
}

void HttpLoop::answer_all(Connection& connection) {
  while (!connection.ends && connection.out.size() - connection.out_at < kWaitingBytesMax) {
    const HttpParser::Got got = connection.parser.parse(connection.in, connection.in_at);
    if (got == HttpParser::Got::kFault) return refuse(connection, connection.parser.fault());
    if (got == HttpParser::Got::kNothing) {
      if (connection.parser.take_continue()) connection.out += "HTTP/1.1 100 Continue\r\n\r\n";
      break;
    }
    connection.inside = false;
    HttpRequest& request = connection.parser.request();
    const bool keep_alive = request.keep_alive && !stopping_;
    const bool head_only = request.method == "HEAD";
    answer(connection, app_.answer(request), keep_alive, head_only);
  }
  connection.in.erase(0, connection.in_at);
  connection.in_at = 0;
}

void HttpLoop::answer(Connection& connection, const HttpResponse& response, bool keep_alive,
                      bool head_only) {
  connection.out += format_response(response, keep_alive, head_only);
  connection.ends = !keep_alive;
  const int64_t now_ns = steady_ns();  // the answer may have taken long
  connection.deadline_ns = now_ns + limits_.request_ns_max;
  app_.on_answered(response.status, now_ns - now_ns_);
}

void HttpLoop::refuse(Connection& connection, const HttpFault& fault) {
  answer(connection, app_.refuse(fault), /*keep_alive=*/false, /*head_only=*/false);
}

bool HttpLoop::send(Connection& connection) {
  while (connection.sends()) {
    const ssize_t sent = ::send(connection.fd, connection.out.data() + connection.out_at,
                                connection.out.size() - connection.out_at, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN;
    }
    connection.out_at += size_t(sent);
    connection.deadline_ns = steady_ns() + limits_.request_ns_max;
  }
  connection.out.clear();
  connection.out_at = 0;
  return true;
}

void HttpLoop::after(Connection& connection, bool intact) {
  if (!intact) return close_connection(connection.fd);
  if (connection.sends()) return watch(connection);
  if (connection.ends && !connection.drains) {
    // A close with unread bytes would reset the connection, and the peer might lose the answer.
    ::shutdown(connection.fd, SHUT_WR);
    connection.drains = true;
    connection.deadline_ns = steady_ns() + kDrainNs;
  }
  if (!connection.drains) {
    const bool inside = connection.parser.is_inside();
    if (stopping_ && !inside) return close_connection(connection.fd);
    if (inside != connection.inside || !inside)
      connection.deadline_ns =
          steady_ns() + (inside ? limits_.request_ns_max : limits_.idle_ns_max);
    connection.inside = inside;
  }
  watch(connection);
}

void HttpLoop::on_event(Connection& connection, uint32_t events) {
  const bool intact = (events & EPOLLOUT) != 0 ? send(connection) : receive(connection);
  after(connection, intact && answer_and_send(connection));
}

void HttpLoop::check_deadlines() {
  checked_ns_ = now_ns_;
  std::vector<int> late;
  for (const auto& [fd, connection] : connections_) {
    const bool idle = !connection->inside && !connection->sends() && !connection->ends;
    if (now_ns_ >= connection->deadline_ns || (stopping_ && idle)) late.push_back(fd);
  }
  for (const int fd : late) {
    Connection& connection = *connections_.at(fd);
    if (now_ns_ < connection.deadline_ns) {  // stopping: a request may have arrived meanwhile
      after(connection, receive(connection) && answer_and_send(connection));
      continue;
    }
    if (!connection.inside || connection.sends() || connection.ends) {
      close_connection(fd);
      continue;
    }
    refuse(connection,
           {408,
            str("the request was not complete after ", double(limits_.request_ns_max) / 1e9, " s"),
            "send the request at once, or raise --timeout"});
    after(connection, send(connection));
  }
  if (listening_ < 0 || accepting_ || stopping_) return;
  epoll_event event{.events = EPOLLIN, .data = {.fd = listening_}};
  accepting_ = ::epoll_ctl(epoll_, EPOLL_CTL_ADD, listening_, &event) == 0;
}

void HttpLoop::run() {
  now_ns_ = steady_ns();
  check_deadlines();
  std::array<epoll_event, 64> events{};
  int64_t end_ns = INT64_MAX;
  for (;;) {
    const int count =
        ::epoll_wait(epoll_, events.data(), int(events.size()), int(kTickNs / 1'000'000));
    now_ns_ = steady_ns();
    for (int i = 0; i < count; ++i) {
      const int fd = events[size_t(i)].data.fd;
      if (fd == wakeup_) {
        take_adopted();
      } else if (fd == listening_) {
        if (!stopping_) accept();
      } else if (const auto found = connections_.find(fd); found != connections_.end()) {
        on_event(*found->second, events[size_t(i)].events);
      }
    }
    if (stopping_ && accepting_) {
      ::epoll_ctl(epoll_, EPOLL_CTL_DEL, listening_, nullptr);
      accepting_ = false;
    }
    if (stopping_ || now_ns_ - checked_ns_ >= kTickNs) check_deadlines();
    if (!stopping_) continue;
    if (connections_.empty() && connection_count_ == 0) return;
    if (end_ns == INT64_MAX) end_ns = now_ns_ + limits_.request_ns_max;
    if (now_ns_ >= end_ns) return;  // a peer that accepts its answers byte by byte
  }
}

}  // namespace downpour::tools
