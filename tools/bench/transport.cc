// Measures the transport alone: round trips of small messages, and throughput of 1 MiB messages.
#include "shared/transport/transport.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/str.h"
#include "shared/base/units.h"
#include "shared/wire/messages.h"
#include "tools/bench/bench.h"
#include "tools/bench/measure.h"
#include "tools/bench/raw_link.h"

namespace downpour::tools {
namespace {

using transport::PeerId;
using transport::PortId;
using transport::SendStatus;
using transport::Transport;

constexpr uint64_t kSmallBytes = 200;  // approximate size of a small Pull, and of its reply

/// Answers every message with a small one, until `stop` is set.
void echo(Transport& transport, const std::atomic<bool>& stop) {
  const transport::Receiver receiver{
      .on_message =
          [&](PortId, PeerId peer, wire::Message&& message) {
            wire::Message reply;
            reply.envelope = message.envelope;
            reply.body = wire::PullReply{};
            DP_CHECK(transport.send(peer, std::move(reply)) == SendStatus::kSent);
          },
      .on_malformed = {}};
  while (!stop) transport.poll(kSecond, 64, receiver);
}

/// The other end of the connection: a child process, or a thread if the endpoint is inproc.
class Echo {
 public:
  Echo(bool thread, const std::string& endpoint) {
    if (!thread) {
      child_.emplace([&](const Child::Tell& tell) {
        transport::tune_malloc_for_frames();
        const std::atomic<bool> stop = false;
        auto own = transport::make_zmq_transport();
        const auto port = own->bind(endpoint);
        DP_CHECK(port.has_value(), port.error().what);
        tell(own->endpoint(*port));
        echo(*own, stop);
      });
      endpoint_ = child_->told();
      return;
    }
    transport_ = transport::make_zmq_transport();
    const auto port = transport_->bind(endpoint);
    DP_CHECK(port.has_value(), port.error().what);
    endpoint_ = transport_->endpoint(*port);
    thread_ = std::thread([this] { echo(*transport_, stop_); });
  }
  ~Echo() {
    stop_ = true;
    if (transport_ != nullptr) transport_->wake();
    if (thread_.joinable()) thread_.join();
  }
  const std::string& endpoint() const { return endpoint_; }

