// serve_load: sends requests at random times, whether or not earlier ones are answered (an open
// loop), and prints the latencies as JSON. A latency counts from the time when the request was due.
//
//   serve_load HOST:PORT BODY.json [--rate 5000] [--seconds 10] [--connections 8] [--seed 1]
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "shared/base/rng.h"
#include "shared/base/str.h"
#include "shared/env/steady_time.h"

namespace downpour::tools {
namespace {

constexpr int64_t kAnswerNsMax = 5'000'000'000;  // for the last answers

struct LoadOptions {
  std::string address, body;
  double rate = 5000, seconds = 10;
  size_t connections = 8;
  uint64_t seed = 1;
};

/// A keep-alive connection with at most one request at a time.
struct Connection {
  int fd = -1;
  int64_t due_ns = 0;  // of its request; 0: it has none
  std::string in;
};

struct Totals {
  uint64_t sent = 0, failed = 0;
  std::vector<int64_t> latencies_ns;
};

bool connect_to(const std::string& address, Connection& connection) {
  const size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(uint16_t(std::atoi(address.c_str() + colon + 1)));
  connection.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(connection.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) == 1 &&
         ::connect(connection.fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
}

/// Returns the bytes of the response at the start of `in`; 0: it is not complete.
size_t response_bytes(std::string_view in, bool& good) {
  const size_t end = in.find("\r\n\r\n");
  if (end == std::string_view::npos) return 0;
  const size_t length = in.find("Content-Length: ");
  if (length > end) return 0;
  good = in.substr(9, 3) == "200";
  const size_t bytes = end + 4 + size_t(std::atoll(in.data() + length + 16));
  return in.size() < bytes ? 0 : bytes;
}

/// Reads what has arrived. Returns false if the connection is lost.
bool receive(Connection& connection, Totals& totals) {
  char bytes[65536];
  const ssize_t got = ::recv(connection.fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) return false;
  connection.in.append(bytes, size_t(got));
  bool good = false;
  if (const size_t size = response_bytes(connection.in, good); size > 0) {
    connection.in.erase(0, size);
    totals.failed += good ? 0 : 1;
    totals.latencies_ns.push_back(steady_ns() - connection.due_ns);
    connection.due_ns = 0;
  }
  return true;
}

/// Waits for answers until `until_ns`.
bool wait(std::vector<Connection>& connections, int64_t until_ns, Totals& totals) {
  std::vector<pollfd> fds;
  for (const Connection& connection : connections)
    fds.push_back({.fd = connection.fd, .events = POLLIN, .revents = 0});
  const int64_t left = std::max<int64_t>(until_ns - steady_ns(), 0);
  const timespec limit{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  if (::ppoll(fds.data(), fds.size(), &limit, nullptr) <= 0) return true;
  for (size_t i = 0; i < fds.size(); ++i)
    if (fds[i].revents != 0 && !receive(connections[i], totals)) return false;
  return true;
}

/// Gives due requests to connections that are free.
bool send_due(std::vector<Connection>& connections, std::deque<int64_t>& due,
              const std::string& request, Totals& totals) {
  for (Connection& connection : connections) {
    if (due.empty()) break;
    if (connection.due_ns != 0) continue;
    connection.due_ns = due.front();
    due.pop_front();
    ++totals.sent;
    if (::send(connection.fd, request.data(), request.size(), MSG_NOSIGNAL) !=
        ssize_t(request.size()))
      return false;
  }
  return true;
}

bool run(const LoadOptions& options, Totals& totals) {
  std::vector<Connection> connections(options.connections);
  for (Connection& connection : connections) {
    if (connect_to(options.address, connection)) continue;
    std::fprintf(stderr, "serve_load: cannot connect to %s\n", options.address.c_str());
    return false;
  }
  const std::string request =
      str("POST /v1/predict HTTP/1.1\r\nHost: ", options.address,
          "\r\nContent-Type: application/json\r\nContent-Length: ", options.body.size(), "\r\n\r\n",
          options.body);
  Rng rng(options.seed);
  std::deque<int64_t> due;
  const int64_t begin = steady_ns(), end = begin + int64_t(options.seconds * 1e9);
  int64_t next = begin;
  const auto busy = [&] {
    return !due.empty() || std::ranges::any_of(connections, &Connection::due_ns);
  };
  for (int64_t now = begin; now < end || (busy() && now < end + kAnswerNsMax); now = steady_ns()) {
    while (next <= now && next < end) {
      due.push_back(next);
      next += int64_t(-std::log(1 - rng.uniform64()) / options.rate * 1e9);
    }
    const bool intact = send_due(connections, due, request, totals) &&
                        wait(connections, next < end ? next : now + 1'000'000, totals);
    if (intact) continue;
    std::fprintf(stderr, "serve_load: a connection was closed\n");
    return false;
  }
  totals.failed += due.size() + size_t(std::ranges::count_if(connections, &Connection::due_ns));
  for (const Connection& connection : connections) ::close(connection.fd);
  return true;
}

int run_program(int argc, char** argv) {
  LoadOptions options;
  if (argc < 3 || argc % 2 == 0) {
    std::fprintf(stderr,
                 "usage: serve_load HOST:PORT BODY.json [--rate R] [--seconds S] "
                 "[--connections N] [--seed N]\n");
    return 64;
  }
  options.address = argv[1];
  std::ifstream file(argv[2]);
  options.body.assign(std::istreambuf_iterator<char>(file), {});
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    const double value = std::atof(argv[i + 1]);
    if (flag == "--rate") options.rate = value;
    if (flag == "--seconds") options.seconds = value;
    if (flag == "--connections") options.connections = size_t(value);
    if (flag == "--seed") options.seed = uint64_t(value);
  }
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  Totals totals;
  if (!run(options, totals) || totals.latencies_ns.empty()) return 1;
  std::vector<int64_t>& all = totals.latencies_ns;
  std::ranges::sort(all);
  const auto at = [&](double share) {
    return double(all[size_t(share * double(all.size() - 1))]) / 1e6;
  };
  std::printf(
      "{\"sent\": %zu, \"failed\": %zu, \"rate\": %.0f, \"p50_ms\": %.3f, \"p90_ms\": %.3f, "
      "\"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f}\n",
      size_t(totals.sent), size_t(totals.failed), double(totals.sent) / options.seconds, at(.5),
      at(.9), at(.99), at(.999), at(1));
  return 0;
}

}  // namespace
}  // namespace downpour::tools

int main(int argc, char** argv) { return downpour::tools::run_program(argc, argv); }
