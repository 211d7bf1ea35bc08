#include "shared/job/preset_optimizers.h"

#include <algorithm>
#include <cmath>

namespace downpour {
namespace {

/// Sets the optimizer and the reduction, and keeps the schedule that the job gives.
void set_optimizer(Job& job, const OptimizerSpec& optimizer) {
  const ScheduleSpec schedule = job.optimizer.schedule;
  job.optimizer = optimizer;
  job.optimizer.schedule = schedule;
  if (job.model.options.own_reduction) job.train.reduction = "sum";
}

OptimizerSpec ftrl_with(float l2) {
  OptimizerSpec ftrl = optimizer_defaults(OptimizerType::kFtrl);
  ftrl.l2 = l2;
  return ftrl;
}

}  // namespace

void set_linear_optimizer(Job& job) {
  if (job.model.options.own_optimizer) set_optimizer(job, optimizer_defaults(OptimizerType::kFtrl));
}

void set_network_optimizer(Job& job, const std::string& wide, const std::string& embedding) {
  if (!job.model.options.own_optimizer) return;
  set_optimizer(job, optimizer_defaults(OptimizerType::kAdam));
  OptimizerSpec adagrad = optimizer_defaults(OptimizerType::kAdagrad);
  adagrad.learning_rate = 0.02F;
  if (!wide.empty()) job.optimizer_rules.push_back({wide + "/weights", ftrl_with(1.0F)});
  if (!embedding.empty()) job.optimizer_rules.push_back({embedding + "/*", adagrad});
}

void add_line_optimizer(Job& job, const std::string& line, uint64_t columns) {
  if (!job.model.options.own_optimizer) return;
  OptimizerSpec ftrl = ftrl_with(0);
  ftrl.learning_rate = std::min(ftrl.learning_rate, 4 / float(columns));
  job.optimizer_rules.push_back({line + "/*", ftrl});
}

void set_machine_optimizer(Job& job, const std::string& linear, double pairs) {
  // Scores that are only compared need no penalty, and grow slowly under one.
  if (job.data.negatives.per_record > 0) {
    OptimizerSpec adagrad = optimizer_defaults(OptimizerType::kAdagrad);
    adagrad.learning_rate = 0.2F;
    return set_optimizer(job, adagrad);
  }
  OptimizerSpec vectors = ftrl_with(float(std::round(std::clamp(pairs / 2, 10.0, 1000.0))));
  vectors.learning_rate = 0.2F;
  set_optimizer(job, vectors);
  job.optimizer_rules = {{linear + "/*", ftrl_with(1.0F)}};
}

}  // namespace downpour
