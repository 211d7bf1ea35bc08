// HttpClient: a connection that sends bytes as they are, and reads responses.
#pragma once

#include <arpa/inet.h>
#include <cstdlib>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace downpour::testing {

struct HttpReply {
  int status = 0;  // 0: the connection was closed, or nothing came for 10 s
  std::string head, body;
};

class HttpClient {
 public:
  /// Connects to "127.0.0.1:PORT".
  explicit HttpClient(const std::string& address) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(uint16_t(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~HttpClient() { ::close(fd_); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool connected() const { return connected_; }
  void send(const std::string& bytes) const {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += size_t(sent);
    }
  }
  HttpReply receive() {
    HttpReply reply;
    size_t end = 0;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos)
      if (!read_more()) return reply;
    reply.head = in_.substr(0, end + 2);
    in_.erase(0, end + 4);
    const size_t length = reply.head.find("Content-Length: ");
    const size_t bytes =
        length == std::string::npos ? 0 : size_t(std::atoll(reply.head.c_str() + length + 16));
    while (in_.size() < bytes)
      if (!read_more()) return reply;
    reply.body = in_.substr(0, bytes);
    in_.erase(0, bytes);
    reply.status = std::atoi(reply.head.c_str() + 9);
    return reply;
  }
  HttpReply get(const std::string& path) {
    send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n");
    return receive();
  }
  HttpReply post(const std::string& body, const std::string& path = "/v1/predict") {
    send(request(body, path));
    return receive();
  }
  static std::string request(const std::string& body, const std::string& path = "/v1/predict") {
    return "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  /// Returns whether the peer closes the connection within 10 s.
  bool closed() {
    while (read_more()) in_.clear();
    return end_;
  }

 private:
  bool read_more() {
    char bytes[4096];
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
    end_ = got == 0;
    if (got > 0) in_.append(bytes, size_t(got));
    return got > 0;
  }

  int fd_ = -1;
  bool connected_ = false, end_ = false;
  std::string in_;
};

}  // namespace downpour::testing
