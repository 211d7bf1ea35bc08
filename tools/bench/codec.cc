// Measures encoding and decoding of the header frames of the two most frequent messages, against a
// copy of the same bytes, and as a share of copying the message with its rows.
#include "shared/wire/codec.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/str.h"
#include "tools/bench/bench.h"
#include "tools/bench/measure.h"

namespace downpour::tools {
namespace {

constexpr uint32_t kPartitions = 256;
constexpr uint64_t kKeys = 10'000;
constexpr uint64_t kRowBytes = 64;

Bytes zeros(uint64_t bytes) { return Bytes::of(std::vector<uint8_t>(bytes)); }

wire::Message message_of(wire::Body body, uint64_t keys, uint64_t rows) {
  wire::Message message;
  message.envelope = {.run = 1, .view = {1, 2}, .request = RequestId{3}};
  message.body = std::move(body);
  if (keys > 0) message.keys = zeros(keys * sizeof(uint64_t));
  if (rows > 0) message.values = zeros(rows * kRowBytes);
  return message;
}

wire::PartitionSet all_partitions() {
  wire::PartitionSet set;
  for (uint32_t p = 0; p < kPartitions; ++p) set.insert(PartitionId{p});
  return set;
}

wire::Push push_of(bool by_handle) {
  wire::Push push{.worker = Incarnation{5}, .batch = {1, 2, 3}, .records = 512};
  push.covered = all_partitions();
  push.sections = {{.table = TableId{0}, .keys = uint32_t(kKeys)}};
  push.metrics.resize(1);
  if (by_handle) {
    push.handle = RequestId{4};
  } else {
    for (uint64_t p = 0; p < kPartitions; ++p) push.pulled_versions.push_back(1'000'000 + p);
  }
  return push;
}

/// Returns the seconds per call, the best of five rounds.
template <typename Call>
double seconds_per_call(uint32_t calls, Call&& call) {
  double best = 1e9;
  for (int turn = 0; turn < 5; ++turn) {
    const double begin = wall_seconds();
    for (uint32_t i = 0; i < calls; ++i) {
      call();
      asm volatile("" ::: "memory");
    }
    best = std::min(best, (wall_seconds() - begin) / calls);
  }
  return best;
}

void bench_message(const std::string& name, const wire::Message& message, uint32_t calls,
                   std::vector<BenchResult>& results) {
  wire::Codec codec;
  std::vector<uint8_t> frame;
  const double encode_s = seconds_per_call(calls, [&] {
    const auto encoded = codec.encode(message);
    DP_CHECK(encoded.has_value(), encoded.error().what);
    frame.assign(encoded->begin(), encoded->end());
  });
  const double decode_s = seconds_per_call(calls, [&] {
    Bytes payloads[2];
    size_t count = 0;
    if (!message.keys.empty()) payloads[count++] = message.keys;
    if (!message.values.empty()) payloads[count++] = message.values;
    const auto decoded = codec.decode(frame, std::span(payloads).first(count));
    DP_CHECK(decoded.has_value(), decoded.error().what);
  });
  std::vector<uint8_t> copy(frame.size());
  const double header_copy_s =
      seconds_per_call(calls, [&] { std::memcpy(copy.data(), frame.data(), frame.size()); });
  const uint64_t payload = message.keys.size() + message.values.size();
  std::vector<uint8_t> from(payload + 1, 1), to(payload + 1);  // not empty, so data() is not null
  const double payload_copy_s = seconds_per_call(
      std::max(1U, calls / 100), [&] { std::memcpy(to.data(), from.data(), payload); });
  const double both_s = encode_s + decode_s;
  const auto bytes = double(frame.size());
  results.push_back({str(name, ", encode"), bytes / encode_s / 1e9, "GB/s", "memcpy of the header",
                     bytes / header_copy_s / 1e9});
  results.push_back({str(name, ", decode"), bytes / decode_s / 1e9, "GB/s", "memcpy of the header",
                     bytes / header_copy_s / 1e9});
  results.push_back({str(name, ", encode + decode"), both_s * 1e6, "us",
                     "a tenth of copying its 10,000 keys or rows", payload_copy_s * 1e6 / 10,
                     true});
}

}  // namespace

std::vector<BenchResult> bench_codec(const BenchOptions& options) {
  const uint32_t calls = options.quick ? 2'000 : 100'000;
  wire::PullReply reply{.view = {1, 2}, .versions = {}};
  for (uint64_t p = 0; p < kPartitions; ++p) reply.versions.push_back(1'000'000 + p);
  wire::PushReply acknowledged{
      .batch = {1, 2, 3}, .applied = all_partitions(), .others = {}, .view = {1, 2}};
  std::vector<BenchResult> results;
  bench_message("Push by handle", message_of(push_of(true), 0, kKeys), calls, results);
  bench_message("Push with keys and 256 versions", message_of(push_of(false), kKeys, kKeys), calls,
                results);
  bench_message("PullReply of 256 partitions", message_of(std::move(reply), 0, kKeys), calls,
                results);
  bench_message("PushReply of 256 partitions", message_of(std::move(acknowledged), 0, 0), calls,
                results);
  results.pop_back();  // a PushReply has no payload to compare with
  return results;
}

}  // namespace downpour::tools
