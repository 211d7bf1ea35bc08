// Slice plan: lets evaluations read the fields of eval.slices in addition to those of the model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/reading/read_plan.h"
#include "shared/job/job.h"

namespace downpour::data {

/// Returns a plan that reads one more column of floats for each slice, after those of the model:
/// the place of the record's value in `values`, counted from 1. Any other value and a missing one
/// read as 0. Error kConfig: a field is not declared, or has no single value.
Result<std::shared_ptr<const ReadPlan>> with_slices(const std::shared_ptr<const ReadPlan>& plan,
                                                    const std::vector<SliceSpec>& slices);

/// Returns a plan that reads two more columns: 48 bits of the hash of the field's text, in halves
/// that a float holds exactly. Missing values are one group. Returns the plan itself if `field` is
/// empty. Errors as above.
Result<std::shared_ptr<const ReadPlan>> with_groups(const std::shared_ptr<const ReadPlan>& plan,
                                                    const std::string& field);

/// Returns a plan that reads only the fields of the slices. The counter of each slice counts the
/// texts of its field, except missing ones; null: the field is not read. Errors as above.
Result<std::shared_ptr<const ReadPlan>> counting_slices(
    const ReadPlan& plan, const std::vector<SliceSpec>& slices,
    const std::vector<std::shared_ptr<TextCounter>>& counters);

}  // namespace downpour::data
