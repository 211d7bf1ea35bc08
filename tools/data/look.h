// Looks at data: what the verbs of `downpour data` do. Each prints its result to `out` and returns
// nothing but an error; counts of bad records come back in its result.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "shared/base/result.h"
#include "tools/data/data_set.h"
#include "tools/data/pieces.h"
#include "tools/data/values.h"

namespace downpour::tools {

struct LookOptions {
  bool json = false;
  size_t columns = 100;  // of the terminal
  WorkerPlace worker;
  uint32_t epoch = 0;
  /// Asked now and then; true ends the work with kInterrupted.
  std::function<bool()> stopped = [] { return false; };
  /// Told now and then how much is done.
  std::function<void(uint64_t records, uint64_t bytes, uint64_t of_bytes)> progress =
      [](uint64_t, uint64_t, uint64_t) {};
};

/// Bad records that were met, the first of them as errors.
struct Rejected {
  uint64_t count = 0;
  std::vector<Error> first;
};

/// The fields of the data: those declared, or those found in its first records.
Result<std::vector<ValueField>> fields_of(const DataSet& set);

/// The first `records` behind the first `skip`: a table, or where that is too wide a line a field;
/// with json an object a line.
Result<Rejected> show_head(const DataSet& set, uint64_t records, uint64_t skip,
                           const LookOptions& options, std::ostream& out);

/// Records and bytes of each file.
Result<void> show_count(const DataSet& set, const LookOptions& options, std::ostream& out);

/// The records of a file: by headers where they tell, else by finding every one; nothing is parsed.
/// `told` hears now and then of records and bytes.
Result<uint64_t> count_records(const DataSpec& data, const plan::FileInfo& info,
                               const std::function<bool()>& stopped,
                               const std::function<void(uint64_t, uint64_t)>& told);

/// Reads every record as a training would, or the way its file says, and names each bad one, at
/// most `limit` of them (0: all).
Result<Rejected> validate(const DataSet& set, uint64_t limit, const LookOptions& options,
                          std::ostream& out);

/// Missing values, different ones, extremes, moments, a histogram and the most frequent values of
/// every field, of at most `most` records (0: all).
Result<Rejected> show_stats(const DataSet& set, uint64_t most, const LookOptions& options,
                            std::ostream& out);

/// The shards, and which of `workers` reads which if all are equally fast; at most `limit` of them
/// (0: all).
Result<void> show_plan(const DataSet& set, uint32_t workers, uint64_t limit,
                       const LookOptions& options, std::ostream& out);

/// A field's values as they are shown, at most about `width` characters.
std::string value_text(const FieldValues& values, size_t width);
/// The same as JSON; null where it is missing.
void append_json_value(std::string& out, const FieldValues& values, bool scalar);
void append_json_text(std::string& out, std::string_view text);
bool is_utf8(std::string_view text);

/// Every so many records stop and progress are asked.
constexpr uint64_t kRecordsPerLook = 4096;
Error interrupted_error();

}  // namespace downpour::tools
