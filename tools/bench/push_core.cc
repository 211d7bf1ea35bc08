// bench-push: measures the rows per second that one ps core applies from pushes, without a network.
// It is built twice. bench-push-unchecked neither checks nor moves watermarks, so the difference is
// the cost of exactly-once.
#include <cstdio>
#include <utility>
#include <variant>

#include "shared/base/check.h"
#include "shared/base/rng.h"
#include "tools/bench/measure.h"
#include "tools/bench/pushed_core.h"

namespace downpour {
namespace {

constexpr uint64_t kRows = 500'000;
constexpr uint32_t kKeysPerPush = PushedCore::kKeysPerPush;
constexpr uint32_t kBatchesPerShard = 64;
constexpr double kWarmUpS = 0.3;
constexpr double kMeasureS = 1.5;

class Pushes {
 public:
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
    for (uint64_t& key : ps_.keys) key = rng_.below(kRows);
    ps_.push({0, shard_, batch_++});
    check();
  }
  void end_shard() {
    wire::Push end{.worker = Incarnation{PushedCore::kWorker},
                   .batch = {0, shard_++, batch_},
                   .end = true,
                   .counts = {.batches = batch_, .applied = uint64_t{batch_} * kKeysPerPush},
                   .covered = ps_.covered};
    batch_ = 0;
    ps_.send(PushedCore::kWorker, std::move(end));
    check();
  }
  /// Checks that all parts were applied.
  void check() {
    for (const ps::Send& sent : ps_.effects.sends) {
      const auto* reply = std::get_if<wire::PushReply>(&sent.message.body);
      DP_CHECK(reply == nullptr || reply->others.empty(), shard_, batch_);
    }
    ps_.effects.clear();
  }

  Rng rng_{1};
  PushedCore ps_{OptimizerType::kSgd};
  uint32_t shard_ = 0, batch_ = 0;
};

}  // namespace
}  // namespace downpour

int main() {
  downpour::Pushes pushes;
  pushes.run(downpour::kWarmUpS);
  std::printf("{\"rows_per_second\":%.0f}\n", pushes.run(downpour::kMeasureS));
}
