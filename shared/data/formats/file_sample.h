// FileSample: the beginning of a file, for format detection.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/base/units.h"
#include "shared/job/file_job.h"

namespace downpour::data {

/// The size of a sample, and the number of its lines that detection looks at.
constexpr size_t kSampleBytes = 8 * kMiB;
constexpr size_t kSampleLines = 10'000;

/// What detection finds in a file: its format, and the settings that a job for it needs, or the
/// error why they can't be derived.
struct Sniffed {
  DataFormat format = DataFormat::kAuto;
  Result<FileFacts> facts;
};

/// The fields of a job with a role that does not follow from their values. Detection declares them
/// without transforms and defaults, so that a record without a value is a bad record. Also says
/// which settings of the data are decided although they have their default.
struct Roles {
  struct Target {
    std::string name;
    std::string loss;           // "": not known
    bool may_be_class = false;  // the loss is a default: more than two texts are classes
  };
  std::vector<Target> targets;
  std::vector<std::string> weights;  // sample weights
  bool header_decided = false;       // DataSpec::header says whether there is a header
  bool missing_decided = false;      // DataSpec::missing has all texts that mean missing
  bool breaks_decided = false;       // DataSpec::quoted_newlines says whether quotes have them
};

/// The decompressed beginning of a file, kSampleBytes long. Reads the file when text() or lines()
/// is first called.
class FileSample {
 public:
  /// `declared` are the settings that the job has already: delimiter, header, columns, missing,
  /// skip_lines and quoted_newlines.
  FileSample(std::string path, const DataSpec& declared, const Roles& roles)
      : path_(std::move(path)), declared_(declared), roles_(roles) {}
  FileSample(const FileSample&) = delete;
  FileSample& operator=(const FileSample&) = delete;

  const std::string& path() const { return path_; }
  const DataSpec& declared() const { return declared_; }
  const Roles& roles() const { return roles_; }
  /// Returns the bytes; empty if the file can't be read.
  std::string_view text();
  /// Returns the lines after the skipped ones, without blank lines and line breaks. Empty if the
  /// file is no text.
  const std::vector<std::string_view>& lines();
  /// Returns the records after the skipped lines that are not blank, if `quoting` separates cells
  /// that may contain line breaks.
  std::vector<std::string_view> records(char quoting);
  /// Returns the error if the file can't be read.
  const std::optional<Error>& error() const { return error_; }

 private:
  void read();
  Result<void> try_read();

  const std::string path_;
  const DataSpec& declared_;
  const Roles& roles_;
  bool is_read_ = false;
  std::optional<Error> error_;
  std::string text_;
  std::string_view rest_;  // after the skipped lines, up to the last line break
  std::vector<std::string_view> lines_;
};

/// Parses a number like the parsers. Returns false if `text` is not a finite number.
bool number_of(std::string_view text, double& value);

}  // namespace downpour::data
