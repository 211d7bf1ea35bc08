// Presets: short names for whole models and data formats, which expand to plain layers, columns and
// fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour {

/// Completes a job. data.format must be known. If the job leaves data.columns or data.fields open,
/// the caller must have set them from the data file. Adds the format's own columns and fields, and
/// expands runs of names, the model preset and default metrics. Then validates. Idempotent. Errors:
/// kConfig; `where` is the key.
Result<void> complete_job(Job& job);

/// The facts about a data file that its inspection finds (shared/data/formats/sniff.h), for
/// job_for_file().
struct FileFacts {
  std::string path;
  DataFormat format = DataFormat::kAuto;
  std::string record;  // TFRecord
  std::vector<std::string> columns;
  bool header = false;
  std::string delimiter;
  bool trim = false;
  std::vector<std::string> missing;
  std::vector<FieldSpec> fields;  // suggested types and transforms, including the target
  std::string target;
  uint32_t classes = 2;  // 2: binary; more: multi-class; 0: regression
  uint64_t records_estimated = 0;
  bool has_pairs = false;  // a field has keys with values, as in libsvm
  // Of a bag of keys: the mean over the records of the sum of squared products of two values; for
  // values of 1, the number of pairs of keys in a record.
  double pairs_per_record = 0;
  double largest_value = 0;  // absolute, of a key
  std::string reason;        // for the user, as in "libsvm: 123 features, labels -1 and 1"
};

/// Returns a job for a data file that comes without one; docs/models.md says which. A tenth of the
/// records is held out. The job is not complete.
Job job_for_file(const FileFacts& facts, const std::string& base_dir);

}  // namespace downpour
