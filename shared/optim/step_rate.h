// StepRate: the learning rate of one step.
#pragma once

namespace downpour::optim {

struct StepRate {
  float rate = 0;   // with the factor of the schedule and Adam's bias correction
  float plain = 0;  // with the factor of the schedule only
  bool operator==(const StepRate&) const = default;
};

}  // namespace downpour::optim
