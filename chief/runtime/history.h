// History: converts finished epochs and evaluations to the JSON records of a manifest and back, so
// that a resumed run can show them.
#pragma once

#include <string>
#include <vector>

#include "chief/core/events.h"
#include "shared/checkpoint/manifest.h"
#include "shared/job/job.h"

namespace downpour::chief {

/// Returns the epoch records of a manifest. The n-th record holds the evaluations that ran after n
/// epochs.
std::vector<checkpoint::EpochRecord> to_records(const std::vector<EpochAccount>& epochs,
                                                const std::vector<Evaluation>& evaluations);
/// Reads the records. Parts that cannot be read are skipped, because they are only displayed.
/// `outputs` are those of the run's model.
void from_records(const std::vector<checkpoint::EpochRecord>& records,
                  const std::vector<OutputSpec>& outputs, std::vector<EpochAccount>& epochs,
                  std::vector<Evaluation>& evaluations);

}  // namespace downpour::chief
