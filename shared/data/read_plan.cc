#include <utility>

#include "shared/data/dataset.h"

namespace downpour::data {

std::shared_ptr<const ReadPlan> make_read_plan(const Job& job, const InputLayout& layout,
                                               const std::vector<uint32_t>& widths,
                                               std::vector<plan::FileInfo> files, double holdout) {
  auto plan = std::make_shared<ReadPlan>();
  plan->data = job.data;
  plan->layout = layout;
  plan->seed = job.seed;
  plan->batch_size = job.train.batch_size;
  plan->drop_remainder = job.train.drop_remainder;
  plan->holdout = holdout;
  plan->files = std::move(files);
  for (size_t o = 0; o < job.model.outputs.size(); ++o) {
    const OutputSpec& output = job.model.outputs[o];
    const TargetKind kind = output.loss == "logistic"                ? TargetKind::kBinary
                            : output.loss == "softmax_cross_entropy" ? TargetKind::kClass
                                                                     : TargetKind::kAny;
    plan->targets.push_back({output.target, kind, widths[o]});
  }
  return plan;
}

std::shared_ptr<const ReadPlan> for_evaluation(const ReadPlan& plan,
                                               std::vector<plan::FileInfo> files) {
  auto out = std::make_shared<ReadPlan>(plan);
  out->files = std::move(files);
  out->holdout = 0;
  out->training = false;
  return out;
}

std::shared_ptr<const ReadPlan> for_prediction(const ReadPlan& plan) {
  auto out = std::make_shared<ReadPlan>(plan);
  out->data.shuffle = "off";
  out->data.filter.clear();
  out->drop_remainder = false;
  out->training = false;
  out->targets_optional = true;
  for (TargetRule& rule : out->targets) rule.kind = TargetKind::kAny;
  return out;
}

}  // namespace downpour::data
