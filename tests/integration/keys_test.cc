// Keys on real processes: who may join a job over tcp, and what a worker's key is good for.
#include <arpa/inet.h>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/base/str.h"
#include "shared/base/units.h"
#include "shared/base/version.h"
#include "shared/transport/key_folder.h"
#include "shared/transport/transport.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using transport::Keyring;
using transport::PeerId;
using transport::SendStatus;

constexpr int kRows = 20'000;

void make_job(const ScratchDir& dir, int epochs) {
  const std::vector<std::string> synth = {"synth",     dir / "train.svm", "--rows",
                                          std::to_string(kRows), "--ids", "50",
                                          "--numeric", "4",               "--categorical", "6"};
  REQUIRE(Program("downpour", synth, dir.path()).wait(60).status == 0);
  dir.write("job.toml",
            "run_dir = \"run\"\n"
            "data = { source = \"train.svm\", format = \"libsvm\", shard_records = 500 }\n"
            "model = { preset = \"logistic_regression\" }\n"
            "optimizer = { type = \"ftrl\", learning_rate = 0.1 }\n"
            "train = { epochs = " +
                std::to_string(epochs) + ", batch_size = 100, reduction = \"sum\" }\n");
}

/// Every epoch read every record once.
void check_balanced(const Ended& ended, size_t epochs) {
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const Json done = Json::parse(ended.out.substr(ended.out.rfind('\n', ended.out.size() - 2) + 1));
  REQUIRE(done["accounts"].size() == epochs);
  for (const Json& account : done["accounts"]) {
    CHECK(account["read"] == kRows);
    CHECK(account["read"] == account["applied"]);
  }
}

std::vector<Json> events_of(const ScratchDir& dir, const std::string& name) {
  std::vector<Json> found;
  std::ifstream in(dir / "run/events.jsonl");
  for (std::string line; std::getline(in, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (!event.is_discarded() && event.value("event", "") == name) found.push_back(event);
  }
  return found;
}

uint32_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

std::string free_address() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) == 0);
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  ::close(fd);
  return str("127.0.0.1:", ntohs(address.sin_port));
}

}  // namespace

TEST_CASE("local processes over tcp have keys that only their user can read, without being asked to",
          "[integration][keys]") {
  const ScratchDir dir;
  make_job(dir, 2);
  const Ended done =
      Program("downpour", {"train", dir / "job.toml", "--ps", "2", "--workers", "2",
                           "--input-workers", "1", "--transport", "tcp", "--log-format", "json", "--quiet"},
              dir.path())
          .wait(120);
  check_balanced(done, 2);
  CHECK(mode_of(dir / "run/keys") == 0700);
  std::vector<std::string> secrets;
  for (const auto& entry : fs::directory_iterator(dir / "run/keys")) {
    CHECK(mode_of(entry.path()) == 0600);
    if (entry.path().extension() != ".key") continue;
    secrets.push_back(transport::hex_of(transport::read_key_file(entry.path())->secret_key));
  }
  CHECK(secrets.size() == 4);
  size_t keyed = 0;
  for (const Json& hello : events_of(dir, "hello"))
    keyed += hello["endpoint"].get<std::string>().find("?key=") != std::string::npos ? 1 : 0;
  CHECK(keyed == 3);  // two ps and an input process
  for (const auto& entry : fs::recursive_directory_iterator(dir / "run")) {
    if (!entry.is_regular_file() || entry.path().extension() == ".key") continue;
    const std::string text = read_text(entry.path());
    for (const std::string& secret : secrets) CHECK(text.find(secret) == std::string::npos);
  }
}

TEST_CASE("a process by hand needs keys or --insecure, and says which", "[integration][keys]") {
  const ScratchDir dir;
  for (const char* program : {"downpour-ps", "downpour-worker"}) {
    const Ended ended = Program(program, {"--chief", free_address()}, dir.path()).wait(20);
    CHECK(ended.status == 77);
    CHECK_THAT(ended.err, Catch::Contains("DP-2711") && Catch::Contains("--keys") &&
                              Catch::Contains("--insecure"));
    const Ended both = Program(program, {"--chief", free_address(), "--keys", dir / "keys", "--insecure"},
                               dir.path())
                           .wait(20);
    CHECK(both.status == 64);
  }
}

TEST_CASE("--insecure trains without keys and warns", "[integration][keys]") {
  const ScratchDir dir;
  make_job(dir, 1);
  const std::string address = free_address();
  Program chief("downpour-chief",
                {dir / "job.toml", "--bind", address, "--json", "--insecure", "--set", "cluster.ps=1"},
                dir.path());
  Program ps("downpour-ps", {"--chief", address, "--insecure"}, dir.path());
  Program worker("downpour-worker", {"--chief", address, "--insecure", "--threads", "1"}, dir.path());
  const Ended done = chief.wait(60);
  check_balanced(done, 1);
  CHECK_THAT(done.err, Catch::Contains("insecure: connections are neither encrypted nor authenticated"));
  CHECK(!fs::exists(dir / "run/keys"));
}

}  // namespace downpour::testing
