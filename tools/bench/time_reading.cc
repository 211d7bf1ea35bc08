#include <ctime>
#include <memory>

#include "chief/runtime/run_setup.h"
#include "shared/data/dataset.h"
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

Result<ReadTiming> read_epoch(const chief::RunPlan& plan, const std::shared_ptr<const data::ReadPlan>& reading,
                              uint32_t epoch) {
  const plan::ShardMap shards = data::map_shards(plan.job, plan.train_files, plan::cut_shards(plan.train_files, plan.shard_bytes));
  ReadTiming timing;
  for (const plan::FileInfo& file : plan.train_files) timing.bytes += file.bytes;
  const double wall = wall_seconds(), cpu = cpu_seconds();
  Batch batch;
  for (uint32_t i = 0; i < shards.count(); ++i) {
    DP_TRY(const auto reader, data::open_shard(reading, data::Part::kTrain, {epoch, i}, shards.at(epoch, i), 0));
    for (;;) {
      DP_TRY(const bool more, reader->next(batch));
      if (!more) break;
      timing.records += batch.records;
    }
  }
  timing.wall_s = wall_seconds() - wall;
  timing.cpu_s = cpu_seconds() - cpu;
  return timing;
}

}  // namespace

Result<ReadTiming> time_reading(const Job& job, bool kept) {
  DP_TRY(const chief::RunPlan plan, chief::plan_run(job, wire::Purpose::kTrain));
  DP_TRY(const auto graph, model::Graph::build(job));
  const auto reading = data::make_read_plan(plan.job, graph->inputs(), graph->output_widths(), plan.job.data.source,
                                            plan.train_files, job.eval.holdout);
  if (!kept) return read_epoch(plan, reading, 0);
  const auto cached = data::with_cache(*reading, data::make_cache_store(Cache::kMemory, UINT64_MAX / 2, ""));
  DP_TRY_VOID(read_epoch(plan, cached, 0));
  return read_epoch(plan, cached, 1);
}

}  // namespace downpour::tools
