#include "chief/runtime/learn.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "chief/runtime/work_on.h"
#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/data/reading/dataset.h"
#include "shared/data/values/quantiles.h"
#include "shared/env/storage.h"
#include "shared/job/coarse_floats.h"
#include "shared/job/field_output.h"
#include "shared/job/job_file.h"
#include "shared/model/graph.h"

namespace downpour::chief {
namespace {

constexpr uint32_t kBatchRecords = 1024;

/// Returns the first op of a field whose statistics are not known; null if there is none.
TransformSpec* first_open(FieldSpec& field) {
  const auto found = std::find_if(field.transform.begin(), field.transform.end(), is_open);
  return found == field.transform.end() ? nullptr : &*found;
}

bool learns(const OutputSpec& output) { return output.offset.open || output.scale.open; }

/// Returns whether any field has an op, or any output a number, that `matches` and is not known.
template <typename Matches>
bool any_open(const Job& job, Matches matches) {
  const auto in_field = [&](const FieldSpec& field) {
    return std::ranges::any_of(field.transform,
                               [&](const TransformSpec& op) { return is_open(op) && matches(op); });
  };
  const auto in_output = [&](const OutputSpec& output) {
    return learns(output) && matches(output);
  };
  return std::ranges::any_of(job.data.fields, in_field) ||
         std::ranges::any_of(job.model.outputs, in_output);
}
bool any_open(const Job& job) {
  return any_open(job, [](const auto& /*op*/) { return true; });
}

/// Returns whether a sample of the records is enough for the statistics.
bool sample_is_enough(const TransformSpec& op) { return std::holds_alternative<ops::Quantile>(op); }
bool sample_is_enough(const OutputSpec& /*output*/) { return true; }

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
  for (OutputSpec& output : job.model.outputs) {
    for (const OutputSpec& known : from.model.outputs) {
      if (known.name != output.name || known.target != output.target || known.loss != output.loss)
        continue;
      if (output.offset.open) output.offset = known.offset;
      if (output.scale.open) output.scale = known.scale;
    }
  }
}

/// Moments and bounds of one shard, then of all (Chan, Golub, LeVeque 1979).
struct Moments {
  double count = 0, mean = 0, squares = 0;  // squares: sum of the squared differences from the mean
  uint64_t values = 0;
  double clamped = 0;  // sum of the values, each clamped to [0, 1] as the logistic loss does
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  void add(double x, double weight = 1) {
    count += weight;
    ++values;
    const double before = x - mean;
    mean += weight * before / count;
    squares += weight * before * (x - mean);
    clamped += x > 0 ? weight * std::min(x, 1.0) : 0;  // NaN counts as 0
    min = std::min(min, x);
    max = std::max(max, x);
  }
  void add(const Moments& other) {
    if (other.count == 0) return;
    const double all = count + other.count, apart = other.mean - mean;
    squares += other.squares + apart * apart * count * other.count / all;
    mean += apart * other.count / all;
    clamped += other.clamped;
    count = all;
    values += other.values;
    min = std::min(min, other.min);
    max = std::max(max, other.max);
  }
  double deviation() const { return count == 0 ? 0 : std::sqrt(squares / count); }
  /// Moves all values by `origin`. The clamped values are not known then.
  void move(double origin) {
    mean += origin;
    min += origin;
    max += origin;
  }
};

/// A sample of at most kSampleMax values, the same for any number of threads: of all values, those
/// whose random numbers are smallest.
class Sample {
 public:
  /// `random` must be independent of the value, and the same in each run.
  void add(float x, uint64_t random) {
    values_.emplace_back(random, x);
    if (values_.size() >= 2 * kSampleMax) shorten();
  }
  void add(const Sample& other) {
    values_.insert(values_.end(), other.values_.begin(), other.values_.end());
    if (values_.size() >= 2 * kSampleMax) shorten();
  }
  /// Returns the values, each moved by `origin`.
  std::vector<double> values(double origin) const {
    Sample sample = *this;
    sample.shorten();
    std::vector<double> values;
    for (const auto& [random, x] : sample.values_) values.push_back(origin + double(x));
    return values;
  }

