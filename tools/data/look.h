// The verbs of `downpour data`. Each prints its output to `out`. The functions that can meet bad
// records return them.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "shared/base/result.h"
#include "tools/data/data_set.h"
#include "tools/data/found_fields.h"
#include "tools/data/pieces.h"

namespace downpour::tools {

struct LookOptions {
  bool json = false;
  size_t columns = 100;  // width of the terminal
  WorkerPlace worker;
  uint32_t epoch_index = 0;
  /// Polled during the work. If it returns true, the work ends with kInterrupted.
  std::function<bool()> stopped = [] { return false; };
  /// Called during the work with the progress so far.
  std::function<void(uint64_t records, uint64_t bytes, uint64_t of_bytes)> progress =
      [](uint64_t, uint64_t, uint64_t) {};
};

/// The number of bad records, and the first of them as errors.
struct Rejected {
  uint64_t count = 0;
  std::vector<Error> first;
};

/// Returns the declared fields, or if there are none the fields found in the first records.
Result<std::vector<data::ValueField>> fields_of(const DataSet& set);

/// Prints `records` records after the first `skip`. The output is a table, or one line per field if
/// the table is too wide for the terminal. With json it is one object per line.
Result<Rejected> show_head(const DataSet& set, uint64_t records, uint64_t skip,
                           const LookOptions& options, std::ostream& out);

/// Prints the number of records and bytes of each file.
Result<void> show_count(const DataSet& set, const LookOptions& options, std::ostream& out);

/// Returns the number of records of a file. It reads headers if they contain the number; otherwise
/// it finds the end of every record. It parses no record. The callback is called during the work
/// with the records and bytes so far.
Result<uint64_t> count_records(const DataSpec& data, const plan::FileInfo& info,
                               const std::function<bool()>& stopped,
                               const std::function<void(uint64_t, uint64_t)>& told);

/// Reads every record as training would, or without a job as the file's format requires. Prints bad
/// records, at most `limit` of them (0: all).
Result<Rejected> validate(const DataSet& set, uint64_t limit, const LookOptions& options,
                          std::ostream& out);

/// Prints statistics of every field over at most `most` records (0: all): missing and distinct
/// values, extremes, moments, a histogram and the most frequent values.
Result<Rejected> show_stats(const DataSet& set, uint64_t most, const LookOptions& options,
                            std::ostream& out);

/// Prints at most `limit` shards (0: all), and which of `workers` reads each if all workers are
/// equally fast.
Result<void> show_plan(const DataSet& set, uint32_t workers, uint64_t limit,
                       const LookOptions& options, std::ostream& out);

/// Returns a field's values as text of at most about `width` characters.
std::string value_text(const data::FieldValues& values, size_t width);

/// The number of records between two calls of `stopped` and `progress`.
constexpr uint64_t kRecordsPerLook = 4096;
Error interrupted_error();

}  // namespace downpour::tools
