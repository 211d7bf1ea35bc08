// Classes: finds the texts of a label in all records, because a sample may lack some of them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::chief {

struct LabelClasses {
  std::vector<std::string> texts;  // for FieldSpec::classes
  std::string most_frequent;
};

/// Returns the texts of the field `label` in all records of the training source. If there are two,
/// the positive class is last: the one that second_is_positive() names, or else the rarer one. More
/// than two are in ascending order. Uses several threads; the result does not depend on their
/// number. `data` must have its format and columns.
/// Errors: those of reading; kBadData if there are more than 1,000 texts, or only one.
Result<LabelClasses> find_classes(const DataSpec& data, const std::string& label,
                                  const std::string& base_dir);

/// The different values of a target of numbers.
struct LabelNumbers {
  std::set<double> values;
  std::vector<std::string> texts;  // of the values, as the records have them
  uint64_t records = 0;
  bool all_known = true;  // there are at most 1,000
};
/// Returns the numbers of the field `label` in all records of the training source. Skips
/// values that are no numbers; their records are bad. `data` must describe a table. Errors: those
/// of reading.
Result<LabelNumbers> find_numbers(DataSpec data, const std::string& label,
                                  const std::string& base_dir);

/// Compares the labels of the evaluation's source with the classes of their fields. Returns a note
/// about records that eval.unknown_labels = "skip" leaves out; empty if there are none. Error
/// kBadData: there are such labels, and the job does not skip them.
Result<std::string> check_labels(const Job& job);

/// Returns the classes of the field `label` in the job of the first of these runs that has it.
/// Empty if there is none. Skips empty entries of `run_dirs`.
std::vector<std::string> known_classes(const std::vector<std::string>& run_dirs,
                                       const std::string& label);

}  // namespace downpour::chief
