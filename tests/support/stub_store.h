// StubStore: an object store on a loopback port that supports what the tests need: ranges, ETags
// and paged listings. A test can replace any reply.
#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace downpour::testing {

struct StubRequest {
  std::string path, query;                     // decoded path, raw query
  std::map<std::string, std::string> headers;  // names in lower case
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

struct StubReply {
  int status = 200;
  std::vector<std::string> headers;
  std::string body;
  size_t cut_at = std::string::npos;  // closes the connection after this many bytes of the body
  bool trickles = false;              // sends one byte of the body about every 20 ms
};

/// Serves objects on a thread of its own, from construction to destruction.
class StubStore {
 public:
  using Script = std::function<std::optional<StubReply>(const StubRequest&)>;

  StubStore() {
    ::setenv("no_proxy", "127.0.0.1", 1);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const auto any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, any, size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, any, &size) != 0)
      std::abort();
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~StubStore() {
    stop_ = true;
    thread_.join();
    ::close(listener_);
  }
  StubStore(const StubStore&) = delete;
  StubStore& operator=(const StubStore&) = delete;

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// Stores an object under "bucket/key". Every put() gives it a new ETag.
  void put(const std::string& name, std::string bytes) {
    const std::lock_guard lock(mutex_);
    objects_["/" + name] = {std::move(bytes), "\"tag-" + std::to_string(++tags_) + "\""};
  }
  /// Sets a function that sees each request first. If it returns nothing, the store answers.
  void script(Script script) {
    const std::lock_guard lock(mutex_);
    script_ = std::move(script);
  }
  void keys_per_page(size_t keys) { keys_per_page_ = keys; }
  std::vector<StubRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  size_t connections() const { return accepted_; }

