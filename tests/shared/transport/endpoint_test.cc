#include "shared/transport/endpoint.h"

#include <catch2/catch.hpp>

#include "shared/transport/address.h"
#include "shared/transport/listen.h"

namespace downpour::transport {
namespace {

ErrorCode refusal(const Result<std::string>& endpoint) {
  REQUIRE_FALSE(endpoint);
  CHECK_FALSE(endpoint.error().hint.empty());
  return endpoint.error().code;
}

TEST_CASE("an endpoint to bind becomes one address, in the form that the socket listens on",
          "[transport]") {
  CHECK(*normalize_bind_endpoint("127.0.0.1:7000", true) == "tcp://127.0.0.1:7000");
  CHECK(*normalize_bind_endpoint("tcp://127.0.0.1:*", true) == "tcp://127.0.0.1:*");
  CHECK(*normalize_bind_endpoint("localhost:7000", true) == "tcp://127.0.0.1:7000");
  CHECK(*normalize_bind_endpoint("lo:7000", true) == "tcp://127.0.0.1:7000");  // the interface
  CHECK(*normalize_bind_endpoint("127.1:7000", true) == "tcp://127.0.0.1:7000");
  CHECK(*normalize_bind_endpoint("[::1]:7000", true) == "tcp://[::1]:7000");
  CHECK(*normalize_bind_endpoint("[::ffff:127.0.0.1]:7000", true) ==
        "tcp://[::ffff:127.0.0.1]:7000");
  CHECK(*normalize_bind_endpoint("*:7000", true) == "tcp://0.0.0.0:7000");
  CHECK(*normalize_bind_endpoint("0.0.0.0:7000", true) == "tcp://0.0.0.0:7000");
  CHECK(*normalize_bind_endpoint("ipc:///tmp/x", false) == "ipc:///tmp/x");
}

TEST_CASE("an endpoint of tcp needs keys or --insecure in any notation", "[transport]") {
  for (const char* text :
       {"127.0.0.1:7000", "[::1]:7000", "localhost:*", "0.0.0.0:7000", "*:7000", "tcp://*:*",
        "[::]:7000", "0:7000", "tcp://10.0.0.1:7000", "[::ffff:10.0.0.1]:7000", "[fd00::1]:1"})
    CHECK(refusal(normalize_bind_endpoint(text, false)) == ErrorCode::kPermission);
}

TEST_CASE("lists, source addresses and other notations of libzmq are refused", "[transport]") {
  for (const char* text : {"tcp://127.0.0.1:7001;0.0.0.0:7002",
                           "127.0.0.1;0.0.0.0:7002",
                           "tcp://127.0.0.1:7001 ",
                           "tcp:// 127.0.0.1:7001",
                           "tcp://127.0.0.1/x:7001",
                           "tcp://[127.0.0.1]:7001",
                           "tcp://[::1]x:7001",
                           "tcp://::1:7001",
                           "tcp://127.0.0.1:7001,0.0.0.0:7002",
                           "tcp://127.0.0.1:+7001",
                           "tcp://127.0.0.1:0x1",
                           "tcp://host\n:1",
                           "-x:1",
                           "ipc://@abstract",
                           "ipc://*",
                           "udp://127.0.0.1:1",
                           "vmci://*:1",
                           "",
                           ":7000",
                           "7000"}) {
    CAPTURE(text);
    CHECK(refusal(normalize_bind_endpoint(text, true)) == ErrorCode::kUsage);
    CHECK(refusal(normalize_endpoint(text)) == ErrorCode::kUsage);
  }
  CHECK(refusal(normalize_endpoint("127.0.0.1:*")) == ErrorCode::kUsage);  // allowed only for bind
  CHECK(refusal(normalize_endpoint("*:7000")) == ErrorCode::kUsage);
  CHECK(*normalize_endpoint("chief-0.example:7000") == "tcp://chief-0.example:7000");
  CHECK(refusal(normalize_bind_endpoint("no-such-host.invalid:7000", true)) == ErrorCode::kConfig);
}

TEST_CASE("an advertised host must be only a host", "[transport]") {
  const std::string bound = "tcp://0.0.0.0:7001";
  CHECK(refusal(advertised_endpoint(bound, "")) == ErrorCode::kUsage);
  CHECK(refusal(advertised_endpoint("tcp://[::]:7001", "")) == ErrorCode::kUsage);
  CHECK(*advertised_endpoint("tcp://10.0.0.2:7001", "") == "tcp://10.0.0.2:7001");
  CHECK(*advertised_endpoint(bound, "10.0.0.2") == "tcp://10.0.0.2:7001");
  CHECK(*advertised_endpoint(bound, "ps-0.example") == "tcp://ps-0.example:7001");
  CHECK(*advertised_endpoint(bound, "[fd00::1]") == "tcp://[fd00::1]:7001");
  CHECK(*advertised_endpoint(bound, "fd00::1") == "tcp://[fd00::1]:7001");
  CHECK(*advertised_endpoint("ipc:///tmp/x", "10.0.0.2") == "ipc:///tmp/x");
  for (const char* host : {"10.0.0.2:7001", "10.0.0.2;0.0.0.0", "tcp://10.0.0.2", "a b", "*"})
    CHECK(refusal(advertised_endpoint(bound, host)) == ErrorCode::kUsage);
}

TEST_CASE("an endpoint in a message cannot name a place outside the chief's folder",
          "[transport]") {
  const std::string chief = "ipc:///run/dp-1/chief";
  CHECK(check_peer_endpoint("tcp://10.0.0.2:7001", chief));
  CHECK(check_peer_endpoint("tcp://10.0.0.2:7001", "tcp://10.0.0.1:7000"));
  CHECK(check_peer_endpoint("ipc:///run/dp-1/ps-0.1", chief));
  CHECK(check_peer_endpoint("inproc://ps-0", "inproc://chief"));
  for (const char* endpoint :
       {"ipc:///run/docker.sock", "ipc:///run/dp-1/../docker.sock", "ipc:///run/dp-1/",
        "ipc:///run/dp-1/.", "ipc:///run/dp-1/..", "ipc://ps", "ipc://@x", "inproc://ps-0",
        "tcp://127.0.0.1:1;10.0.0.1:2", "tcp://*:1", "tcp://x:*", ""}) {
    CAPTURE(endpoint);
    const Result<void> checked = check_peer_endpoint(endpoint, chief);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code == ErrorCode::kMalformed);
  }
  CHECK_FALSE(check_peer_endpoint("ipc:///run/dp-1/ps-0.1", "tcp://10.0.0.1:7000"));
}

TEST_CASE("an endpoint is judged by the address that it resolves to", "[transport]") {
  const auto resolved = [](const std::string& endpoint) {
    const Result<Address> address = parse_address(endpoint, true);
    REQUIRE(address);
    const Result<ListenAddress> listen = resolve_listen(endpoint, *address);
    REQUIRE(listen);
    return *listen;
  };
  CHECK(resolved("tcp://localhost:*").is_loopback());
  CHECK(resolved("tcp://2130706433:1").is_loopback());  // 127.0.0.1 as one number
  CHECK(resolved("tcp://2130706433:1").text() == "tcp://127.0.0.1:1");
  CHECK_FALSE(resolved("tcp://0x0a000001:1").is_loopback());
}

}  // namespace
}  // namespace downpour::transport
