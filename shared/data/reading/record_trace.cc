#include "shared/data/reading/record_trace.h"

#include <algorithm>
#include <optional>

#include "shared/base/units.h"
#include "shared/data/bytes/open_bytes.h"
#include "shared/data/reading/batch_reader.h"
#include "shared/data/reading/open_shard.h"
#include "shared/job/formats.h"

namespace downpour::data {
namespace {

struct ByteRange {
  uint64_t begin = 0, end = 0;
};

/// Finds the bytes of line `n` (starting at 1), including its line break. Returns nothing if the
/// file has fewer lines; `lines` is then the number of its lines.
Result<std::optional<ByteRange>> find_line(const std::string& path, uint64_t n, uint64_t& lines) {
  DP_TRY(File file, File::open(path));
  DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  std::vector<char> block(kMiB);
  uint64_t at = 0;
  ByteRange line;
  lines = 0;
  for (;;) {
    DP_TRY(const size_t size, source->read(block.data(), block.size()));
    for (size_t i = 0; i < size; ++i, ++at) {
      if (block[i] != '\n') continue;
      line.end = at + 1;
      if (++lines == n) return std::optional(line);
      line.begin = line.end;
    }
    if (size == block.size()) continue;
    if (at == line.begin) return std::optional<ByteRange>();
    line.end = at;  // the last line has no line break
    if (++lines == n) return std::optional(line);
    return std::optional<ByteRange>();
  }
}

}  // namespace

Result<RecordPlace> find_record(std::shared_ptr<const ReadPlan> plan, uint32_t file, uint64_t n,
                                RecordUnit unit) {
  DP_CHECK(file < plan->files.size(), file);
  const plan::FileInfo& info = plan->files[file];
  ByteRange wanted{n, n + 1};
  if (unit == RecordUnit::kLine) {
    if (is_images(plan->data.format)) {
      return Error{ErrorCode::kUsage, "this file has records, not lines", info.path,
                   "give the number of a record, starting at 1", ""};
    }
    uint64_t lines = 0;
    DP_TRY(const auto line, find_line(info.path, n, lines));
    if (!line) {
      return Error{ErrorCode::kNoInput,
                   str("there is no line ", n, ": the highest number is ", lines), info.path};
    }
    wanted = *line;
  }
  auto in_order = std::make_shared<ReadPlan>(*plan);
  in_order->data.shuffle = "off";
  in_order->files = as_whole(std::move(in_order->files));
  in_order->files[file].cuts.clear();     // one range for the whole file
  in_order->data.program.clear();         // the record of the file, not of the program's output
  SourceSpec& source = in_order->source;  // count all records, also those that are not chosen
  source.skip = source.take = 0;
  source.shard_count = 1;
  source.shard_index = 0;
  DP_TRY(const auto reader,
         open_batch_reader(in_order, Split::kAll, {},
                           {{.file = file, .end = in_order->files[file].bytes}}, 0, {}));
  RecordPlace place;
  for (;;) {
    DP_TRY(const auto next, reader->next_record());
    if (!next) break;
    place = {place.number + 1, next->offset, next->ref.is_whole() ? next->ref.size : 0, {}};
    const bool found = unit == RecordUnit::kRecord ? place.number == n
                       : unit == RecordUnit::kLine
                           ? place.offset < wanted.end && std::max(place.offset + place.bytes,
                                                                   place.offset + 1) > wanted.begin
                           : n >= place.offset && n < place.offset + place.bytes;
    if (!found) continue;
    place.where = reader->where();
    return place;
  }
  switch (unit) {
    case RecordUnit::kRecord:
      return Error{
          ErrorCode::kNoInput,
          str("there is no record ", n, ": the highest number is ", place.number), info.path,
          "records are numbered from 1; use --line for a line number, or --byte for an offset", ""};
    case RecordUnit::kLine:
      return Error{ErrorCode::kNoInput, str("line ", n, " is not a record"), info.path,
                   "the line is blank, is a comment, or comes before the first record", ""};
    case RecordUnit::kByte:
      break;
  }
  return Error{ErrorCode::kNoInput, str("byte ", n, " is not in a record"), info.path};
}

Result<RecordFate> trace_record(std::shared_ptr<const ReadPlan> plan, Split split, ShardId shard,
                                std::vector<plan::ShardRange> ranges,
                                std::vector<uint32_t> quarantined_batches, uint32_t file,
                                uint64_t offset) {
  const std::string path = plan->files[file].path;
  DP_TRY(const auto reader, open_batch_reader(std::move(plan), split, shard, std::move(ranges),
                                              UINT32_MAX, std::move(quarantined_batches)));
  reader->watch(file, offset);
  Batch batch;
  for (bool more = true; more && !reader->fate();) {
    Result<bool> next = reader->next(batch);
    if (!next) return std::move(next).error();
    more = *next;
  }
  if (reader->fate()) return *reader->fate();
  return Error{ErrorCode::kNoInput, str("no record of shard ", shard, " starts at byte ", offset),
               path};
}

}  // namespace downpour::data