 private:
  static constexpr size_t kSampleMax = 200'000;
  void shorten() {
    if (values_.size() <= kSampleMax) return;
    std::nth_element(values_.begin(), values_.begin() + kSampleMax, values_.end());
    values_.resize(kSampleMax);
  }
  std::vector<std::pair<uint64_t, float>> values_;
};

struct Statistics {
  Moments moments;
  bool sampled = false;  // an op needs the sample
  Sample sample;
  double origin = 0;              // subtracted from the values of the sample
  uint32_t weights = kNoWeights;  // the column of the records' weights in plan->layout.floats
  static constexpr uint32_t kNoWeights = UINT32_MAX;
};

// Each op with statistics has one of these. The divisor is 1 for values that never vary or do not
// occur.
void fill_in(const Statistics& statistics, ops::Standardize& op) {
  const Moments& moments = statistics.moments;
  const double scale = moments.deviation();
  op.mean = moments.mean;
  op.scale = scale > 0 ? scale : 1;
}
void fill_in(const Statistics& statistics, ops::MinMax& op) {
  const Moments& moments = statistics.moments;
  op.min = moments.count == 0 ? 0 : moments.min;
  op.max = moments.count == 0 ? 1 : moments.max;
  if (!(*op.min < *op.max)) op.max = *op.min + std::max(1.0, std::abs(*op.min));
}

void fill_in(const Statistics& statistics, ops::Quantile& op) {
  std::vector<double> values = statistics.sample.values(statistics.origin);
  const bool coarse = !values.empty() &&
                      floats_are_coarse_between(std::ranges::min(values), std::ranges::max(values));
  op.boundaries = data::quantiles(std::move(values), op.intervals, /*as_floats=*/!coarse);
}

/// The offset is the best constant prediction; the scale is the standard deviation of the target.
/// Both count each record as training does: by its weight. If no record is positive, or if all are,
/// the best constant is infinite. Then half a record of the other class counts, too.
/// Targets with deviations so large that their squares overflow a float stay as they are.
void fill_in(const Statistics& statistics, OutputSpec& output) {
  const Moments& target = statistics.moments;
  const bool logistic = output.loss == "logistic", poisson = output.loss == "poisson",
             hinge = output.loss == "hinge";
  const double rate = target.count == 0 ? 0.5 : target.clamped / target.count;
  const double rarest = 0.5 / (double(target.values) + 1);
  const double mean = logistic ? std::clamp(rate, rarest, 1 - rarest) : target.mean;
  const double deviation = target.deviation();
  constexpr double kLargestMean = 1e30, kLargestDeviation = 1e18;
  const bool usable = std::abs(mean) < kLargestMean && deviation < kLargestDeviation;
  if (output.offset.open)
    output.offset = {!usable    ? 0.0F
                     : logistic ? float(std::log(mean / (1 - mean)))
                     : poisson  ? float(std::log(std::max(mean, rarest)))
                     : hinge    ? (rate > 0.5 ? 1.0F : -1.0F)
                                : float(mean)};
  if (output.scale.open) output.scale = {usable && deviation > 0 ? float(deviation) : 1.0F};
}

/// Returns the statistics of the targets of a record and its negatives.
Statistics of_negatives(uint32_t per_record) {
  Statistics statistics;
  statistics.moments.add(1);
  statistics.moments.add(0, per_record);
  return statistics;
}

using FieldStatistics = std::vector<Statistics>;

/// Adds the values of a batch, each with the weight of its record. Training leaves out records
/// whose weight is not above 0, so their values do not count.
void add_weighted(const std::vector<float>& values, const std::vector<float>& weights,
                  Moments& moments) {
  const size_t width = weights.empty() ? 1 : values.size() / weights.size();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto weight = double(weights[i / width]);
    if (weight > 0) moments.add(double(values[i]), weight);
  }
}

