// StepNorms: the factors that limit the norm of a synchronous step's gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "chief/core/events.h"
#include "shared/base/bytes.h"
#include "shared/wire/control_messages.h"

namespace downpour::chief {

/// The gradient of a variable lies in many partitions, of several ps cores. Each core reports the
/// squared norms of its partitions. They are added in the order of the partitions, so that the
/// factors, and with them the variables, are the same for any number of ps.
class StepNorms {
 public:
  explicit StepNorms(const ChiefConfig& config);

  /// Returns whether a step is applied only when its norms are known.
  bool needed() const { return norm_ > 0 || global_norm_ > 0; }
  /// Begins to collect the norms of a step.
  void begin(const wire::Commit& commit);
  /// Returns whether the norms of a step are being collected.
  bool collecting() const { return step_.has_value(); }
  void clear() { step_.reset(); }
  /// Takes the report of a core. Returns false, and ignores it, if its size is wrong.
  bool take(const wire::Committed& measured, const Bytes& squares);
  /// Ends the collection. Returns the Commit that applies the step; nothing if the norms of some
  /// partition are missing.
  std::optional<wire::Commit> finish();

 private:
  std::vector<float> factors() const;

  double norm_ = 0, global_norm_ = 0;  // limits; 0: none
  uint32_t partitions_;
  std::optional<wire::Commit> step_;
  std::vector<std::vector<double>> squares_;  // by partition, then by norm; empty: not known yet
};

}  // namespace downpour::chief
