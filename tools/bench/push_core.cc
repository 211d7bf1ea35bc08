// bench-push: measures the rows per second that one ps core applies from pushes, without a network.
// It is built twice. bench-push-unchecked neither checks nor moves watermarks, so the difference is
// the cost of exactly-once.
#include <cstdio>
#include <vector>

#include "ps/core/ps_core.h"
#include "shared/base/check.h"
#include "shared/base/rng.h"
#include "tools/bench/all_partitions.h"
#include "tools/bench/measure.h"

namespace downpour {
namespace {

constexpr uint64_t kCoreRun = 1;
constexpr uint32_t kDim = 16;
constexpr uint64_t kRows = 500'000;
constexpr uint32_t kKeysPerPush = 2000;
constexpr uint32_t kBatchesPerShard = 64;
constexpr double kWarmUpS = 0.3;
constexpr double kMeasureS = 1.5;

class Pushes {
 public:
  Pushes()
      : core_({.incarnation = Incarnation{1},
               .run = kCoreRun,
               .tables = {{.name = "rows",
                           .table_variables = {{.name = "w",
                                                .dim = kDim,
                                                .optimizer = {.type = OptimizerType::kSgd}}}}}}) {
    AllPartitions all(core_);
    covered_ = all.covered;
    send(ps::kChiefPeer, std::move(all.adopt));
    send(ps::kChiefPeer, std::move(all.view));
  }

  /// Pushes for this time. Returns rows per second.
  double run(double seconds) {
    const double begin_s = tools::wall_seconds();
    uint64_t rows = 0;
    while (tools::wall_seconds() - begin_s < seconds) {
      for (uint32_t i = 0; i < kBatchesPerShard; ++i, rows += kKeysPerPush) push();
      end_shard();
    }
    return double(rows) / (tools::wall_seconds() - begin_s);
  }

 private:
  void push() {
    for (uint64_t& key : keys_) key = rng_.below(kRows);
    wire::Push push{.worker = Incarnation{2},
                    .batch = {0, shard_, batch_++},
                    .records = kKeysPerPush,
                    .covered = covered_,
                    .sections = {{TableId{0}, kKeysPerPush}}};
    send(2, std::move(push), Bytes::copy_of(keys_.data(), keys_.size() * sizeof(uint64_t)),
         gradients_);
  }
  void end_shard() {
    wire::Push end{.worker = Incarnation{2},
                   .batch = {0, shard_++, batch_},
                   .end = true,
                   .counts = {.batches = batch_, .applied = uint64_t{batch_} * kKeysPerPush},
                   .covered = covered_};
    batch_ = 0;
    send(2, std::move(end));
  }
  void send(ps::PeerKey from, wire::Body body, Bytes keys = {}, Bytes values = {}) {
    wire::Message message;
    message.envelope = {.run = kCoreRun, .view = {1, 1}};
    message.body = std::move(body);
    message.keys = std::move(keys);
    message.values = std::move(values);
    core_.on_message(0, from, std::move(message), effects_);
    for (const ps::Send& sent : effects_.sends) {
      const auto* reply = std::get_if<wire::PushReply>(&sent.message.body);
      DP_CHECK(reply == nullptr || reply->others.empty(), shard_, batch_);  // all parts are applied
    }
    effects_.clear();
  }

  Rng rng_{1};
  ps::PsCore core_;
  ps::Effects effects_;
  wire::PartitionSet covered_;
  std::vector<uint64_t> keys_ = std::vector<uint64_t>(kKeysPerPush);
  Bytes gradients_ = Bytes::of(std::vector<float>(size_t{kKeysPerPush} * kDim, 0.01F));
  uint32_t shard_ = 0, batch_ = 0;
};

}  // namespace
}  // namespace downpour

int main() {
  downpour::Pushes pushes;
  pushes.run(downpour::kWarmUpS);
  std::printf("{\"rows_per_second\":%.0f}\n", pushes.run(downpour::kMeasureS));
}
