// The entry of TFRecord in the table of formats.
#include <utility>

#include "shared/data/formats/example/example_parser.h"
#include "shared/data/formats/example/tfrecord.h"
#include "shared/data/formats/format.h"
#include "shared/data/formats/sniff_columns.h"

namespace downpour::data {
namespace {

Result<std::unique_ptr<WindowSource>> open_frames(const FieldContext& /*context*/,
                                                  const plan::FileInfo& info,
                                                  const plan::ShardRange& range,
                                                  const WindowMemory& memory) {
  return open_tfrecord(info, range, memory.window_bytes, memory.buffer, memory.records);
}

Result<std::unique_ptr<WindowSource>> open_frame_stream(const FieldContext& /*context*/,
                                                        std::unique_ptr<ByteSource> source,
                                                        const std::string& name,
                                                        const WindowMemory& memory) {
  return frames_of(std::move(source), name, memory.window_bytes, memory.buffer, memory.records);
}

Result<std::unique_ptr<RecordParser>> make_frame_parser(const FieldContext& context,
                                                        const plan::FileInfo& /*info*/) {
  return context.data.record == "tensor" ? make_tensor_parser(context)
                                         : make_example_parser(context);
}

Result<RecordCuts> find_cuts_of_frames(const DataSpec& /*data*/, const plan::FileInfo& info,
                                       uint64_t target_bytes, uint64_t records_max) {
  return find_frame_cuts(info.path, target_bytes, records_max);
}

}  // namespace

const Format kFrames{.layout = RecordLayout::kFrames,
                     .sniff = sniff_frames,
                     .open = open_frames,
                     .open_stream = open_frame_stream,
                     .make_parser = make_frame_parser,
                     .find_cuts = find_cuts_of_frames,
                     .mean_record_bytes = mean_frame_bytes};

}  // namespace downpour::data
