// History: what a manifest keeps of finished epochs and evaluations, as JSON; so that a resumed run
// can still tell it.
#pragma once

#include <string>
#include <vector>

#include "chief/core/events.h"
#include "shared/checkpoint/manifest.h"

namespace downpour::chief {

/// The epochs' records of a manifest; the evaluations that ran after n epochs stand in the n-th
/// record.
std::vector<checkpoint::EpochRecord> to_records(const std::vector<EpochAccount>& epochs,
                                                const std::vector<Evaluation>& evaluations);
/// Back again. What can't be read is left out: it is for the reader's eyes only.
void from_records(const std::vector<checkpoint::EpochRecord>& records,
                  std::vector<EpochAccount>& epochs, std::vector<Evaluation>& evaluations);

}  // namespace downpour::chief
