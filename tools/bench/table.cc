// Measures tables against a plain array: the cost of a look-up, of the slot layout and of growth.
// Both sides of a ratio use the thread's CPU time. Stalls are measured by the wall clock.
#include "ps/core/table.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <memory>
#include <numeric>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include "ps/runtime/page_toucher.h"
#include "shared/base/check.h"
#include "shared/base/rng.h"
#include "shared/base/thread_time.h"
#include "shared/base/units.h"
#include "tools/bench/bench.h"

namespace downpour::tools {
namespace {

constexpr uint32_t kDim = 16;
constexpr uint32_t kPartitionBits = 8;
constexpr size_t kKeysPerCall = 10'000;
constexpr double kPacedRowsMax =
    2e6;  // new rows per second; the most that a ps can receive if all keys are new

double wall_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
/// Returns the CPU time of this thread, so that other load on the machine affects rates less.
double now_s() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

/// An array of rows on huge pages. It is the limit of a table.
class PlainRows {
 public:
  PlainRows(uint64_t rows, size_t floats) : floats_(floats) {
    constexpr size_t kPage = 2 * kMiB;
    bytes_ = (rows * floats * sizeof(float) + 2 * kPage - 1) / kPage * kPage;
    raw_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    DP_CHECK(raw_ != MAP_FAILED, bytes_);
    ::madvise(raw_, bytes_, MADV_HUGEPAGE);
    const auto address = reinterpret_cast<uintptr_t>(raw_);
    base_ = reinterpret_cast<float*>((address + kPage - 1) / kPage * kPage);
    std::fill_n(base_, rows * floats, 0.1F);
  }
  ~PlainRows() { ::munmap(raw_, bytes_); }
  PlainRows(const PlainRows&) = delete;
  PlainRows& operator=(const PlainRows&) = delete;
  float* row(uint64_t i) const { return base_ + i * floats_; }

 private:
  size_t floats_;
  size_t bytes_ = 0;
  void* raw_ = nullptr;
  float* base_ = nullptr;
};

TableSpec spec_of(OptimizerType type, uint32_t dim) {
  VariableSpec variable{.name = "embedding", .dim = dim};
  variable.init = {.type = InitType::kUniform, .scale = 0.05F};
  variable.optimizer.type = type;
  variable.optimizer.learning_rate = 0.05F;
  return {.name = "bench", .table_variables = {variable}};
}

/// Returns the i-th key of a table.
uint64_t key_of(uint64_t i) { return mix64(i ^ 0x5bd1e995); }

void fill_table(ps::Table& table, uint64_t rows, const std::vector<float>& gradients) {
  std::vector<uint64_t> keys(kKeysPerCall);
  for (uint64_t begin = 0; begin < rows; begin += kKeysPerCall) {
    const size_t n = std::min<uint64_t>(kKeysPerCall, rows - begin);
    for (size_t i = 0; i < n; ++i) keys[i] = key_of(begin + i);
    table.apply(keys.data(), n, nullptr, gradients.data(), {});
  }
}

/// Visits `accesses` random rows in calls of kKeysPerCall: pairs of (row numbers, keys).
struct Accesses {
  Accesses(uint64_t count, uint64_t rows, uint64_t seed) : rows_(count), keys_(count) {
    Rng rng(seed);
    for (size_t i = 0; i < count; ++i) {
      rows_[i] = uint32_t(rng.below(rows));
      keys_[i] = key_of(rows_[i]);
    }
  }
  size_t calls() const { return rows_.size() / kKeysPerCall; }
  const uint32_t* rows(size_t call) const { return rows_.data() + call * kKeysPerCall; }
  const uint64_t* keys(size_t call) const { return keys_.data() + call * kKeysPerCall; }

