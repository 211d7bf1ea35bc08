// LineWindows: the lines that begin in a byte range of a text file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shared/data/byte_source.h"
#include "shared/data/window.h"
#include "shared/job/job.h"

namespace downpour::data {

/// What stands before the first record of a file.
struct Preamble {
  uint64_t bytes = 0;  // byte order mark, skipped lines, header
  std::string header;  // the header line, without line break
};
/// Reads it. Error kBadData where the file ends before it does.
Result<Preamble> read_preamble(const std::string& path, uint32_t skip_lines, bool header);

/// Lines that are blank are no records, nor (with `comments`) those that begin with '#'. A line
/// ends in LF or CR LF; the last one needs none.
struct LineRules {
  bool comments = false;
  bool every = false;  // each line is a record, blank or not
};

LineRules rules_of(DataFormat format);

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
