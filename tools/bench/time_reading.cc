#include <atomic>
#include <ctime>
#include <future>
#include <memory>
#include <vector>

#include "chief/runtime/run_setup.h"
#include "shared/data/reading/dataset.h"
#include "shared/model/graph.h"
#include "tools/bench/input.h"
#include "tools/bench/measure.h"

namespace downpour::tools {
namespace {

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

/// Reads shard `next`, increments it, and continues until no shard is left.
Result<ReadTiming> read_shards(const std::shared_ptr<const data::ReadPlan>& reading,
                               const plan::ShardMap& shards, uint32_t epoch,
                               std::atomic<uint32_t>& next) {
  ReadTiming timing;
  const double cpu = cpu_seconds();
  Batch batch;
  for (uint32_t i = next++; i < shards.count(); i = next++) {
    DP_TRY(const auto reader,
           data::open_shard(reading, data::Split::kTrain, {epoch, i}, shards.at(epoch, i), 0));
    for (;;) {
      DP_TRY(const bool more, reader->next(batch));
      if (!more) break;
      timing.records += batch.records;
    }
    if (reader->totals().end_offset == plan::kOpenEnd) next = shards.count();
  }
  timing.cpu_s = cpu_seconds() - cpu;
  return timing;
}

Result<ReadTiming> read_epoch(const chief::RunPlan& plan,
                              const std::shared_ptr<const data::ReadPlan>& reading, uint32_t epoch,
                              uint32_t threads) {
  const plan::ShardMap shards = data::map_shards(
      plan.job, plan.train_files, plan::cut_shards(plan.train_files, plan.shard_bytes));
  const double wall = wall_seconds();
  std::atomic<uint32_t> next{0};
  std::vector<std::future<Result<ReadTiming>>> others;
  for (uint32_t t = 1; t < threads; ++t)
    others.push_back(
        std::async(std::launch::async, [&] { return read_shards(reading, shards, epoch, next); }));
  DP_TRY(ReadTiming timing, read_shards(reading, shards, epoch, next));
  for (auto& other : others) {
    DP_TRY(const ReadTiming more, other.get());
    timing.records += more.records;
    timing.cpu_s += more.cpu_s;
  }
  timing.wall_s = wall_seconds() - wall;
  timing.bytes = shards.open_piece() > 0 ? 0 : plan::bytes_of(shards.ranges());
  return timing;
}

}  // namespace

Result<ReadTiming> time_reading(const Job& job, const ReadingOptions& options) {
  DP_TRY(const chief::RunPlan plan, chief::plan_run(job, wire::Purpose::kTrain));
  DP_TRY(const auto graph, model::Graph::build(job));
  const auto reading =
      data::make_read_plan(plan.job, graph->inputs(), graph->output_widths(), plan.job.data.source,
                           plan.train_files, job.eval.holdout);
  if (!options.kept) return read_epoch(plan, reading, 0, options.threads);
  const auto cached =
      data::with_cache(*reading, data::make_cache_store(Cache::kMemory, UINT64_MAX / 2, ""));
  DP_TRY_VOID(read_epoch(plan, cached, 0, options.threads));
  return read_epoch(plan, cached, 1, options.threads);
}

}  // namespace downpour::tools
