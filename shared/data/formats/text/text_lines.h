// Text lines: what the formats share whose records are lines of text.
#pragma once

#include "shared/data/formats/format.h"
#include "shared/data/records/line_windows.h"
#include "shared/plan/shard.h"

namespace downpour::data {

Result<std::unique_ptr<WindowSource>> open_text(const FieldContext& context,
                                                const plan::FileInfo& info,
                                                const plan::ShardRange& range,
                                                const WindowMemory& memory);
Result<std::unique_ptr<WindowSource>> open_text_stream(const FieldContext& context,
                                                       std::unique_ptr<ByteSource> source,
                                                       const std::string& name,
                                                       const WindowMemory& memory);
Result<uint64_t> mean_line_bytes(const DataSpec& data, const std::string& path);

/// Returns the functions of a format of lines, with the parser that is given. See Format.
constexpr Format format_of_lines(DataFormat format, decltype(Format::make_parser) make_parser) {
  return {.format = format,
          .open = open_text,
          .open_stream = open_text_stream,
          .make_parser = make_parser,
          .find_cuts = find_line_cuts,
          .mean_record_bytes = mean_line_bytes};
}

}  // namespace downpour::data
