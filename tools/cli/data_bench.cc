#include "tools/cli/data_bench.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include <nlohmann/json.hpp>

#include "shared/base/human.h"
#include "shared/job/preset.h"
#include "tools/bench/input.h"
#include "tools/bench/measure.h"
#include "tools/data/record_walk.h"

namespace downpour::tools {
namespace {

struct Stage {
  const char* name;
  const char* json_name;
  ReadTiming best;
};

/// Measures finding every record without parsing any.
Result<ReadTiming> time_finding(const DataSet& set, const LookOptions& options) {
  DP_TRY(RecordWalk walk, RecordWalk::open(set, {}, 0));
  ReadTiming timing;
  const std::clock_t cpu = std::clock();
  const double begin = wall_seconds();
  RawRecord record;
  for (;;) {
    DP_TRY(const bool more, walk.next(record));
    if (!more) break;
    if (++timing.records % kRecordsPerLook == 0 && options.stopped()) return interrupted_error();
  }
  timing.wall_s = wall_seconds() - begin;
  timing.bytes = walk.progress_bytes();
  timing.cpu_s = double(std::clock() - cpu) / CLOCKS_PER_SEC;
  return timing;
}

std::string rate(double value, const char* unit) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g %s", value, unit);
  return text;
}

void print_text(const std::vector<Stage>& stages, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {
      {"through stage", "time", "share", "records", "bytes", "CPU per record"}};
  const double all = stages.back().best.wall_s;
  double before = 0;
  for (const Stage& stage : stages) {
    const ReadTiming& t = stage.best;
    const double seconds = std::max(t.wall_s, 1e-9);
    rows.push_back({stage.name, rate(t.wall_s, "s"),
                    rate(std::max(t.wall_s - before, 0.0) / std::max(all, 1e-9) * 100, "%"),
                    rate(double(t.records) / seconds / 1e6, "M/s"),
                    rate(double(t.bytes) / seconds / 1e6, "MB/s"),
                    rate(t.cpu_s / double(std::max<uint64_t>(t.records, 1)) * 1e6, "us")});
    before = std::max(before, t.wall_s);
  }
  out << table_text(rows, /*left_columns=*/1)
      << "on one thread; each row includes the stages above it, and `share` is the time that the "
         "stage adds\n";
}

}  // namespace

Result<void> bench_data(const DataSet& set, uint32_t rounds, const LookOptions& options,
                        std::ostream& out) {
  Job job = set.job;
  if (!set.from_job) {
    DP_TRY_VOID(complete_job(job).context("can't generate a job for these files"));
  }
  Job unshuffled = job;
  unshuffled.data.shuffle = "off";
  std::vector<Stage> stages = {{"find records", "find", {}},
                               {"parse, transform, batch", "parse", {}},
                               {"shuffle", "shuffle", {}}};
  for (uint32_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < stages.size(); ++i) {
      if (options.stopped()) return interrupted_error();
      DP_TRY(const ReadTiming timing, i == 0   ? time_finding(set, options)
                                      : i == 1 ? time_reading(unshuffled)
                                               : time_reading(job));
      if (round == 0 || timing.wall_s < stages[i].best.wall_s) stages[i].best = timing;
    }
  }
  if (!options.json) {
    print_text(stages, out);
    return {};
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Stage& stage : stages) {
    json[stage.json_name] = {{"records", stage.best.records},
                             {"bytes", stage.best.bytes},
                             {"wall_seconds", stage.best.wall_s},
                             {"cpu_seconds", stage.best.cpu_s}};
  }
  out << json.dump() << "\n";
  return {};
}

}  // namespace downpour::tools
