#include "tools/sim/oracle_optimizers.h"

#include <cmath>

#include "shared/optim/schedule.h"

namespace downpour::sim {

double rate_of(const OracleVariable& table_variable, uint64_t step) {
  const OptimizerSpec& o = table_variable.optimizer;
  const double rate =
      double(o.learning_rate) * optim::schedule_factor(o.schedule, step, /*reductions=*/0);
  if (o.type != OptimizerType::kAdam) return rate;
  const double b1 = double(o.beta1), b2 = double(o.beta2), t = double(step);
  return rate * std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t));
}

void apply_row_wise(const OracleVariable& table_variable, double rate,
                    std::span<const double> gradient, double* stored) {
  double squares = 0;
  for (const double g : gradient) squares += g * g;
  double& a = stored[gradient.size()];
  if (a == 0) a = double(table_variable.optimizer.initial_accumulator);
  a += squares / double(gradient.size());
  const double row_rate = rate / (std::sqrt(a) + double(table_variable.optimizer.epsilon));
  for (size_t i = 0; i < gradient.size(); ++i) stored[i] -= row_rate * gradient[i];
}

void apply(const OracleVariable& table_variable, double rate, double gradient, double* stored,
           size_t at) {
  const OptimizerSpec& o = table_variable.optimizer;
  double& w = stored[at];
  if (table_variable.slots == 0) {
    w -= rate * gradient;
    return;
  }
  double& m = stored[at + table_variable.dim];  // momentum: the velocity
  if (o.type == OptimizerType::kMomentum) {
    m = double(o.momentum) * m + gradient;
    w -= rate * (o.nesterov ? gradient + double(o.momentum) * m : m);
    return;
  }
  double& v = stored[at + 2 * size_t{table_variable.dim}];
  const double b1 = double(o.beta1), b2 = double(o.beta2);
  m = b1 * m + (1 - b1) * gradient;
  v = b2 * v + (1 - b2) * gradient * gradient;
  w -= rate * m / (std::sqrt(v) + double(o.epsilon));
}

}  // namespace downpour::sim
