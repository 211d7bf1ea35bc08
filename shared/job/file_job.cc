#include "shared/job/file_job.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "shared/base/object_scheme.h"
#include "shared/job/field_output.h"
#include "shared/job/formats.h"
#include "shared/job/number_inputs.h"
#include "shared/job/preset_optimizers.h"

namespace downpour {
namespace {

constexpr uint64_t kManyRecords = 1'000'000;
constexpr uint64_t kFewRecords = 5'000;  // an epoch of large batches would have too few steps

/// Sets the training of a network on a table of at most 50,000 records. Small batches give it
/// enough steps, one after the other, because gradients of weights from before the last step cost
/// accuracy there.
void set_up_small_table(Job& job) {
  job.model.options.dropout = 0.1F;
  job.train.batch_size = 128;
  job.train.in_flight = 1;
}

/// Sets the model and the training of a regression. With a squared loss, further reductions of
/// the learning rate keep helping, and a larger model pays off than with a logistic loss on as many
/// records.
void set_up_regression(Job& job, const FileFacts& facts) {
  PresetOptions& options = job.model.options;
  if (options.loss.empty()) options.loss = "squared";
  if (facts.records_estimated > kManyRecords) return;
  options.bins = 32;
  options.units = {256, 128};
  options.dim = 4;
  options.dropout = 0.1F;
  job.optimizer.schedule = {
      .type = ScheduleType::kPlateau, .factor = 0.3F, .patience = 3, .min = 0.03F};
}

}  // namespace

void set_form(DataSpec& data, const FileFacts& facts) {
  data.format = facts.format;
  data.record = facts.record;
  data.columns = facts.columns;
  data.header = facts.header;
  data.delimiter = facts.delimiter;
  data.missing = facts.missing;
}

Job job_for_file(const FileFacts& facts, const std::string& base_dir) {
  constexpr double kScaledMax = 10;  // products of larger values are too large for a machine
  Job job;
  std::filesystem::path path(facts.path);
  const std::filesystem::path source(facts.sources.empty() ? facts.path : facts.sources[0]);
  if (path.parent_path() == source) path = source;  // a folder
  const bool compressed =
      std::ranges::count(std::array{".gz", ".zst", ".zz", ".z"}, path.extension().string()) > 0;
  if (compressed) path = path.stem();
  job.name = path.stem().empty() ? "job" : path.stem().string();
  job.base_dir = base_dir;
  job.run_dir = (std::filesystem::path(base_dir) / "runs" / job.name).lexically_normal().string();
  job.data.source.paths = facts.sources.empty() ? std::vector{facts.path} : facts.sources;
  set_form(job.data, facts);
  job.data.skip_lines = facts.skip_lines;
  job.data.quoted_newlines = facts.quoted_newlines;
  job.data.trim = facts.trim;
  job.data.fields = facts.fields;
  job.data.filter = facts.filter;
  add_scaled_fields(job.data);
  PresetOptions& options = job.model.options;
  options.target = facts.target;

  const std::string target = facts.target.empty() ? "label" : facts.target;
  const bool categories =
      traits_of(facts.format).own_columns ||
      std::any_of(facts.fields.begin(), facts.fields.end(), [&](const FieldSpec& field) {
        return field.name != target && is_sparse(field) && !field.is_bag();
      });
  const bool numbers = std::ranges::any_of(facts.fields, [&](const FieldSpec& field) {
    return field.name != target && is_quantile(field);
  });
  const bool texts = std::ranges::any_of(facts.fields, [&](const FieldSpec& field) {
    return field.name != target && is_sparse(field) && field.is_bag();
  });
  // Such as users and items, of which the pairs matter.
  const bool two_ids = categories && !numbers && facts.classes <= 2 && facts.fields.size() == 3 &&
                       !traits_of(facts.format).own_columns;
  job.train.batch_size = facts.records_estimated > kManyRecords / 10 ? 512 : 256;
  const bool sparse_lines = has_sparse_lines(facts.format) || facts.has_pairs;
  if (facts.classes > 2 && !categories && !numbers && !sparse_lines && !texts) {
    job.model.preset = "softmax_mlp";
    options.units = {128, facts.classes};
  } else if (two_ids) {
    job.model.preset = "factorization_machine";
    if (facts.classes == 0) options.loss = "squared";
    if (facts.classes == 2) options.offset = Learned{.open = true};
    options.own_optimizer = true;
    job.train.reduction = "sum";
  } else if (categories || numbers || facts.classes != 2) {
    job.model.preset = "wide_deep";
    options.bins = 16;
    if (facts.records_estimated <= kManyRecords / 20) set_up_small_table(job);
    if (facts.classes == 0) set_up_regression(job, facts);
    if (facts.classes > 2) {
      options.loss = "softmax_cross_entropy", options.classes = facts.classes;
      // Several boundaries between classes need finer intervals and more units than one.
      if (facts.records_estimated <= kManyRecords) options.bins = 32, options.units = {256, 128};
    }
    if (facts.classes <= 2) options.offset = Learned{.open = true};
    options.own_optimizer = true;
    job.train.reduction = "sum";
  } else if (sparse_lines && facts.largest_value <= kScaledMax) {
    job.model.preset = "factorization_machine";
    options.offset = Learned{.open = true};
    set_machine_optimizer(job, "linear", facts.pairs_per_record);
    job.train.reduction = "sum";
  } else {
    job.model.preset = "logistic_regression";
    options.own_optimizer = true;
    job.train.reduction = "sum";
  }
  if (facts.records_estimated > 0 && facts.records_estimated <= kFewRecords)
    job.train.batch_size = 32;
  // Early stopping usually ends the training before.
  job.train.epochs = facts.records_estimated > kManyRecords ? 5 : 40;
  // Files are often sorted by label, user or time. A compressed file can't be read at many places,
  // and an object only with a request for each.
  if (!compressed && !is_object_path(facts.path)) job.data.interleave.cycle = 64;
  job.eval.holdout = 0.1;
  job.eval.early_stop.patience = facts.records_estimated > kManyRecords ? 2
                                 : facts.classes == 0                   ? 3
                                                                        : 5;
  job.eval.keep_best = true;
  return job;
}

}  // namespace downpour
