#include "tools/cli/dry_run.h"

#include <algorithm>
#include <string>

#include "chief/runtime/console.h"
#include "chief/runtime/report_text.h"
#include "shared/base/human.h"
#include "shared/data/reading/dataset.h"
#include "shared/optim/optimizer.h"

namespace downpour::tools {
namespace {

// Returns the bytes of one row of a table in a ps: weights and slots of each variable, and its
// share of the index.
uint64_t row_bytes(const TableSpec& table) {
  constexpr uint64_t kIndexBytes = 20;  // measured average per key
  uint64_t bytes = table.kind == TableKind::kEmbedding ? kIndexBytes : 0;
  for (const VariableSpec& variable : table.table_variables) {
    const uint64_t floats =
        table.kind == TableKind::kEmbedding ? variable.dim : variable.elements();
    bytes += (floats * (1 + slots_of(variable.optimizer)) + row_slots_of(variable.optimizer)) *
             sizeof(float);
  }
  return bytes;
}

}  // namespace

void print_dry_run(const chief::RunPlan& plan, const Origins& origins, const std::string& cluster,
                   std::FILE* out) {
  std::fprintf(out, "# The effective job. The comment after each value names its source.\n%s\n",
               job_to_toml(plan.job, &origins).c_str());
  std::fprintf(out, "# Cluster: %s\n", cluster.c_str());
  const std::string shards = chief::shards_text(plan.shards);
  std::fprintf(out, "# Data: %s, in %s; plan %016llx\n", data::text_of(plan.train_files).c_str(),
               shards.c_str(), static_cast<unsigned long long>(plan.plan_hash));
  std::fprintf(
      out, "# Reading: %s\n",
      data::sharding_text(plan.job.data, plan.train_files, plan.job.train.replicas).c_str());
  const auto ranges = plan::cut_streams(plan.train_files, plan.shard_bytes, plan.streams);
  const InterleaveSpec& interleave = plan.job.data.interleave;
  const uint64_t shares = plan.job.train.shares();
  const bool joined = shares > 0 ? ranges.size() > plan.shards : interleave.cycle > 1;
  if (shares > 0) {
    std::fprintf(out,
                 "# A shard is a replica's share of an epoch, which it trains alone: about %s "
                 "records%s\n",
                 grouped(plan.share_records).c_str(),
                 joined ? " from several of these ranges" : "");
  } else if (interleave.cycle > 1) {
    std::fprintf(out, "# A shard joins %u of these ranges and takes %u records of each in turn\n",
                 interleave.cycle, interleave.block);
  }
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < std::min(kShown, ranges.size()); ++i) {
    std::fprintf(out, "#   %s %zu: %s [%llu, %llu)", joined ? "range" : "shard", i,
                 plan.train_files[ranges[i].file].path.c_str(),
                 static_cast<unsigned long long>(ranges[i].begin),
                 static_cast<unsigned long long>(ranges[i].end));
    if (!plan.streams.shared()) std::fprintf(out, ", stream %u", ranges[i].stream);
    std::fputc('\n', out);
  }
  if (plan.shards == 0) std::fprintf(out, "#   ... and more until the program ends\n");
  if (ranges.size() > kShown) std::fprintf(out, "#   ... and %zu more\n", ranges.size() - kShown);
  const uint64_t ps = std::max(1U, plan.job.cluster.ps);
  std::fprintf(out, "# Memory per ps (of %llu):\n", static_cast<unsigned long long>(ps));
  for (const TableSpec& table : plan.tables) {
    const uint64_t each = row_bytes(table);
    if (table.kind == TableKind::kDense) {
      std::fprintf(out, "#   %s: dense, %s\n", table.name.c_str(),
                   human_bytes((each + ps - 1) / ps).c_str());
    } else {
      std::fprintf(out, "#   %s: %llu bytes per row; %s per million distinct keys\n",
                   table.name.c_str(), static_cast<unsigned long long>(each),
                   human_bytes(each * 1'000'000 / ps).c_str());
    }
  }
}

}  // namespace downpour::tools
