// HttpLoop: answers HTTP requests on one thread. Many connections, epoll, no other library.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "shared/base/result.h"
#include "tools/serve/http_parser.h"

namespace downpour::tools {

/// Answers the requests of one loop. Its functions are called on the loop's thread.
class HttpApp {
 public:
  virtual ~HttpApp() = default;
  virtual HttpResponse answer(HttpRequest& request) = 0;
  /// Returns the answer to a request that is not complete or not HTTP.
  virtual HttpResponse refuse(const HttpFault& fault) = 0;
  /// Reports an answer, and the time from the last byte of its request.
  virtual void on_answered(int status, int64_t latency_ns) = 0;
};

struct HttpLimits {
  size_t body_bytes_max = size_t{1} << 20;
  size_t connections_max = 1024;            // of one loop; a further connection gets 503
  int64_t request_ns_max = 10'000'000'000;  // from the first byte of a request to its last: 408;
                                            // and without progress in sending an answer
  int64_t idle_ns_max = 75'000'000'000;     // between requests; then the connection is closed
};

/// A listening socket, and the address that it is bound to.
struct Listening {
  int fd = -1;
  std::string address;  // "127.0.0.1:8080", "[::1]:8080"
  bool loopback = true;
};
/// Binds a TCP port; 0 chooses one. Error kUnavailable names the address.
Result<Listening> listen_on(const std::string& host, uint16_t port);

class HttpLoop {
 public:
  /// `app` must outlive the loop.
  HttpLoop(HttpApp& app, const HttpLimits& limits);
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  /// Accepts connections, and gives each to the loop that has the fewest. For one of the loops,
  /// before run(). The loops must outlive run(), and include this one.
  void accept_for(int listening, std::vector<HttpLoop*> loops);
  /// Serves until stop(), and then until the requests that have begun are answered, but at most for
  /// request_ns_max.
  void run();
  /// Thread-safe.
  void stop();
  /// Takes a connected socket. Thread-safe.
  void adopt(int fd);
  size_t connections() const { return connection_count_; }

 private:
  struct Connection;

  void accept();
  void take_adopted();
  void add(int fd);
  void on_event(Connection& connection, uint32_t events);
  /// Reads what has arrived. Returns false if the peer has closed the connection or it is broken.
  bool receive(Connection& connection);
  /// Answers the requests that have arrived, as far as the peer accepts the answers. Returns false
  /// if the connection is broken.
  bool answer_and_send(Connection& connection);
  /// Answers the complete requests, until many answers wait to be sent.
  void answer_all(Connection& connection);
  void answer(Connection& connection, const HttpResponse& response, bool keep_alive,
              bool head_only);
  void refuse(Connection& connection, const HttpFault& fault);
  /// Sends what waits. Returns false if the connection is broken.
  bool send(Connection& connection);
  void after(Connection& connection, bool intact);
  void check_deadlines();
  void close_connection(int fd);
  void watch(Connection& connection);

  HttpApp& app_;
  const HttpLimits limits_;
  int epoll_ = -1, wakeup_ = -1, listening_ = -1;
  bool accepting_ = false;
  std::vector<HttpLoop*> loops_;
  std::atomic<bool> stopping_ = false;
  std::atomic<size_t> connection_count_ = 0;
  std::mutex mutex_;
  std::vector<int> adopted_;
  std::unordered_map<int, std::unique_ptr<Connection>> connections_;
  int64_t now_ns_ = 0, checked_ns_ = 0;
  std::string buffer_;
};

}  // namespace downpour::tools