/// Adds the values of one range to `fields`, which are the first ones of plan->layout.floats.
Result<FieldStatistics> read_range(const std::shared_ptr<const data::ReadPlan>& plan,
                                   const plan::ShardRange& range, FieldStatistics fields) {
  Rng random(hash_combine(plan->seed, hash_combine(range.file, range.begin)));
  const data::Split part = plan->holdout > 0 ? data::Split::kTrain : data::Split::kAll;
  DP_TRY(const auto reader, data::open_shard(plan, part, {}, range, 0));
  Batch batch;
  for (;;) {
    DP_TRY(const bool more, reader->next(batch));
    if (!more) return fields;
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].weights != Statistics::kNoWeights) {
        add_weighted(batch.floats[i].values, batch.floats[fields[i].weights].values,
                     fields[i].moments);
        continue;
      }
      for (const float x : batch.floats[i].values) {
        fields[i].moments.add(double(x));
        if (fields[i].sampled) fields[i].sample.add(x, random.next());
      }
    }
  }
}

/// Reads the ranges on several threads. Adds the moments in the order of the ranges, so that the
/// sums do not depend on the threads. A sample is the same in any order, so it is added at once and
/// its memory freed.
Result<FieldStatistics> read_all(const std::shared_ptr<const data::ReadPlan>& plan,
                                 const std::vector<plan::ShardRange>& ranges,
                                 FieldStatistics fields) {
  std::vector<FieldStatistics> parts(ranges.size());
  std::mutex adding;
  const FieldStatistics empty = fields;
  const auto read = [&](size_t i) -> Result<void> {
    DP_TRY(parts[i], read_range(plan, ranges[i], empty));
    const std::lock_guard lock(adding);
    for (size_t f = 0; f < fields.size(); ++f)
      fields[f].sample.add(std::exchange(parts[i][f].sample, {}));
    return {};
  };
  DP_TRY_VOID(work_on(ranges.size(), read));
  for (const FieldStatistics& part : parts) {
    for (size_t i = 0; i < part.size(); ++i) fields[i].moments.add(part[i].moments);
  }
  return fields;
}

/// Reads fields again whose values are so large that batches, which contain floats, show too little
/// of their differences. This time the reader subtracts a mean from the values before it rounds
/// them. Field i of `plan->layout` has the statistics i.
Result<void> refine(const std::shared_ptr<data::ReadPlan>& plan,
                    const std::vector<plan::ShardRange>& ranges, const FieldStatistics& empty,
                    FieldStatistics& statistics) {
  std::vector<double> origins(statistics.size(), 0.0);
  for (size_t i = 0; i < statistics.size(); ++i) {
    const Moments& moments = statistics[i].moments;
    const double magnitude = std::max(std::abs(moments.min), std::abs(moments.max));
    if (moments.count == 0 || !floats_are_coarse(magnitude, moments.deviation())) continue;
    origins[i] = std::round(moments.mean);  // few digits, so that most differences are exact
    for (FieldSpec& field : plan->data.fields) {
      if (field.name == plan->layout.floats[i].field)
        field.transform.emplace_back(ops::Standardize{.mean = origins[i], .scale = 1});
    }
  }
  if (std::ranges::all_of(origins, [](double origin) { return origin == 0; })) return {};
  DP_TRY(statistics, read_all(plan, ranges, empty));
  for (size_t i = 0; i < statistics.size(); ++i) {
    statistics[i].origin = origins[i];
    statistics[i].moments.move(origins[i]);
  }
  return {};
}

/// Reads all fields of the model, because a record that is bad in one of them does not count.
Result<void> add_model_fields(const Job& job, data::ReadPlan& plan) {
  DP_TRY(const auto graph, model::Graph::build(job));
  const InputLayout& all = graph->inputs();
  for (const FloatInput& input : all.floats) {
    if (std::ranges::find(plan.layout.floats, input.field, &FloatInput::field) ==
        plan.layout.floats.end())
      plan.layout.floats.push_back(input);
  }
  // A field without its last ops gives no keys. It is read as numbers.
  const auto is_cut = [&](const std::string& name) {
    const FieldSpec* const whole = job.data.find_field(name);
    return whole != nullptr && std::ranges::any_of(whole->transform, is_open);
  };
  for (const BagInput& input : all.bags) {
    const FieldSpec* const field = job.data.find_field(input.field);
    const bool crosses_cut =
        field != nullptr && is_cross(*field) &&
        std::ranges::any_of(std::get<ops::Cross>(field->transform[0]).fields, is_cut);
    if (!crosses_cut && !is_cut(input.field)) plan.layout.bags.push_back(input);
  }
  plan.layout.tables = all.tables;
  plan.targets =
      data::make_read_plan(job, all, graph->output_widths(), job.data.source, {}, 0)->targets;
  return {};
}

