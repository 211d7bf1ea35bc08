// Measures checkpoints during pushes: the rate of writing images against a plain write of the same
// number of bytes, the remaining rate of pushes, and the longest pause of all pushes and pulls.
#include <algorithm>
#include <fcntl.h>
#include <memory>
#include <string>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "ps/runtime/image_store.h"
#include "ps/runtime/save_pace.h"
#include "shared/base/check.h"
#include "shared/base/rng.h"
#include "shared/env/background.h"
#include "shared/env/process.h"
#include "shared/env/storage.h"
#include "tools/bench/bench.h"
#include "tools/bench/measure.h"
#include "tools/bench/pushed_core.h"

namespace downpour::tools {
namespace {

constexpr uint64_t kSaveRowBytes = 8 + 2 * 4 * PushedCore::kDim;  // key, weights, one slot
constexpr uint32_t kKeysPerPush = PushedCore::kKeysPerPush;
constexpr uint32_t kPushesPerTurn = 4;  // between two copies of partitions

double thread_seconds() {
  timespec time{};
  DP_CHECK(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

/// One ps core with its storage thread, as in the shell, and a worker that only pushes.
class Serving {
 public:
  Serving(uint64_t rows, uint64_t seed, const std::string& folder, bool incremental = false)
      : rows_(rows),
        rng_(seed),
        folder_(folder),
        ps_(OptimizerType::kAdagrad, incremental),
        store_(storage_, ps_.tables, "ps.ckpt") {
    for (uint64_t key = 0; key < rows; key += kKeysPerPush) push(key);
  }

  /// Pushes random rows until `until` returns true. Returns rows per second.
  template <typename Until>
  double serve(Until&& until) {
    const double begin_s = wall_seconds();
    uint64_t pushed = 0;
    do {
      for (uint32_t i = 0; i < kPushesPerTurn; ++i, pushed += kKeysPerPush) push(UINT64_MAX);
      turn();
    } while (!until());
    return double(pushed) / (wall_seconds() - begin_s);
  }
  /// Pushes random rows for this time. Returns rows per second of this thread's CPU time, so that
  /// other load on the machine matters less.
  double serve_cpu(double seconds) {
    const double begin_s = wall_seconds(), begin_cpu_s = thread_seconds();
    uint64_t pushed = 0;
    for (; wall_seconds() - begin_s < seconds; pushed += kKeysPerPush) push(UINT64_MAX);
    return double(pushed) / (thread_seconds() - begin_cpu_s);
  }
  void begin_save() {
    ps_.send(ps::kChiefPeer, wire::Save{.checkpoint = {1, ++saves_}, .folder = folder_});
    run();
    saved_.reset();
  }
  bool saved() const { return saved_.has_value(); }
  uint64_t saved_bytes() const {
    DP_CHECK(saved_->ok, saved_->error);
    uint64_t bytes = 0;
    for (const wire::ImageRef& image : saved_->images) bytes += image.bytes;
    return bytes;
  }
  double longest_copy_s() const { return longest_copy_s_; }
  double copying_s() const { return copying_s_; }

 private:
  /// Pushes the keys from `first` on, or random keys if `first` is UINT64_MAX.
  void push(uint64_t first) {
    for (uint32_t i = 0; i < kKeysPerPush; ++i) {
      ps_.keys[i] = first == UINT64_MAX ? rng_.below(rows_) : first + i;
    }
    ps_.push({0, 0, batch_++});
    run();
  }
  void turn() {
    background_.run_completions();
    const double begin_s = wall_seconds();
    const auto begin_ns = int64_t(begin_s * 1e9);
    pace_.served(begin_ns);
    if (!ps_.core.saves() || begin_ns < pace_.due_ns()) return;
    ps_.core.continue_save(ps_.effects);
    const double copy_s = wall_seconds() - begin_s;
    uint64_t bytes = 0;
    for (const ps::Store& store : ps_.effects.stores) bytes += checkpoint::bulk_bytes(store.image);
    pace_.copied(begin_ns, bytes, ps::SavePace::bytes_per_s(allowed_cpus(), 1));
    longest_copy_s_ = std::max(longest_copy_s_, copy_s);
    copying_s_ += copy_s;
    run();
  }
  void run() {
    for (ps::Send& send : ps_.effects.sends) {
      if (auto* saved = std::get_if<wire::Saved>(&send.message.body)) saved_ = std::move(*saved);
    }
    for (ps::Store& store : ps_.effects.stores) {
      background_.start([this, held = std::make_shared<ps::Store>(std::move(store))] {
        auto stored = store_.write(*held);
        return Background::Completion([this, held, stored = std::move(stored)] {
          ps_.core.on_image_written(held->checkpoint, std::move(held->image));
          if (stored) ps_.core.on_stored(held->checkpoint, *stored, ps_.effects);
        });
      });
    }
    ps_.effects.clear();
  }

  uint64_t rows_;
  Rng rng_;
  std::string folder_;
  PosixStorage storage_;
  PushedCore ps_;
  ps::ImageStore store_;
  ps::SavePace pace_;
  uint32_t batch_ = 0, saves_ = 0;
  std::optional<wire::Saved> saved_;
  double longest_copy_s_ = 0, copying_s_ = 0;
  BackgroundThread background_{[] {}};  // last, because its tasks use the members above
};

/// Compares pushes that mark touched rows for incremental checkpoints with pushes that do not.
BenchResult marking(const BenchOptions& options, const ScratchDir& scratch) {
  const uint64_t rows = (options.quick ? 32'000'000 : 300'000'000) / kSaveRowBytes;
  Serving plain(rows, options.seed, scratch.path() + "/plain-rows");
  Serving marked(rows, options.seed, scratch.path() + "/marked-rows", /*incremental=*/true);
  Repeated rate;
  for (int i = 0; i < (options.quick ? 3 : 9); ++i) {
    const double with = marked.serve_cpu(0.2);
    rate.add(with / 1e6, plain.serve_cpu(0.2) / 1e6);
  }
  return rate.result("pushes with touched rows marked", "M rows/s of CPU", "not marked");
}

/// Writes a file like `dd bs=1M conv=fsync`. Returns the seconds.
double plain_write_s(const std::string& path, uint64_t bytes) {
  const std::vector<char> block(1 << 20, 'x');
  const double begin_s = wall_seconds();
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  DP_CHECK(fd >= 0, path);
  for (uint64_t done = 0; done < bytes; done += block.size()) {
    DP_CHECK(::write(fd, block.data(), block.size()) == ssize_t(block.size()), path);
  }
  DP_CHECK(::fsync(fd) == 0, path);
  ::close(fd);
  const double seconds = wall_seconds() - begin_s;
  ::unlink(path.c_str());
  return seconds;
}

}  // namespace

std::vector<BenchResult> bench_checkpoint(const BenchOptions& options) {
  const uint64_t state_bytes = options.quick ? 32'000'000 : 1'000'000'000;
  const int repeats = options.quick ? 1 : 3;
  const double base_s = options.quick ? 0.2 : 2;
  const ScratchDir scratch;
  Serving serving(state_bytes / kSaveRowBytes, options.seed, scratch.path() + "/ckpt");
  Repeated speed, rate, copying;
  for (int i = 0; i < repeats; ++i) {
    const double begin_s = wall_seconds();
    const double alone = serving.serve([&] { return wall_seconds() - begin_s > base_s; });
    serving.begin_save();
    const double save_s = wall_seconds(), copied_s = serving.copying_s();
    const double meanwhile = serving.serve([&] { return serving.saved(); });
    const double seconds = wall_seconds() - save_s;
    const auto bytes = double(serving.saved_bytes());
    rate.add(meanwhile / 1e6, alone / 1e6);
    copying.add((serving.copying_s() - copied_s) / seconds, 1);
    speed.add(bytes / seconds / 1e6,
              bytes / plain_write_s(scratch.path() + "/plain", uint64_t(bytes)) / 1e6);
  }
  return {speed.result("checkpoint while pushes are served", "MB/s", "dd bs=1M conv=fsync"),
          rate.result("pushes while a checkpoint is written", "M rows/s", "the same without"),
          copying.result("time of the core that copies", "of 1", "all of it"),
          {"longest copy of a turn", serving.longest_copy_s() * 1e3, "ms", "a pause per partition",
           50, true},
          marking(options, scratch)};
}

}  // namespace downpour::tools
