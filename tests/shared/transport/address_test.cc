#include "shared/transport/address.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace downpour::transport {
namespace {

std::string why_not(const std::string& text, bool wildcard = false) {
  const Result<Address> address = parse_address(text, wildcard);
  REQUIRE_FALSE(address);
  CHECK(address.error().code == ErrorCode::kConfig);
  CHECK_FALSE(address.error().hint.empty());
  return address.error().what;
}

TEST_CASE("endpoints are parsed, and an invalid one is reported with the reason", "[transport]") {
  CHECK(parse_address("tcp://host:1", false)->place == "host:1");
  CHECK(parse_address("tcp://[::1]:65535", false)->scheme == Scheme::kTcp);
  CHECK(parse_address("tcp://127.0.0.1:*", true));
  CHECK(parse_address("ipc:///run/x", false)->place == "/run/x");
  CHECK(parse_address("inproc://chief", false)->scheme == Scheme::kInproc);
  CHECK(why_not("host:1") == "\"host:1\" is not an endpoint: it has no scheme");
  CHECK(why_not("udp://host:1") == "\"udp://host:1\" is not an endpoint: unknown scheme udp");
  CHECK(why_not("tcp://host") == "\"tcp://host\" is not an endpoint: it has no host or no port");
  CHECK(why_not("tcp://:5") == "\"tcp://:5\" is not an endpoint: it has no host or no port");
  CHECK_THAT(why_not("tcp://host:*"), Catch::Contains("its port is not 1 to 65535"));
  CHECK_THAT(why_not("tcp://host:0", true), Catch::Contains("its port is not 1 to 65535 or *"));
  CHECK_THAT(why_not("tcp://host:65536"), Catch::Contains("its port"));
  CHECK_THAT(why_not("tcp://host:80x"), Catch::Contains("its port"));
  CHECK_THAT(why_not("ipc://"), Catch::Contains("it has no address"));
  CHECK_THAT(why_not("ipc:///" + std::string(200, 'x')), Catch::Contains("more than 107 bytes"));
}

TEST_CASE("an ipc path with a file that is no socket is never taken", "[transport]") {
  const std::string path = str("/tmp/downpour-endpoint-", ::getpid());
  CHECK(check_ipc_path(path));
  std::ofstream(path) << "precious";
  const Result<void> taken = check_ipc_path(path);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == ErrorCode::kCannotCreate);
  std::filesystem::remove(path);
}

TEST_CASE("bind errors suggest an action", "[transport]") {
  const Address tcp{Scheme::kTcp, "127.0.0.1:5555"};
  CHECK(bind_error("tcp://127.0.0.1:5555", tcp, EADDRINUSE).what ==
        "port 127.0.0.1:5555 is in use");
  CHECK(bind_error("tcp://127.0.0.1:5555", tcp, EADDRINUSE).code == ErrorCode::kUnavailable);
  CHECK(bind_error("tcp://127.0.0.1:80", tcp, EACCES).code == ErrorCode::kPermission);
  CHECK(bind_error("tcp://9.9.9.9:80", tcp, EADDRNOTAVAIL).code == ErrorCode::kConfig);
  CHECK(bind_error("ipc:///no/x", {Scheme::kIpc, "/no/x"}, ENOENT).code ==
        ErrorCode::kCannotCreate);
}

}  // namespace
}  // namespace downpour::transport
