#include "chief/runtime/learn.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "shared/data/reading/dataset.h"
#include "shared/env/process.h"
#include "shared/env/storage.h"
#include "shared/job/field_output.h"
#include "shared/job/job_file.h"

namespace downpour::chief {
namespace {

constexpr uint32_t kBatchRecords = 1024;

/// Returns the first op of a field whose statistics are not known; null if there is none.
TransformSpec* first_open(FieldSpec& field) {
  const auto found = std::find_if(field.transform.begin(), field.transform.end(), is_open);
  return found == field.transform.end() ? nullptr : &*found;
}

bool any_open(const Job& job) {
  return std::any_of(job.data.fields.begin(), job.data.fields.end(), [](const FieldSpec& field) {
    return std::any_of(field.transform.begin(), field.transform.end(), is_open);
  });
}

/// Takes statistics from another run's job, for fields with the same ops.
void adopt(const Job& from, Job& job) {
  for (FieldSpec& field : job.data.fields) {
    const FieldSpec* const known = from.data.find_field(field.name);
    if (known == nullptr || known->transform.size() != field.transform.size()) continue;
    FieldSpec filled = field;
    for (size_t i = 0; i < filled.transform.size(); ++i) {
      TransformSpec& op = filled.transform[i];
      const TransformSpec& other = known->transform[i];
      if (is_open(op) && other.index() == op.index()) op = other;
    }
    if (filled.transform == known->transform) field = std::move(filled);
  }
}

/// Moments and bounds of one shard, then of all (Chan, Golub, LeVeque 1979).
struct Moments {
  double count = 0, mean = 0, squares = 0;  // squares: sum of the squared differences from the mean
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  void add(double x) {
    count += 1;
    const double before = x - mean;
    mean += before / count;
    squares += before * (x - mean);
    min = std::min(min, x);
    max = std::max(max, x);
  }
  void add(const Moments& other) {
    if (other.count == 0) return;
    const double all = count + other.count, apart = other.mean - mean;
    squares += other.squares + apart * apart * count * other.count / all;
    mean += apart * other.count / all;
    count = all;
    min = std::min(min, other.min);
    max = std::max(max, other.max);
  }
};

// Each op with statistics has one of these. The divisor is 1 for values that never vary or do not
// occur.
void fill_in(const Moments& moments, ops::Standardize& op) {
  const double scale = moments.count == 0 ? 0 : std::sqrt(moments.squares / moments.count);
  op.mean = moments.mean;
  op.scale = scale > 0 ? scale : 1;
}
void fill_in(const Moments& moments, ops::MinMax& op) {
  op.min = moments.count == 0 ? 0 : moments.min;
  op.max = moments.count == 0 ? 1 : moments.max;
  if (!(*op.min < *op.max)) op.max = *op.min + std::max(1.0, std::abs(*op.min));
}

using FieldMoments = std::vector<Moments>;

Result<FieldMoments> read_range(const std::shared_ptr<const data::ReadPlan>& plan,
                                const plan::ShardRange& range) {
  FieldMoments moments(plan->layout.floats.size());
  const data::Split part = plan->holdout > 0 ? data::Split::kTrain : data::Split::kAll;
  DP_TRY(const auto reader, data::open_shard(plan, part, {}, range, 0));
  Batch batch;
  for (;;) {
    DP_TRY(const bool more, reader->next(batch));
    if (!more) return moments;
    for (size_t i = 0; i < moments.size(); ++i)
      for (const float x : batch.floats[i].values) moments[i].add(double(x));
  }
}

/// Reads the ranges on several threads. Adds the results in the order of the ranges, so that the
/// sum does not depend on the threads.
Result<FieldMoments> read_all(const std::shared_ptr<const data::ReadPlan>& plan,
                              const std::vector<plan::ShardRange>& ranges) {
  std::vector<Result<FieldMoments>> parts(ranges.size(), FieldMoments{});
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    for (size_t i = next++; i < ranges.size() && !failed; i = next++) {
      parts[i] = read_range(plan, ranges[i]);
      if (!parts[i]) failed = true;
    }
  };
  {
    std::vector<std::jthread> threads;
    const size_t count = std::min<size_t>(allowed_cpus(), ranges.size());
    while (threads.size() + 1 < count) threads.emplace_back(work);
    work();
  }
  FieldMoments all(plan->layout.floats.size());
  for (Result<FieldMoments>& part : parts) {
    if (!part) return std::move(part).error();
    for (size_t i = 0; i < part->size(); ++i) all[i].add((*part)[i]);
  }
  return all;
}

/// Learns the first open op of each field that has one.
Result<void> learn_next(Job& job, const RunPlan& run, const std::vector<plan::ShardRange>& ranges) {
  auto plan = std::make_shared<data::ReadPlan>();
  plan->data = job.data;
  plan->data.shuffle = "off";
  plan->seed = job.seed;
  plan->batch_size = kBatchRecords;
  // If the program may never end, read only as much as training will read.
  const bool length_unknown = !run.train_files.empty() && run.train_files.front().is_open();
  const uint64_t batches = job.train.steps_per_epoch > 0 ? job.train.steps_per_epoch
                           : length_unknown              ? job.train.steps
                                                         : 0;
  plan->batches_max = (batches * job.train.batch_size + kBatchRecords - 1) / kBatchRecords;
  plan->holdout = job.eval.holdout;
  plan->source = job.data.source;
  plan->files = data::as_whole(run.train_files);
  plan->base_dir = job.base_dir;
  plan->training = false;
  std::vector<TransformSpec*> open;
  for (FieldSpec& field : job.data.fields) {
    TransformSpec* const op = first_open(field);
    if (op == nullptr) continue;
    const auto before = size_t(op - field.transform.data());
    for (FieldSpec& read : plan->data.fields) {
      if (read.name != field.name) continue;
      read.transform.resize(before);
      uint64_t width = 1;
      for (const int64_t d : number_shape(read)) width *= uint64_t(d);
      plan->layout.floats.push_back({field.name, uint32_t(width)});
    }
    open.push_back(op);
  }
  DP_TRY(const FieldMoments moments, read_all(plan, ranges));
  for (size_t i = 0; i < open.size(); ++i) {
    std::visit(
        [&](auto& op) {
          if constexpr (requires { op.is_open(); }) fill_in(moments[i], op);
        },
        *open[i]);
  }
  return {};
}

}  // namespace

Result<void> learn_statistics(RunPlan& plan, bool fresh) {
  Job& job = plan.job;
  if (!any_open(job)) return {};
  PosixStorage storage;
  for (const std::string& run_dir :
       {fresh ? std::string() : job.run_dir, job.train.warm_start.run}) {
    if (run_dir.empty() || !any_open(job)) continue;
    if (const auto saved = saved_job(storage, run_dir)) adopt(*saved, job);
  }
  const auto ranges = plan::cut_shards(data::as_whole(plan.train_files), plan.shard_bytes);
  while (any_open(job)) {
    DP_TRY_VOID(learn_next(job, plan, ranges).context("learning a transform's statistics"));
  }
  plan.job_text = job_to_toml(job);
  DP_TRY(plan.plan_hash, hash_of(plan));
  return {};
}

}  // namespace downpour::chief
