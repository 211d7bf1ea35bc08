#include "worker/runtime/given_job.h"

#include <utility>

#include "shared/base/str.h"
#include "shared/data/reading/dataset.h"
#include "shared/data/reading/slice_plan.h"
#include "shared/job/job_file.h"
#include "shared/job/resume.h"
#include "shared/plan/range_limits.h"
#include "shared/plan/shard.h"

namespace downpour::worker {

Result<GivenJob> take_job(const wire::Welcome& welcome) {
  GivenJob given;
  DP_TRY(given.job, job_from_toml(welcome.job, welcome.base_dir));
  const Job& job = given.job;
  DP_TRY(given.graph, model::Graph::build(job));
  const plan::StreamSpec streams = data::stream_spec(job.data);
  const uint64_t eval_bytes =
      plan::eval_shard_bytes(data::joining_of(job.data, {}), welcome.shard_bytes);
  DP_TRY_VOID(plan::check_ranges(welcome.train_files, welcome.shard_bytes, streams));
  DP_TRY_VOID(plan::check_ranges(welcome.eval_files, eval_bytes, {}));
  DP_TRY_VOID(data::check_kinds(job.data.source, welcome.train_files));
  DP_TRY_VOID(data::check_kinds(job.eval.source, welcome.eval_files));
  DP_TRY_VOID(data::check_parts(job.data, welcome.train_files));
  ReaderOptions& readers = given.readers;
  readers.tables = given.graph->tables();
  readers.train = data::make_read_plan(job, given.graph->inputs(), given.graph->output_widths(),
                                       job.data.source, welcome.train_files, job.eval.holdout);
  readers.train_shards =
      data::map_shards(job, welcome.train_files,
                       plan::cut_streams(welcome.train_files, welcome.shard_bytes, streams));
  data::ReadPlan evaluated = *readers.train;
  evaluated.batch_size = job.train.eval_records();
  readers.eval_held_out = welcome.eval_files.empty() && job.eval.holdout > 0;
  if (readers.eval_held_out || welcome.eval_files.empty()) {
    auto all = std::make_shared<data::ReadPlan>(std::move(evaluated));
    all->batches_max = 0;
    all->training = false;
    readers.eval = all;
    readers.eval_ranges = plan::cut_held_out(welcome.train_files, data::joining_of(job.data, {}),
                                             welcome.shard_bytes);
  } else {
    readers.eval = data::for_evaluation(evaluated, job.eval.source, welcome.eval_files);
    readers.eval_ranges = plan::cut_shards(welcome.eval_files, eval_bytes);
  }
  readers.predict = data::for_prediction(*readers.eval, job.model.outputs);
  DP_TRY(readers.eval, data::with_slices(readers.eval, job.eval.slices));
  DP_TRY(readers.eval, data::with_groups(readers.eval, job.eval.group_by));
  return given;
}

std::string why_other(const Job& job, const std::string& text, const std::string& base_dir) {
  const auto other = job_from_toml(text, base_dir);
  if (!other) return "a job that this process can't read";
  const auto differences = frozen_differences(job, *other, /*epoch_open=*/true);
  if (differences.empty()) {
    // What is read for the metrics of slices and groups was decided with the first job.
    if (other->eval.slices != job.eval.slices) return "a job with other `eval.slices`";
    if (other->eval.group_by != job.eval.group_by) return "a job with another `eval.group_by`";
    return {};
  }
  return str("another job (`", differences[0].key, "` was ", differences[0].was, " and is ",
             differences[0].now, " now)");
}

Error exec_refused(const char* role) {
  return {ErrorCode::kPermission, str("the job starts a program on this machine: start this ", role,
                                      " with --allow-exec if you trust the author of the job")};
}

}  // namespace downpour::worker