/// Learns the first open op of each field that has one. If there is none, learns the outputs.
Result<void> learn_next(Job& job, const RunPlan& run, const std::vector<plan::ShardRange>& ranges) {
  auto plan = std::make_shared<data::ReadPlan>();
  plan->data = job.data;
  plan->data.shuffle = "off";
  // The batches with these records will be quarantined.
  if (job.train.quarantine) plan->data.bad_records = BadRecords::kSkip;
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
  FieldStatistics fields;
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
    fields.push_back({.sampled = std::holds_alternative<ops::Quantile>(*op)});
  }
  std::vector<OutputSpec*> outputs;
  for (OutputSpec& output : job.model.outputs) {
    if (!open.empty() || !learns(output)) continue;
    if (job.data.negatives.given()) {  // all targets of the records are 1
      fill_in(of_negatives(job.data.negatives.per_record), output);
      continue;
    }
    uint64_t width = 1;
    for (const int64_t d : number_shape(*job.data.find_field(output.target))) width *= uint64_t(d);
    plan->layout.floats.push_back({output.target, uint32_t(width)});
    plan->targets.push_back({.field = output.target});
    outputs.push_back(&output);
    fields.emplace_back();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]->weights.empty()) continue;
    fields[i].weights = uint32_t(plan->layout.floats.size());
    plan->layout.floats.push_back({outputs[i]->weights, 1});
  }
  if (fields.empty()) return {};
  if (plan->data.bad_records == BadRecords::kSkip) DP_TRY_VOID(add_model_fields(job, *plan));
  DP_TRY(FieldStatistics statistics, read_all(plan, ranges, fields));
  if (outputs.empty()) DP_TRY_VOID(refine(plan, ranges, fields, statistics));
  for (size_t i = 0; i < outputs.size(); ++i) fill_in(statistics[i], *outputs[i]);
  for (size_t i = 0; i < open.size(); ++i) {
    std::visit(
        [&](auto& op) {
          if constexpr (requires { op.is_open(); }) fill_in(statistics[i], op);
        },
        *open[i]);
  }
  return {};
}

/// Keeps ranges of about kSampleBytes in all, at equal distances.
void thin_out(std::vector<plan::ShardRange>& ranges) {
  constexpr double kSampleBytes = 64 << 20;
  double bytes = 0;
  for (const plan::ShardRange& range : ranges) bytes += double(range.end - range.begin);
  const auto kept = size_t(std::ceil(double(ranges.size()) * std::min(1.0, kSampleBytes / bytes)));
  for (size_t i = 0; i < kept; ++i) ranges[i] = ranges[i * ranges.size() / kept];
  ranges.resize(kept);
}

}  // namespace

Result<void> learn_statistics(RunPlan& plan, bool fresh) {
  Job& job = plan.job;
  if (!any_open(job)) return {};
  PosixStorage storage;
  if (!fresh) {
    if (const auto saved = saved_job(storage, job.run_dir)) adopt(*saved, job);
  }
  if (const std::string source = job.train.warm_start.source(); !source.empty() && any_open(job)) {
    if (const auto trained = model_job(storage, source)) adopt(*trained, job);
  }
  auto ranges = plan::cut_shards(data::as_whole(plan.train_files), plan.shard_bytes);
  if (!any_open(job, [](const auto& op) { return !sample_is_enough(op); })) thin_out(ranges);
  while (any_open(job)) {
    DP_TRY_VOID(learn_next(job, plan, ranges).context("learning a transform's statistics"));
  }
  plan.job_text = job_to_toml(job);
  DP_TRY(plan.plan_hash, hash_of(plan));
  return {};
}

}  // namespace downpour::chief
