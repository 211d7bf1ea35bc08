#include "chief/runtime/slices.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chief/runtime/work_on.h"
#include "shared/base/error_text.h"
#include "shared/base/str.h"
#include "shared/data/reading/dataset.h"
#include "shared/data/reading/slice_plan.h"
#include "shared/data/values/label_texts.h"
#include "shared/job/job_file.h"
#include "shared/model/graph.h"

namespace downpour::chief {
namespace {

constexpr size_t kSliceTextsMax = 10'000;  // more different values of a field are an error
constexpr uint32_t kCountedRecords = 1024;
constexpr size_t kCheckedFiles = 16;

/// The records of an evaluation.
struct EvaluationData {
  std::shared_ptr<const data::ReadPlan> plan;
  data::Split split = data::Split::kAll;
  std::vector<plan::ShardRange> ranges;
};

EvaluationData evaluation_data(const RunPlan& run) {
  const Job& job = run.job;
  const std::vector<uint32_t> widths(job.model.outputs.size(), 1);
  const auto reading = [&](const std::vector<plan::FileInfo>& files) {
    auto plan = std::make_shared<data::ReadPlan>(
        *data::make_read_plan(job, {}, widths, job.data.source, files, job.eval.holdout));
    plan->data.shuffle = "off";
    plan->training = false;
    plan->batches_max = 0;
    plan->batch_size = kCountedRecords;
    return plan;
  };
  if (run.eval_files.empty()) {
    const auto files = data::as_whole(run.train_files);
    return {reading(files), job.eval.holdout > 0 ? data::Split::kHeldOut : data::Split::kAll,
            plan::cut_held_out(files, data::joining_of(job.data, {}), run.shard_bytes)};
  }
  return {data::for_evaluation(*reading({}), job.eval.source, run.eval_files), data::Split::kAll,
          plan::cut_shards(run.eval_files, plan::eval_shard_bytes(data::joining_of(job.data, {}),
                                                                  run.shard_bytes))};
}

Result<void> count_all(const EvaluationData& data,
                       const std::shared_ptr<const data::ReadPlan>& plan) {
  return work_on(data.ranges.size(), [&](size_t i) -> Result<void> {
    DP_TRY(const auto reader, data::open_shard(plan, data.split, {}, data.ranges[i], 0));
    Batch batch;
    for (;;) {
      DP_TRY(const bool more, reader->next(batch));
      if (!more) return {};
    }
  });
}

/// Returns the most frequent texts, except those that a job file cannot hold and the empty one,
/// which is a missing value.
std::vector<std::string> most_frequent(const data::TextCounter& counter, size_t top) {
  std::vector<std::pair<std::string, uint64_t>> texts;
  for (const auto& [text, count] : counter.texts())
    if (!text.empty() && printable_line(text) == text) texts.emplace_back(text, count);
  std::ranges::stable_sort(texts, std::greater<>(), &std::pair<std::string, uint64_t>::second);
  std::vector<std::string> values;
  for (size_t i = 0; i < std::min(top, texts.size()); ++i) values.push_back(texts[i].first);
  return values;
}

}  // namespace

Result<void> check_evaluation(const RunPlan& run) {
  const Job& job = run.job;
  if (run.eval_files.empty() || job.eval.source.is_program() || !job.data.program.empty())
    return {};
  DP_TRY(const auto graph, model::Graph::build(job));
  const auto trained = data::make_read_plan(job, graph->inputs(), graph->output_widths(),
                                            job.data.source, {}, /*holdout=*/0);
  data::ReadPlan plan = *data::for_evaluation(*trained, job.eval.source, run.eval_files);
  plan.batches_max = 1;
  if (job.train.quarantine) plan.data.bad_records = BadRecords::kSkip;
  const auto shared = std::make_shared<const data::ReadPlan>(std::move(plan));
  const auto read = [&](const plan::ShardRange& range) -> Result<void> {
    Batch batch;
    DP_TRY(const auto reader, data::open_shard(shared, data::Split::kAll, {}, range, 0));
    DP_TRY_VOID(reader->next(batch));
    return {};
  };
  std::set<uint32_t> files;
  for (const plan::ShardRange& range : evaluation_data(run).ranges) {
    if (files.size() == kCheckedFiles) break;
    if (files.insert(range.file).second)
      DP_TRY_VOID(read(range).context("the evaluation's source"));
  }
  return {};
}

Result<void> choose_slices(RunPlan& run, wire::Purpose mode) {
  Job& job = run.job;
  std::vector<std::shared_ptr<data::TextCounter>> counters;
  bool open = false;
  for (const SliceSpec& slice : job.eval.slices) {
    // The empty text of missing values is counted, too.
    counters.push_back(
        slice.values.empty() ? std::make_shared<data::TextCounter>(kSliceTextsMax + 1) : nullptr);
    open = open || slice.values.empty();
  }
  const bool evaluates = mode != wire::Purpose::kTrain || !run.eval_files.empty();
  if (!open || (!evaluates && job.eval.holdout == 0)) return {};
  const SourceSpec& source = run.eval_files.empty() ? job.data.source : job.eval.source;
  if (source.is_program() || !job.data.program.empty()) {
    return Error{ErrorCode::kConfig,
                 "a program makes the evaluation data, so the values of eval.slices cannot be "
                 "counted before training",
                 "eval.slices", "list them: { field = \"country\", values = [\"de\", \"fr\"] }"};
  }
  const EvaluationData data = evaluation_data(run);
  DP_TRY(const auto plan, data::counting_slices(*data.plan, job.eval.slices, counters));
  DP_TRY_VOID(count_all(data, plan).context("counting the values of eval.slices"));
  for (size_t i = 0; i < counters.size(); ++i) {
    SliceSpec& slice = job.eval.slices[i];
    if (counters[i] == nullptr) continue;
    if (counters[i]->overflowed()) {
      return Error{
          ErrorCode::kBadData,
          str("the field `", slice.field, "` has more than ", kSliceTextsMax,
              " different values in the evaluation data"),
          str("eval.slices[", i, "]"),
          mode == wire::Purpose::kTrain
              ? str("list those to show: { field = \"", slice.field, "\", values = [...] }")
              : std::string("name a field with fewer values, or list those to show in "
                            "eval.slices of the job before training")};
    }
    slice.values = most_frequent(*counters[i], slice.top);
  }
  run.job_text = job_to_toml(job);
  return {};
}

}  // namespace downpour::chief
