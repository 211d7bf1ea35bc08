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

/// Returns the functions of a layout of lines, with the given detection and parser. See Format.
constexpr Format format_of_lines(RecordLayout layout, decltype(Format::sniff) sniff,
                                 decltype(Format::make_parser) make_parser) {
  return {.layout = layout,
          .sniff = sniff,
          .open = open_text,
          .open_stream = open_text_stream,
          .make_parser = make_parser,
          .find_cuts = find_line_cuts,
          .mean_record_bytes = mean_line_bytes};
}

}  // namespace downpour::data
