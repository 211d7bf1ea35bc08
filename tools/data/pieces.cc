#include "tools/data/pieces.h"

#include <charconv>

#include "chief/runtime/run_setup.h"
#include "shared/data/reading/dataset.h"
#include "shared/job/formats.h"
#include "shared/plan/range_limits.h"

namespace downpour::tools {

Result<WorkerPlace> parse_worker(const std::string& text) {
  WorkerPlace out;
  const char *const begin = text.data(), *const end = begin + text.size();
  const auto index = std::from_chars(begin, end, out.index);
  if (index.ec == std::errc{} && index.ptr != end && *index.ptr == '/') {
    const auto count = std::from_chars(index.ptr + 1, end, out.count);
    if (count.ec == std::errc{} && count.ptr == end && out.index < out.count) return out;
  }
  return Error{ErrorCode::kUsage, str("--worker needs INDEX/COUNT, not `", text, "`"), "",
               "for example --worker 0/4 for the first of four workers"};
}

Result<CutData> cut_data(const DataSet& set, Numbers numbers) {
  CutData cut{.data = set.data(), .files = set.files};
  const SourceSpec& source = cut.data.source;
  DP_TRY(cut.shard_bytes, chief::choose_shard_bytes(set.job, set.data(), cut.files));
  DP_TRY_VOID(data::note_parts(cut.data, cut.files));
  DP_TRY_VOID(data::find_cuts(cut.data, source, cut.shard_bytes, cut.files));
  DP_TRY_VOID(chief::cut_compressed(set.job, cut.files));
  cut.streams = data::stream_spec(cut.data);
  cut.joining = data::joining_of(cut.data, cut.files, set.job.train.shares());
  DP_TRY_VOID(plan::check_ranges(cut.files, cut.shard_bytes, cut.streams));
  const bool leaves_out = source.skip > 0 || source.take > 0;
  if (leaves_out || (numbers == Numbers::kOfAll && data::chooses_by_number(source, cut.streams))) {
    data::ReadPlan reading;
    reading.data = cut.data;
    reading.source = source;
    reading.files = cut.files;
    reading.programs = set.programs;
    DP_TRY_VOID(data::count_pieces(reading, cut.shard_bytes, cut.files));
  }
  cut.ranges = plan::cut_streams(cut.files, cut.shard_bytes, cut.streams);
  DP_TRY_VOID(chief::check_chosen(cut.files, cut.ranges, "data.source.skip"));
  return cut;
}

uint32_t worker_of(const CutData& cut, const Piece& piece, uint32_t workers) {
  return (cut.streams.shared() ? piece.shard.shard : piece.range.stream) % workers;
}

std::vector<Piece> pieces_of(const CutData& cut, uint64_t seed, uint32_t epoch) {
  const plan::ShardMap shards(cut.ranges, seed, cut.joining);
  std::vector<Piece> pieces;
  for (uint32_t place = 0; place < shards.count(); ++place) {
    for (const plan::ShardRange& range : shards.at(epoch, place))
      pieces.push_back({.range = range, .shard = {.epoch = epoch, .shard = place}});
  }
  return pieces;
}

DataSpec readable_data(const DataSet& set) {
  DataSpec data = set.data();
  if (is_arrays(data.format) && !set.declared) data.fields.clear();
  return data;
}

}  // namespace downpour::tools