 private:
  std::optional<Child> child_;
  std::unique_ptr<Transport> transport_;
  std::thread thread_;
  std::atomic<bool> stop_ = false;
  std::string endpoint_;
};

/// Sends `count` messages with `values` each, with at most `window` unanswered. Returns the
/// seconds.
double seconds(Transport& transport, PeerId peer, const Bytes& values, uint64_t count,
               uint32_t window) {
  uint64_t sent = 0, answered = 0;
  const transport::Receiver receiver{
      .on_message =
          [&](PortId, PeerId, wire::Message&& reply) {
            DP_CHECK(std::holds_alternative<wire::PullReply>(reply.body), reply.body.index());
            ++answered;
          },
      .on_malformed = {}};
  const double begin = wall_seconds();
  double heard_s = begin;
  while (answered < count) {
    while (sent < count && sent - answered < window) {
      wire::Message message;
      message.envelope = {.run = 1, .view = {1, 1}, .request = RequestId{++sent}};
      if (values.empty()) {
        message.body = wire::Pull{.worker = Incarnation{1}};
      } else {
        wire::Push push{.worker = Incarnation{1}, .records = 1, .handle = RequestId{1}};
        push.covered.insert(PartitionId{0});
        push.sections = {{.table = TableId{0}, .keys = uint32_t(values.size() / 64)}};
        message.body = std::move(push);
        message.values = values;
      }
      DP_CHECK(transport.send(peer, std::move(message)) == SendStatus::kSent);
    }
    const uint64_t before = answered;
    transport.poll(kSecond, 64, receiver);
    if (answered > before) heard_s = wall_seconds();
    DP_CHECK(wall_seconds() - heard_s < 60, answered, count);  // the other end has died
  }
  return wall_seconds() - begin;
}

/// Returns the seconds for `count` round trips between two threads that wake each other by the
/// cheapest means that lets both sleep.
double eventfd_seconds(uint64_t count) {
  const int there = ::eventfd(0, 0), back = ::eventfd(0, 0);
  DP_CHECK(there >= 0 && back >= 0, errno);
  uint64_t one = 1;
  std::thread other([&] {
    uint64_t value = 1;
    for (uint64_t i = 0; i < count; ++i) {
      DP_CHECK(::read(there, &value, sizeof value) == sizeof value, errno);
      DP_CHECK(::write(back, &value, sizeof value) == sizeof value, errno);
    }
  });
  const double begin = wall_seconds();
  for (uint64_t i = 0; i < count; ++i) {
    DP_CHECK(::write(there, &one, sizeof one) == sizeof one, errno);
    DP_CHECK(::read(back, &one, sizeof one) == sizeof one, errno);
  }
  const double seconds = wall_seconds() - begin;
  other.join();
  ::close(there);
  ::close(back);
  return seconds;
}

double memcpy_seconds(uint64_t count, uint64_t bytes) {
  std::vector<uint8_t> from(bytes, 1), to(bytes);
  const double begin = wall_seconds();
  for (uint64_t i = 0; i < count; ++i) {
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" ::: "memory");
  }
  return wall_seconds() - begin;
}

void bench_scheme(const std::string& scheme, const BenchOptions& options,
                  std::vector<BenchResult>& results) {
  const uint64_t trips = options.quick ? 300 : 10'000;
  const uint64_t bulk = options.quick ? 50 : 2'000;
  const int rounds = options.quick ? 1 : 5;
  const bool inproc = scheme == "inproc";
  const ScratchDir scratch;
  // Fork the other processes before this process has other threads.
  std::optional<RawLink> raw;
  if (!inproc) raw.emplace(scheme == "tcp" ? RawLink::Kind::kTcp : RawLink::Kind::kUnix);
  const Echo echo(inproc, scheme == "tcp"   ? "tcp://127.0.0.1:*"
                          : scheme == "ipc" ? "ipc://" + scratch.path() + "/echo"
                                            : "inproc://bench-echo");
  const auto transport = transport::make_zmq_transport();
  const auto peer = transport->connect(echo.endpoint());
  DP_CHECK(peer.has_value(), peer.error().what);
  const Bytes values = Bytes::of(std::vector<float>(wire::kFrameBytesMax / sizeof(float), 1.0F));
  seconds(*transport, *peer, values, 20, 8);  // connects, warms up

  const RawExchange small[] = {{kSmallBytes, kSmallBytes}};
  const RawExchange large[] = {{wire::kFrameBytesMax, kSmallBytes}};
  Repeated round_trips, throughput;
  for (int round = 0; round < rounds; ++round) {
    const double trips_s = inproc ? eventfd_seconds(trips) : raw->seconds(small, trips, 1);
    const double bulk_s =
        inproc ? memcpy_seconds(bulk, wire::kFrameBytesMax) : raw->seconds(large, bulk, 8);
    const double thousands = double(trips) / 1e3, gigabytes = double(bulk * values.size()) / 1e9;
    round_trips.add(thousands / seconds(*transport, *peer, {}, trips, 1), thousands / trips_s);
    throughput.add(gigabytes / seconds(*transport, *peer, values, bulk, 8), gigabytes / bulk_s);
  }
  const std::string socket = scheme == "tcp" ? "raw TCP" : "raw Unix socket";
  results.push_back(round_trips.result(str(scheme, ", small round trips"), "k/s",
                                       inproc ? "two threads and eventfd" : socket));
  results.push_back(throughput.result(str(scheme, ", 1 MiB messages, 8 in flight"), "GB/s",
                                      inproc ? "memcpy" : socket));
}

}  // namespace

std::vector<BenchResult> bench_transport(const BenchOptions& options) {
  transport::tune_malloc_for_frames();
  std::vector<BenchResult> results;
  for (const char* scheme : {"inproc", "ipc", "tcp"}) bench_scheme(scheme, options, results);
  return results;
}

}  // namespace downpour::tools
