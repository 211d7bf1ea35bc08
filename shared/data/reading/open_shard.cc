#include "shared/data/reading/open_shard.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"
#include "shared/data/formats/format.h"
#include "shared/data/reading/program.h"
#include "shared/data/reading/record_cache.h"
#include "shared/data/reading/record_program.h"
#include "shared/data/reading/scratch.h"
#include "shared/data/records/chosen_windows.h"
#include "shared/data/records/line_windows.h"
#include "shared/job/formats.h"

namespace downpour::data {
namespace {

/// Returns the size of the window of text or pixels for one range of a shard.
size_t window_bytes_of(const DataSpec& data, size_t ranges) {
  constexpr size_t kLeast = size_t{64} << 10;
  const size_t bytes = data.shuffle == "off" ? kPlainWindowBytes : kShuffleWindowBytes;
  return std::max(bytes / ranges, kLeast);
}

/// Opens all records of a range as they are in the files. For arrays, also returns the parser of
/// the rows.
Result<ShardRecords> open_whole_range(const ReadPlan& plan, uint32_t epoch,
                                      const plan::ShardRange& range, size_t window_bytes,
                                      Scratch::Text& text) {
  const plan::FileInfo& info = plan.files[range.file];
  const WindowMemory memory{window_bytes, text.bytes, text.records};
  if (info.is_program()) return open_program(plan, epoch, range, memory);
  const Format& format = format_of(plan.data.format);
  if (format.open_rows != nullptr) return format.open_rows(plan, info, range, memory);
  ShardRecords out;
  if (info.is_streamed()) {
    DP_TRY(out.source, open_piece(plan, epoch, range, text.records));
  } else {
    DP_TRY(out.source, open_windows(plan, info, range, memory));
  }
  return out;
}

}  // namespace

Result<ShardRecords> open_records(const ReadPlan& plan, uint32_t epoch,
                                  const plan::ShardRange& range, Scratch::Text& text,
                                  size_t ranges) {
  DP_CHECK(range.file < plan.files.size(), range.file, plan.files.size());
  const plan::FileInfo& info = plan.files[range.file];
  const DataSpec& data = plan.data;
  if (data.format == DataFormat::kAuto) {
    return Error{ErrorCode::kConfig, "the format of the data is not known", "data.format",
                 "set data.format, for example data.format = \"csv\""};
  }
  const size_t window_bytes = window_bytes_of(data, ranges);
  const bool transformed = !data.program.empty();
  std::unique_ptr<RecordProgram> program;
  if (transformed) {
    const size_t bytes = data.shuffle == "off" ? kProgramWindowBytes : window_bytes;
    DP_TRY(const LineRules rules, rules_of(data));
    program = std::make_unique<RecordProgram>(transform_call_of(plan, epoch, range), plan.programs,
                                              data.format, rules.quoting, !plan.targets_optional,
                                              bytes, text);
  }
  Scratch::Text& read = transformed ? program->input_text() : text;
  const size_t read_bytes = transformed ? kPlainWindowBytes : window_bytes;
  DP_TRY(ShardRecords out, open_whole_range(plan, epoch, range, read_bytes, read));
  if (!info.is_open())  // an open stream chooses its records before it is cut into pieces
    out.source = choose_by_number(plan.source, range, !info.is_cut(), std::move(out.source));
  if (out.parser != nullptr) return out;
  if (transformed) {
    program->set_input(std::move(out.source));
    out.source = std::move(program);
  }
  DP_TRY(out.parser, format_of(data.format).make_parser(plan, info));
  return out;
}

Result<std::unique_ptr<BatchReader>> open_batch_reader(std::shared_ptr<const ReadPlan> plan,
                                                       Split split, ShardId shard,
                                                       std::vector<plan::ShardRange> ranges,
                                                       uint32_t first_batch,
                                                       std::vector<uint32_t> quarantined_batches) {
  std::unique_ptr<Scratch> scratch = plan->scratch->take();
  if (scratch->texts.size() < ranges.size()) scratch->texts.resize(ranges.size());
  std::vector<OpenRange> open;
  for (const plan::ShardRange& range : ranges) {
    DP_TRY(ShardRecords records,
           open_records(*plan, shard.epoch, range, scratch->texts[open.size()], ranges.size()));
    // Records of quarantined batches are not parsed, so the range would be incomplete. Parsing
    // arrays is as fast as a cache of them.
    const bool cached = plan->cache != nullptr && quarantined_batches.empty() &&
                        !plan->files[range.file].is_program() && !is_arrays(plan->data.format);
    if (cached) {
      const RecordCache::Key key{.range = range,
                                 .window_bytes = window_bytes_of(plan->data, ranges.size()),
                                 .held_out = split == Split::kHeldOut};
      records = plan->cache->capture_or_replay(key, std::move(records),
                                               scratch->texts[open.size()].records);
    }
    open.push_back({range, std::move(records.source), std::move(records.parser), records.kept});
  }
  return std::make_unique<BatchReader>(std::move(plan), split, shard, std::move(open),
                                       std::move(scratch), first_batch,
                                       std::move(quarantined_batches));
}

}  // namespace downpour::data
