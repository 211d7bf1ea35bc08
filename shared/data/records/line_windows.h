// LineWindows: yields the lines that begin in a byte range of a text file.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/data/bytes/byte_source.h"
#include "shared/data/records/record_cuts.h"
#include "shared/data/records/window.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// The part of a file before its first record.
struct Preamble {
  uint64_t bytes = 0;  // byte order mark, skipped lines, header
  std::string header;  // without its line break
};
/// Reads the preamble. `header` says whether there is a header line. Errors: kBadData if the file
/// ends before the preamble does; those of rules_of().
Result<Preamble> read_preamble(const std::string& path, const DataSpec& data, bool header);

/// Which lines are records. Blank lines are not, nor (with `comments`) lines that begin with '#'. A
/// line ends in LF or CR LF. The last line needs no line break.
struct LineRules {
  bool comments = false;
  bool every = false;  // each line is a record, blank or not
  // Delimiter of a table in which a record may contain line breaks in quotes (RFC 4180); else 0. If
  // a quote is not closed within 16 MiB, only its own line is a bad record.
  char quoting = 0;
};

/// Returns the rules for a format. Errors: those of delimiter_of().
Result<LineRules> rules_of(const DataSpec& data);

/// Returns at most `records_max` records from the beginning of a text. If the text continues
/// (`whole` is false), leaves out the records that may continue.
std::vector<std::string_view> records_in(std::string_view text, LineRules rules, bool whole,
                                         size_t records_max = SIZE_MAX);

/// Finds offsets at which a plain file can be cut whose quotes may contain line breaks. See
/// find_frame_cuts().
Result<RecordCuts> find_line_cuts(const DataSpec& data, const plan::FileInfo& info,
                                  uint64_t target_bytes, uint64_t records_max);

/// Opens windows of about `window_bytes` of text each. `buffer` and `records` hold them and must
/// outlive the source.
Result<std::unique_ptr<WindowSource>> open_lines(const plan::FileInfo& info,
                                                 const plan::ShardRange& range,
                                                 uint64_t preamble_bytes, LineRules rules,
                                                 size_t window_bytes, Buffer& buffer,
                                                 std::vector<RecordRef>& records);

/// Does the same for all bytes of `source`.
std::unique_ptr<WindowSource> lines_of(std::unique_ptr<ByteSource> source, const std::string& name,
                                       LineRules rules, size_t window_bytes, Buffer& buffer,
                                       std::vector<RecordRef>& records);

/// Returns "path:line" of a byte of a text file, by counting line breaks from its start.
std::string line_of(const std::string& path, uint64_t offset);

}  // namespace downpour::data
