// Transcriber: yields the records of a data set in the form in which another data set stores them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/data/formats/codec.h"
#include "tools/data/data_set.h"
#include "tools/data/record_walk.h"

namespace downpour::tools {

/// Describes how records are written.
struct Transcription {
  DataFormat to = DataFormat::kAuto;
  bool converted = false;
  std::string preamble;  // bytes at the start of each file
  std::vector<data::ArrayForm>
      arrays;  // for npy; if a single one has no name, the shard is that file
  std::vector<data::ValueField> fields;  // fields of the records, if converted
  std::string target;
};
/// Plans how to write the set in format `to`; kAuto keeps the format of the data. Errors: kUsage
/// and kConfig if the set can't be written in that format.
Result<Transcription> plan_transcription(const DataSet& set, DataFormat to,
                                         const std::string& target);

/// Reads a data set once.
class Transcriber {
 public:
  static Result<Transcriber> open(const DataSet& set, const Transcription& how, bool skip_bad);
  /// Yields the next record, which stays valid until the next call. Returns false at the end. Error
  /// kBadData names a bad record, unless bad records are skipped.
  Result<bool> next(std::string_view& bytes);
  uint64_t skipped() const { return skipped_; }
  uint64_t progress_bytes() const { return walk_.progress_bytes(); }
  uint64_t total_bytes() const { return walk_.total_bytes(); }

 private:
  Transcriber(const DataSet& set, const Transcription& how, bool skip_bad, RecordWalk walk)
      : data_(readable_data(set)),
        declared_(set.declared),
        how_(how),
        skip_bad_(skip_bad),
        walk_(std::move(walk)) {}
  bool transcribe(const RawRecord& record, std::string_view& bytes, data::Fault& fault);
  Result<void> enter_file();

  DataSpec data_;
  bool declared_;
  Transcription how_;
  bool skip_bad_;
  RecordWalk walk_;
  const plan::FileInfo* file_ = nullptr;
  std::unique_ptr<data::RecordDecoder> decoder_;
  std::unique_ptr<data::RecordEncoder> encoder_;
  std::vector<data::FieldValues> values_;
  std::string encoded_;
  uint64_t skipped_ = 0;
};

}  // namespace downpour::tools