  static std::string decoded(const std::string& text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%' && i + 2 < text.size()) {
        out += char(std::strtoul(text.substr(i + 1, 2).c_str(), nullptr, 16));
        i += 2;
      } else {
        out += text[i];
      }
    }
    return out;
  }
  static std::string parameter(const StubRequest& request, const std::string& name) {
    const std::string query = "&" + request.query + "&";
    const size_t at = query.find("&" + name + "=");
    if (at == std::string::npos) return "";
    const size_t begin = at + name.size() + 2;
    return decoded(query.substr(begin, query.find('&', begin) - begin));
  }

 private:
  struct Object {
    std::string bytes, etag;
  };

  void run() {
    std::vector<int> connections;
    std::map<int, std::string> inputs, trickles;  // by connection; unparsed, unsent bytes
    while (!stop_) {
      std::vector<pollfd> polled = {{listener_, POLLIN, 0}};
      for (const int fd : connections) polled.push_back({fd, POLLIN, 0});
      ::poll(polled.data(), polled.size(), 20);
      for (auto& [fd, rest] : trickles) {
        if (rest.empty()) continue;
        (void)::send(fd, rest.data(), 1, MSG_NOSIGNAL);  // a closed connection is detected below
        rest.erase(0, 1);
      }
      for (const pollfd& one : polled) {
        if (one.revents == 0) continue;
        if (one.fd == listener_) {
          connections.push_back(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
          ++accepted_;
          continue;
        }
        char block[4096];
        const ssize_t n = ::recv(one.fd, block, sizeof block, 0);
        std::string& input = inputs[one.fd];
        if (n > 0) input.append(block, size_t(n));
        bool open = n > 0;
        for (size_t end; open && (end = input.find("\r\n\r\n")) != std::string::npos;) {
          const StubRequest request = parse(input.substr(0, end));
          input.erase(0, end + 4);
          const StubReply reply = answer(request);
          open = send_reply(one.fd, reply);
          if (reply.trickles) trickles[one.fd] = reply.body;
        }
        if (open) continue;
        ::close(one.fd);
        inputs.erase(one.fd);
        trickles.erase(one.fd);
        std::erase(connections, one.fd);
      }
    }
    for (const int fd : connections) ::close(fd);
  }

  static StubRequest parse(const std::string& head) {
    StubRequest request;
    const size_t first = head.find(' ') + 1;
    const std::string target = head.substr(first, head.find(' ', first) - first);
    const size_t query = target.find('?');
    request.path = decoded(target.substr(0, query));
    if (query != std::string::npos) request.query = target.substr(query + 1);
    for (size_t at = head.find("\r\n"); at != std::string::npos;) {
      const size_t next = head.find("\r\n", at + 2);
      const std::string line = head.substr(at + 2, next - at - 2);
      std::string name = line.substr(0, line.find(':'));
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return char(std::tolower(uint8_t(c))); });
      request.headers[name] = line.substr(std::min(line.size(), name.size() + 2));
      at = next;
    }
    return request;
  }

  StubReply answer(const StubRequest& request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    if (script_) {
      if (auto reply = script_(request)) return *reply;
    }
    if (parameter(request, "list-type") == "2") return list(request);
    const auto found = objects_.find(request.path);
    if (found == objects_.end())
      return {.status = 404, .body = "<Error><Code>NoSuchKey</Code></Error>"};
    return piece(request, found->second);
  }

  static StubReply piece(const StubRequest& request, const Object& object) {
    const std::string wanted = request.header("if-match");
    if (!wanted.empty() && wanted != object.etag) return {.status = 412};
    const std::string range = request.header("range");
    const size_t begin = std::strtoull(range.c_str() + 6, nullptr, 10);
    const size_t last = std::strtoull(range.c_str() + range.find('-') + 1, nullptr, 10);
    if (begin >= object.bytes.size()) return {.status = 416};
    StubReply reply{.status = 206, .body = object.bytes.substr(begin, last - begin + 1)};
    reply.headers = {"ETag: " + object.etag, "Content-Range: bytes " + std::to_string(begin) + "-" +
                                                 std::to_string(begin + reply.body.size() - 1) +
                                                 "/" + std::to_string(object.bytes.size())};
    return reply;
  }

  StubReply list(const StubRequest& request) {
    const std::string bucket = request.path + "/";
    const std::string prefix = parameter(request, "prefix");
    const std::string from = parameter(request, "continuation-token");
    std::string xml = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\">";
    size_t count = 0;
    std::string next;
    for (const auto& [path, object] : objects_) {
      if (!path.starts_with(bucket + prefix)) continue;
      const std::string key = path.substr(bucket.size());
      if (parameter(request, "delimiter") == "/" && key.find('/', prefix.size()) != key.npos)
        continue;
      if (!from.empty() && key < from) continue;
      if (count++ == keys_per_page_) {
        next = key;
        break;
      }
      xml += "<Contents><Key>" + key + "</Key><Size>1</Size></Contents>";
    }
    xml += next.empty() ? "<IsTruncated>false</IsTruncated>"
                        : "<IsTruncated>true</IsTruncated><NextContinuationToken>" + next +
                              "</NextContinuationToken>";
    return {.body = xml + "</ListBucketResult>"};
  }

  static bool send_reply(int fd, const StubReply& reply) {
    std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " X\r\n";
    for (const std::string& header : reply.headers) text += header + "\r\n";
    text += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n";
    if (!reply.trickles) text += reply.body.substr(0, reply.cut_at);
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = ::send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (n <= 0) return false;
      done += size_t(n);
    }
    return reply.cut_at >= reply.body.size();
  }

  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<size_t> keys_per_page_{1000}, accepted_{0};
  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_;
  uint64_t tags_ = 0;
  Script script_;
  std::vector<StubRequest> requests_;
  std::thread thread_;
};

/// Sets the environment variables of a store, and restores them at the end of the test.
class StoreEnvironment {
 public:
  explicit StoreEnvironment(const std::string& endpoint) {
    for (const char* const name :
         {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION",
          "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE"}) {
      const char* const value = std::getenv(name);
      before_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
      ::unsetenv(name);
    }
    ::setenv("AWS_ENDPOINT_URL", endpoint.c_str(), 1);
  }
  ~StoreEnvironment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  StoreEnvironment(const StoreEnvironment&) = delete;
  StoreEnvironment& operator=(const StoreEnvironment&) = delete;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace downpour::testing
