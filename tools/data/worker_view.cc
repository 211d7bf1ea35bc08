#include "tools/data/worker_view.h"

#include <utility>

#include "shared/data/reading/open_shard.h"
#include "shared/job/formats.h"
#include "shared/job/preset.h"
#include "shared/model/graph.h"

namespace downpour::tools {
namespace {

/// Makes the read plan of the job. For data files it uses the job that `downpour train` would make
/// for them. If that is impossible, the plan has no fields.
Result<std::shared_ptr<data::ReadPlan>> plan_of(const DataSet& set, const CutData& cut) {
  Job job = set.job;
  const Result<void> complete = set.from_job ? Result<void>{} : complete_job(job);
  job.data.source = cut.data.source;
  auto plan = std::make_shared<data::ReadPlan>();
  if (complete) {
    DP_TRY(const auto graph, model::Graph::build(job));
    plan = std::make_shared<data::ReadPlan>(
        *data::make_read_plan(job, graph->inputs(), graph->output_widths(), job.data.source,
                              cut.files, job.eval.holdout));
  } else {
    plan->data = cut.data;
    plan->source = cut.data.source;
    plan->files = cut.files;
    plan->seed = job.seed;
  }
  plan->programs = set.programs;
  return plan;
}

}  // namespace

Result<WorkerView> WorkerView::open(const DataSet& set, WorkerPlace worker, uint32_t epoch) {
  WorkerView view;
  DP_TRY(const CutData cut, cut_data(set, Numbers::kOfAll));
  DP_TRY(view.plan_, plan_of(set, cut));
  view.readable_ = readable_data(set);
  view.shards_ = plan::ShardMap(cut.ranges, set.job.seed, cut.joining);
  for (uint32_t place = 0; place < view.shards_.count(); ++place) {
    const std::vector<plan::ShardRange> ranges = view.shards_.at(epoch, place);
    const Piece first{.range = ranges.front(), .shard = {.epoch = epoch, .shard = place}};
    if (worker_of(cut, first, worker.count) != worker.index) continue;
    view.given_.push_back(first.shard);
    view.total_bytes_ += plan::bytes_of(ranges);
  }
  return view;
}

Result<void> WorkerView::open_shard() {
  const ShardId shard = given_[next_++];
  const data::Split part = plan_->holdout > 0 ? data::Split::kTrain : data::Split::kAll;
  DP_TRY(reader_,
         data::open_batch_reader(plan_, part, shard, shards_.at(shard.epoch, shard.shard), 0, {}));
  return {};
}

Result<bool> WorkerView::next(RawRecord& record) {
  for (;;) {
    if (reader_ == nullptr) {
      if (next_ == given_.size()) return false;
      DP_TRY_VOID(open_shard());
    }
    DP_TRY(const auto found, reader_->next_record());
    if (!found) {
      done_bytes_ += reader_->progress();
      reader_.reset();
      continue;
    }
    if (found->ref.size == data::RecordRef::kDropped) continue;
    file_ = found->file;
    record = {.offset = found->offset};
    if (is_arrays(readable_.format)) {
      DP_TRY_VOID(pick_row(record));
    } else if (!found->ref.is_whole()) {
      record.fault = data::fault_of(found->ref);
    } else {
      record.bytes = {found->text, found->ref.size};
      if (is_frames(readable_.format)) check_frame(record);
    }
    return true;
  }
}

Result<void> WorkerView::pick_row(RawRecord& record) {
  if (picked_file_ != file_) {
    DP_TRY(RowPicker picker, RowPicker::open(readable_, file().path));
    picker_ = std::make_unique<RowPicker>(std::move(picker));
    picked_file_ = file_;
  }
  DP_TRY(record.bytes, picker_->row(record.offset));
  return {};
}

uint64_t WorkerView::progress_bytes() const {
  return done_bytes_ + (reader_ == nullptr ? 0 : reader_->progress());
}

}  // namespace downpour::tools
