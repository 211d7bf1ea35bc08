// LineWindows: the lines that begin in a byte range of a text file.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/data/byte_source.h"
#include "shared/data/record_cuts.h"
#include "shared/data/window.h"
#include "shared/job/job.h"

namespace downpour::data {

/// What stands before the first record of a file.
struct Preamble {
  uint64_t bytes = 0;  // byte order mark, skipped lines, header
  std::string header;  // the header line, without line break
};
/// Reads it; `header`: whether there is one. Errors: kBadData where the file ends before it does;
/// as of rules_of().
Result<Preamble> read_preamble(const std::string& path, const DataSpec& data, bool header);

/// Lines that are blank are no records, nor (with `comments`) those that begin with '#'. A line
/// ends in LF or CR LF; the last one needs none.
struct LineRules {
  bool comments = false;
  bool every = false;  // each line is a record, blank or not
  // What stands between a table's cells, where a record goes on behind a line break in quotes (RFC
  // 4180); else 0. Quotes that nothing closes within 16 MiB cost no more than their own line.
  char quoting = 0;
};

/// Errors: as of delimiter_of().
Result<LineRules> rules_of(const DataSpec& data);

/// The first records of a text, at most so many; of one that goes on (`whole` is false) not those
/// that may.
std::vector<std::string_view> records_in(std::string_view text, LineRules rules, bool whole,
                                         size_t records_max = SIZE_MAX);

/// Where a plain file, whose records hide their ends in quotes, may be cut: see find_frame_cuts().
Result<RecordCuts> find_line_cuts(const DataSpec& data, const plan::FileInfo& info,
                                  uint64_t target_bytes, uint64_t records_max);

/// Windows of about `window_bytes` of text each, in `buffer` and `records`, which outlive the
/// source.
Result<std::unique_ptr<WindowSource>> open_lines(const plan::FileInfo& info,
                                                 const plan::ShardRange& range,
                                                 uint64_t preamble_bytes, LineRules rules,
                                                 size_t window_bytes, Buffer& buffer,
                                                 std::vector<RecordRef>& records);

/// The same of all that `source` gives.
std::unique_ptr<WindowSource> lines_of(std::unique_ptr<ByteSource> source, const std::string& name,
                                       LineRules rules, size_t window_bytes, Buffer& buffer,
                                       std::vector<RecordRef>& records);

/// "path:line" of a byte of a text file, by counting line breaks from its start.
std::string line_of(const std::string& path, uint64_t offset);

}  // namespace downpour::data