 private:
  std::vector<uint32_t> rows_;
  std::vector<uint64_t> keys_;
};

/// Updates the rows at the given positions with Adagrad or SGD, without an index. Prefetches 16
/// rows ahead.
template <bool kAdagrad>
void update_plain(const PlainRows& rows, const uint32_t* at, const float* gradients) {
  constexpr size_t kAhead = 16;
  for (size_t i = 0; i < kKeysPerCall; ++i) {
    if (i + kAhead < kKeysPerCall) {
      const float* const next = rows.row(at[i + kAhead]);
      __builtin_prefetch(next, 1);
      if (kAdagrad) __builtin_prefetch(next + 16, 1);
    }
    float* __restrict w = rows.row(at[i]);
    const float* __restrict g = gradients + i * kDim;
    for (uint32_t j = 0; j < kDim; ++j) {
      if constexpr (kAdagrad) {
        float* const a = w + kDim;
        a[j] += g[j] * g[j];
        w[j] -= 0.05F * g[j] / __builtin_sqrtf(a[j]);
      } else {
        w[j] -= 0.05F * g[j];
      }
    }
  }
}

void read_plain(const PlainRows& rows, const uint32_t* at, float* out) {
  constexpr size_t kAhead = 16;
  for (size_t i = 0; i < kKeysPerCall; ++i) {
    if (i + kAhead < kKeysPerCall) __builtin_prefetch(rows.row(at[i + kAhead]));
    std::copy_n(rows.row(at[i]), kDim, out + i * kDim);
  }
}

template <bool kAdagrad>
void bench_apply(uint64_t rows, uint64_t accesses_count, uint64_t seed,
                 std::vector<BenchResult>& results) {
  const std::string name = kAdagrad ? "adagrad" : "sgd";
  const OptimizerType type = kAdagrad ? OptimizerType::kAdagrad : OptimizerType::kSgd;
  const std::vector<float> gradients(kKeysPerCall * kDim, 1e-3F);
  std::vector<float> values(kKeysPerCall * kDim);
  const Accesses accesses(accesses_count, rows, seed);
  std::vector<uint32_t> handle(kKeysPerCall * accesses.calls());
  const PlainRows plain(rows, kDim * (kAdagrad ? 2 : 1));
  ps::Table table(TableId{0}, spec_of(type, kDim), seed, kPartitionBits);
  fill_table(table, rows, gradients);

  const auto handle_of = [&](size_t c) { return handle.data() + c * kKeysPerCall; };
  const auto plain_apply = [&](size_t c) {
    update_plain<kAdagrad>(plain, accesses.rows(c), gradients.data());
  };
  const auto plain_read = [&](size_t c) { read_plain(plain, accesses.rows(c), values.data()); };
  const auto apply = [&](size_t c) {
    table.apply(accesses.keys(c), kKeysPerCall, nullptr, gradients.data(), {});
  };
  const auto pull = [&](size_t c) {
    table.pull(accesses.keys(c), kKeysPerCall, values.data(), handle_of(c));
  };
  const auto apply_by_handle = [&](size_t c) {
    table.apply(accesses.keys(c), kKeysPerCall, handle_of(c), gradients.data(), {});
  };
  // The variants take turns, and the best turn of each counts, so that other load on the machine
  // affects all of them equally. Each turn visits other random rows, so few of them are in a cache.
  constexpr size_t kTurns = 10;
  const size_t calls_per_turn = std::max<size_t>(1, accesses.calls() / kTurns);
  double best[5] = {};
  for (size_t first = 0; first + calls_per_turn <= accesses.calls(); first += calls_per_turn) {
    const auto run = [&](int which, auto&& call) {
      const double begin = now_s();
      for (size_t c = first; c < first + calls_per_turn; ++c) call(c);
      const double rate = double(calls_per_turn * kKeysPerCall) / 1e6 / (now_s() - begin);
      best[which] = std::max(best[which], rate);
    };
    run(0, plain_apply);
    run(1, apply);
    run(2, plain_read);
    run(3, pull);
    run(4, apply_by_handle);
  }
  const std::string limit = "plain array, prefetched";
  results.push_back({"table apply " + name, best[1], "Mrows/s", limit, best[0]});
  results.push_back({"table pull " + name, best[3], "Mrows/s", limit, best[2]});
  results.push_back({"table apply by handle " + name, best[4], "Mrows/s", limit, best[0]});
  const ps::TableMemory memory = table.memory();
  results.push_back({"index " + name, double(memory.index_bytes) / double(table.rows()), "B/key",
                     "24 B a key", 24, true});
}

/// Measures how fast the machine provides memory that was never touched before, in huge pages.
class FreshMemory {
 public:
  FreshMemory()
      : memory_(::mmap(nullptr, kBytes + kPage, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    DP_CHECK(memory_ != MAP_FAILED);
    ::madvise(memory_, kBytes + kPage, MADV_HUGEPAGE);
    auto* page = reinterpret_cast<volatile char*>(
        (reinterpret_cast<uintptr_t>(memory_) + kPage - 1) / kPage * kPage);
    const double begin = wall_s();
    for (size_t at = 0; at < kBytes; at += kPage) {
      const double start = wall_s();
      page[at] = 1;
      worst_s_ = std::max(worst_s_, wall_s() - start);
    }
    bytes_per_s_ = double(kBytes) / (wall_s() - begin);
  }
  ~FreshMemory() { ::munmap(memory_, kBytes + kPage); }
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;

  double bytes_per_s() const { return bytes_per_s_; }
  /// Returns the longest time of one page.
  double worst_s() const { return worst_s_; }

 private:
  static constexpr size_t kPage = 2 * kMiB, kBytes = 128 * kPage;
  void* memory_;
  double bytes_per_s_ = 0, worst_s_ = 0;
};

/// A table that grows as in a ps process.
struct Growing {
  ps::PageToucher toucher;
  ps::Table table{TableId{1},
                  spec_of(OptimizerType::kAdagrad, kDim),
                  1,
                  kPartitionBits,
                  {.prefault = &toucher}};
};

struct Growth {
  std::vector<double> calls_s;  // CPU time, ascending
  double wall_worst_s = 0, wall_median_s = 0;
  /// Returns the longest stall: the duration of the worst call minus that of the median call. Both
  /// are wall time without the time in which another thread ran on this core.
  double stall_s() const { return own_worst_s - own_median_s; }
  double own_worst_s = 0, own_median_s = 0;
  double still_worst_s = 0;  // wall time of calls without new keys, interleaved with the others
  int64_t faults = 0;        // page faults of the core's thread, for pages not touched in advance
  double index_bytes_max = 0, index_bytes_mean = 0;
};

/// Returns the number of minor page faults of this thread.
int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

/// Returns the seconds in which this thread was runnable but another thread ran; 0 if the system
/// does not provide it.
double waited_so_far_s(const ThreadTime& time) {
  return double(time.so_far().value_or(ThreadTime::Sums{}).waited_ns) / 1e9;
}

/// Grows an empty table with 10,000 new keys per call, and at most `rows_per_s` rows per second.
/// Paced growth alternates with calls of old keys, which show delays that the machine itself
/// causes.
Growth grow(ps::Table& table, uint64_t rows, double rows_per_s) {
  const std::vector<float> gradients(kKeysPerCall * kDim, 1e-3F);
  std::vector<uint64_t> keys(kKeysPerCall);
  const auto apply = [&](uint64_t first, double& worst_s) {
    for (size_t i = 0; i < kKeysPerCall; ++i) keys[i] = key_of(first + i);
    const double start = wall_s();
    table.apply(keys.data(), kKeysPerCall, nullptr, gradients.data(), {});
    const double took_s = wall_s() - start;
    worst_s = std::max(worst_s, took_s);
    return took_s;
  };
  Growth growth;
  std::vector<double> wall_s_of_calls, own_s_of_calls;
  const ThreadTime time;
  const double begin_s = wall_s();
  const int64_t faults = page_faults();
  for (uint64_t begin = 0; begin < rows; begin += kKeysPerCall) {
    const double early_s = begin_s + double(begin) / rows_per_s - wall_s();
    if (early_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(early_s));
    const double start = now_s();
    const double waited_s = waited_so_far_s(time);
    wall_s_of_calls.push_back(apply(begin, growth.wall_worst_s));
    own_s_of_calls.push_back(wall_s_of_calls.back() - (waited_so_far_s(time) - waited_s));
    growth.calls_s.push_back(now_s() - start);
    if (std::isfinite(rows_per_s)) apply(begin / 2, growth.still_worst_s);
    const double index_bytes = double(table.memory().index_bytes) / double(table.rows());
    growth.index_bytes_max = std::max(growth.index_bytes_max, index_bytes);
    growth.index_bytes_mean += index_bytes;
  }
  growth.faults = page_faults() - faults;
  growth.index_bytes_mean /= double(growth.calls_s.size());
  std::sort(growth.calls_s.begin(), growth.calls_s.end());
  std::sort(wall_s_of_calls.begin(), wall_s_of_calls.end());
  growth.wall_median_s = wall_s_of_calls[wall_s_of_calls.size() / 2];
  std::sort(own_s_of_calls.begin(), own_s_of_calls.end());
  growth.own_median_s = own_s_of_calls[own_s_of_calls.size() / 2];
  growth.own_worst_s = own_s_of_calls.back();
  return growth;
}

/// Measures growth. Stalls are measured at a realistic rate of new rows, at most half of the rate
/// at which the machine provides memory, because the thread that touches pages in advance needs CPU
/// time, too. Growth without a rate limit is measured in addition.
///
/// No memory is released before the end. After 2 s, the kernel of a virtual machine reports free
/// pages to the hypervisor in pieces. Each piece stops the machine for tens of milliseconds.
void bench_growth(uint64_t rows, std::vector<BenchResult>& results) {
  const FreshMemory fresh;
  results.push_back({"memory never touched before", fresh.bytes_per_s() / 1e9, "GB/s", "", 0});
  results.push_back({"the same, worst huge page", fresh.worst_s() * 1e3, "ms", "", 0});
  Growing one, other;
  constexpr double kRowBytes = 150;  // including the index
  const double paced_rows_per_s = std::min(kPacedRowsMax, fresh.bytes_per_s() / 2 / kRowBytes);
  const Growth paced = grow(one.table, rows, paced_rows_per_s);
  results.push_back({"paced growth", paced_rows_per_s / 1e6, "Mrows/s", "", 0});
  results.push_back(
      {"paced growth, worst call, CPU time", paced.calls_s.back() * 1e3, "ms", "", 0});
  // A call of 10,000 keys takes time without any stall. A stall is the additional wall time that a
  // peer waits.
  results.push_back(
      {"paced growth, worst call, wall clock", paced.wall_worst_s * 1e3, "ms", "", 0});
  results.push_back(
      {"paced growth, median call, wall clock", paced.wall_median_s * 1e3, "ms", "", 0});
  results.push_back({"paced growth, longest stall: beyond the median call", paced.stall_s() * 1e3,
                     "ms", "no stall over 5 ms", 5, true});
  results.push_back(
      {"paced growth, worst call of old keys between", paced.still_worst_s * 1e3, "ms", "", 0});
  results.push_back(
      {"paced growth, page faults of the core", double(paced.faults), "faults", "", 0});
  results.push_back(
      {"index while growing, mean", paced.index_bytes_mean, "B/key", "24 B a key", 24, true});
  results.push_back({"index while growing, worst", paced.index_bytes_max, "B/key", "", 0});
  const ps::TableMemory memory = one.table.memory();
  const double row_bytes = double(memory.row_bytes + memory.index_bytes) / double(rows);
  results.push_back({"memory, 16 floats and Adagrad", row_bytes, "B/row", "1.5 x rows and slots",
                     1.5 * 2 * kDim * sizeof(float), true});

  const Growth most = grow(other.table, rows, INFINITY);
  const double total_s = std::accumulate(most.calls_s.begin(), most.calls_s.end(), 0.0);
  const auto calls = most.calls_s.size();
  results.push_back({"table growth", double(rows) / total_s / 1e6, "Mrows/s", "", 0});
  results.push_back(
      {"table growth, median call of 10,000", most.calls_s[calls / 2] * 1e3, "ms", "", 0});
  results.push_back(
      {"table growth, 99th percentile", most.calls_s[calls * 99 / 100] * 1e3, "ms", "", 0});
  results.push_back({"table growth, worst call, wall clock", most.wall_worst_s * 1e3, "ms", "", 0});
}

/// Measures many small tables that grow at the same time, to 1,000 rows each.
void bench_small_tables(size_t tables, std::vector<BenchResult>& results) {
  constexpr size_t kRows = 1000;
  constexpr size_t kKeysPerTable = 10;  // per call
  const std::vector<float> gradients(kKeysPerTable * kDim, 1e-3F);
  std::vector<std::unique_ptr<ps::Table>> all;
  for (size_t t = 0; t < tables; ++t) {
    all.push_back(std::make_unique<ps::Table>(
        TableId(uint32_t(t)), spec_of(OptimizerType::kAdagrad, kDim), 1, kPartitionBits));
  }
  double worst_s = 0;
  const double begin = now_s();
  for (uint64_t first = 0; first < kRows; first += kKeysPerTable) {
    for (auto& table : all) {
      uint64_t keys[kKeysPerTable];
      for (size_t i = 0; i < kKeysPerTable; ++i) keys[i] = key_of(first + i);
      const double start = wall_s();
      table->apply(keys, kKeysPerTable, nullptr, gradients.data(), {});
      worst_s = std::max(worst_s, wall_s() - start);
    }
  }
  const double rows = double(tables * kRows);
  double bytes = 0;
  for (auto& table : all) bytes += double(table->memory().index_bytes + table->memory().row_bytes);
  const std::string name = std::to_string(tables) + " tables of 1,000 rows";
  results.push_back({name + ", growth", rows / (now_s() - begin) / 1e6, "Mrows/s", "", 0});
  results.push_back(
      {name + ", worst call, wall clock", worst_s * 1e3, "ms", "no stall over 5 ms", 5, true});
  results.push_back({name + ", memory", bytes / rows, "B/row", "1.5 x rows and slots",
                     1.5 * 2 * kDim * sizeof(float), true});
}

}  // namespace

std::vector<BenchResult> bench_table(const BenchOptions& options) {
  const uint64_t rows = options.quick ? 200'000 : 16'000'000;
  const uint64_t accesses = options.quick ? 200'000 : 8'000'000;
  std::vector<BenchResult> results;
  bench_growth(options.quick ? 200'000 : 10'000'000, results);
  bench_small_tables(options.quick ? 50 : 1000, results);
  bench_apply<false>(rows, accesses, options.seed, results);
  bench_apply<true>(rows, accesses, options.seed, results);
  return results;
}

}  // namespace downpour::tools
