// RowScorer: rows as texts to predictions. The rows are read with the fields and the parsers of the
// training data, so that they get the same keys and numbers.
#include <algorithm>
#include <memory>
#include <utility>

#include "shared/data/reading/batch_columns.h"
#include "shared/data/values/declared_fields.h"
#include "shared/data/values/field_set.h"
#include "shared/job/field_output.h"
#include "shared/job/formats.h"
#include "tools/embedded/model.h"
#include "tools/embedded/scorer_buffers.h"

namespace downpour::tools {
namespace {

/// A whole chunk would cost several times as much as ten rows. Fewer rows may change the order of
/// sums, and so the last bits of a prediction.
constexpr uint32_t kFilledRows = 16;

bool is_number(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// Returns whether all keys of the model come from one list of integers. A table in memory then has
/// a column of pairs, which is what a line of libsvm has.
bool reads_pairs(const Job& job, const InputLayout& layout) {
  if (!is_memory(job.data.format) || layout.bags.empty()) return false;
  return std::ranges::all_of(layout.bags, [&](const BagInput& bag) {
    const FieldSpec* const field = job.data.find_field(bag.field);
    return bag.field == layout.bags[0].field && field != nullptr && field->is_bag() &&
           field->type == FieldType::kInt64;
  });
}

/// Returns the job, changed to read rows of JSON.
Job json_job(Job job) {
  for (const FieldSpec& field : default_fields(job.data.format))
    if (job.data.find_field(field.name) == nullptr) job.data.fields.push_back(field);
  for (FieldSpec& field : job.data.fields) {
    if (is_number(field.column)) field.column.clear();  // a position in a file without a header
    field.encoding.clear();
  }
  job.data.format = DataFormat::kJsonl;
  return job;
}

/// Returns the job, changed to read lines of libsvm, if its data have such lines or columns.
Job line_job(Job job) {
  if (!is_memory(job.data.format)) return job;
  job.data.format = DataFormat::kLibsvm;
  for (FieldSpec& field : job.data.fields) {
    if (!field.is_bag() || field.type != FieldType::kInt64) continue;
    field.column = "features";
  }
  return job;
}

bool is_target(const Job& job, const std::string& name) {
  return std::ranges::any_of(job.model.outputs, [&](const OutputSpec& output) {
    return output.target == name || output.weights == name;
  });
}

}  // namespace

struct RowScorer::State {
  explicit State(const Scorer& scorer) : buffers(scorer) {}

  std::unique_ptr<data::LineBatches> lines;
  Scorer::Buffers buffers;
  Batch batch;
};

RowScorer::RowScorer() = default;
RowScorer::~RowScorer() = default;

Result<std::unique_ptr<RowScorer>> RowScorer::make(std::shared_ptr<const Scorer> scorer) {
  std::unique_ptr<RowScorer> rows(new RowScorer);
  const Job& trained = scorer->job();
  const InputLayout& layout = scorer->graph_->inputs();
  const DataFormat format = trained.data.format;
  rows->takes_lines_ = has_sparse_lines(format) || reads_pairs(trained, layout);
  rows->grouped_ = format == DataFormat::kLibffm;
  rows->may_omit_ = format == DataFormat::kJsonl || is_frames(format);
  Job job = rows->takes_lines_ ? line_job(trained) : json_job(trained);
  job.data.bad_records = BadRecords::kFail;
  job.data.program.clear();
  auto plan = data::for_prediction(
      *data::make_read_plan(job, layout, scorer->widths(), SourceSpec{}, {}, 0), job.model.outputs);
  const data::JsonRules rules{.texts_are_cells = is_table(format) || is_memory(format),
                              .numbers_as_texts = is_table(format) || is_memory(format)};
  if (rows->takes_lines_) {
    rows->inputs_.push_back({.name = "features", .type = FieldType::kInt64, .shape = {-1}});
  } else {
    DP_TRY(const data::FieldSet fields, data::FieldSet::make(*plan));
    const auto add = [&](const FieldSpec& field) {
      const bool known = std::ranges::count(rows->inputs_, field.source_name(),
                                            &FieldSpec::source_name) > 0;  // of another field
      if (!known && !is_target(job, field.name)) rows->inputs_.push_back(field);
    };
    for (const auto& floats : fields.floats) add(floats.spec);
    for (const auto& keys : fields.keys) add(keys.spec);
  }
  rows->state_ = std::make_unique<State>(*scorer);
  DP_TRY(rows->state_->lines, data::LineBatches::make(std::move(plan), rules));
  rows->scorer_ = std::move(scorer);
  return rows;
}

Result<void> RowScorer::predict(std::span<const std::string_view> rows, std::vector<float>& out) {
  out.resize(rows.size() * scorer_->row_floats());
  if (rows.empty()) return {};
  DP_TRY_VOID(state_->lines->parse(rows, state_->batch));
  const uint32_t chunk_rows = std::min(scorer_->graph_->chunk_rows(), kFilledRows);
  scorer_->predict_batch(state_->batch, chunk_rows, state_->buffers,
                         /*raw=*/false, out.data());
  return {};
}

}  // namespace downpour::tools
