// Presets: short names for whole models and data formats, written out as plain layers, columns and
// fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour {

/// Makes a job complete, once data.format is known and data.columns and data.fields hold what the
/// file says (where the job itself does not): the format's own columns and fields, runs, the model
/// preset, default metrics. Then validates. Idempotent. Errors: kConfig, where = the key.
Result<void> complete_job(Job& job);

/// What a look at a data file told (shared/data's sniff), and what job_for_file needs.
struct FileFacts {
  std::string path;
  DataFormat format = DataFormat::kAuto;
  std::string record;  // TFRecord
  std::vector<std::string> columns;
  bool header = false;
  std::string delimiter;
  bool trim = false;
  std::vector<std::string> missing;
  std::vector<FieldSpec> fields;  // suggested types and transforms; the target among them
  std::string target;
  uint32_t classes = 2;  // 2: binary; more: multi-class; 0: regression
  uint64_t records_estimated = 0;
  std::string reason;  // for the user: "libsvm: 123 features, labels -1 and 1"
};

/// The job for a data file without one: wide_deep where a CSV file has categories,
/// logistic_regression for other binary targets, softmax_mlp for more classes, linear_regression
/// for numbers. A tenth is held out. Not complete.
Job job_for_file(const FileFacts& facts, const std::string& base_dir);

}  // namespace downpour
