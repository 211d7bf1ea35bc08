// The job of a data file that comes without one: chooses the model and the training by the data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/job/job.h"

namespace downpour {

/// The facts about a data file that its inspection finds (shared/data/formats/sniff.h), for
/// job_for_file().
struct FileFacts {
  std::string path;                  // of the first file
  std::vector<std::string> sources;  // paths and globs of all files; empty: `path`
  DataFormat format = DataFormat::kAuto;
  std::string record;  // TFRecord
  std::vector<std::string> columns;
  bool header = false;
  uint32_t skip_lines = 0;  // before the header
  std::string delimiter;
  bool quoted_newlines = false;
  bool trim = false;
  std::vector<std::string> missing;
  std::vector<FieldSpec> fields;  // suggested types and transforms, including the target
  std::string filter;             // leaves out the records without a target
  std::string target;
  uint32_t classes = 2;  // 2: binary; more: multi-class; 0: regression
  uint64_t records_estimated = 0;
  bool has_pairs = false;  // a field has keys with values, as in libsvm
  // For a bag of keys: the sum of (x_i x_j)^2 over all pairs of keys of a record, where x is the
  // value of a key; the mean over the records. If all values are 1, this is the number of pairs.
  double pairs_per_record = 0;
  double largest_value = 0;           // absolute, of a key
  std::string reason;                 // for the user, as in "libsvm: 123 features, labels -1 and 1"
  std::vector<std::string> warnings;  // what the user may have to correct
};

/// Sets how the records of a file are stored: its format, columns and missing values.
void set_form(DataSpec& data, const FileFacts& facts);

/// Returns a job for a data file that comes without one; docs/models.md says which. A tenth of the
/// records is held out. The job is not complete.
Job job_for_file(const FileFacts& facts, const std::string& base_dir);

}  // namespace downpour
