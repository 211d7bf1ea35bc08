#include "shared/data/reading/program.h"

#include <algorithm>

#include "shared/base/hash.h"
#include "shared/data/formats/numpy/array_stream.h"
#include "shared/data/records/chosen_windows.h"
#include "shared/data/records/line_windows.h"
#include "shared/job/formats.h"

namespace downpour::data {

plan::FileInfo program_info(const SourceSpec& source) {
  uint64_t hash = hash_combine(uint64_t(source.replay), source.records);
  for (const std::string& word : source.exec) hash = hash_combine(hash, hash_string(word));
  return {.path = str(plan::FileInfo::kProgramMark, command_text(source.exec)),
          .bytes = std::max<uint64_t>(source.records, 1),
          .fingerprint = hash,
          .splittable = false};
}

bool is_stream(const SourceSpec& source) {
  return source.is_program() && source.replay == Replay::kEpoch;
}

void cut_program(const SourceSpec& source, uint64_t records_a_range, plan::FileInfo& info) {
  info.records_before = {0};
  if (records_a_range == 0) return;
  if (source.records == 0) {
    DP_CHECK(records_a_range <= kOpenPieceMax, records_a_range);
    info.bytes = plan::kOpenEnd;
    info.cuts = {records_a_range};
    return;
  }
  info.records_before.clear();
  for (uint64_t begin = 0; begin < info.bytes;) {
    const uint64_t end = begin + std::min(records_a_range, info.bytes - begin);
    // Pieces that a stream skips stay shards, because their ends report that the stream progresses.
    const bool passed = is_stream(source) && end <= source.skip;
    info.records_before.push_back(passed ? begin : number_of_piece(source, begin, end));
    if (begin > 0) info.cuts.push_back(begin);
    begin = end;
  }
  info.splittable = !info.cuts.empty() && source.replay != Replay::kEpoch;
}

std::vector<plan::FileInfo> as_whole(std::vector<plan::FileInfo> files) {
  for (plan::FileInfo& file : files) {
    if (!file.is_open()) continue;
    file.bytes = 1;
    file.cuts.clear();
  }
  return files;
}

namespace {

/// Returns the call with the variables that every program receives.
ProgramCall call_for(const std::vector<std::string>& argv, const ReadPlan& plan, uint32_t epoch,
                     const plan::ShardRange& range) {
  ProgramCall call{.argv = argv, .directory = plan.base_dir, .environment = {}};
  const auto set = [&](const char* name, uint64_t value) {
    call.environment.emplace_back(str("DOWNPOUR_", name), str(value));
  };
  set("SEED", plan.seed);
  set("EPOCH", plan.training ? epoch : 0);
  set("STREAM", range.stream);
  set("STREAMS", std::max(plan.data.streams, 1U));
  call.environment.emplace_back("DOWNPOUR_PURPOSE", plan.targets_optional ? "predict"
                                                    : plan.training       ? "train"
                                                                          : "eval");
  return call;
}

}  // namespace

ProgramCall call_of(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range) {
  ProgramCall call = call_for(plan.source.exec, plan, epoch, range);
  call.environment.emplace_back("DOWNPOUR_BATCH_SIZE", str(plan.batch_size));
  call.environment.emplace_back("DOWNPOUR_REPLICAS", str(plan.replicas));
  if (plan.source.records == 0) return call;
  call.environment.emplace_back("DOWNPOUR_RECORDS", str(plan.source.records));
  call.environment.emplace_back("DOWNPOUR_SHARD_BEGIN", str(range.begin));
  call.environment.emplace_back("DOWNPOUR_SHARD_END", str(range.end));
  return call;
}

ProgramCall transform_call_of(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range) {
  ProgramCall call = call_for(plan.data.program, plan, epoch, range);
  call.environment.emplace_back("DOWNPOUR_FILE", plan.files[range.file].path);
  return call;
}

namespace {

/// Counts the records of a program's range, because such a range is a range of records. Verifies
/// their number if it is known.
class ProgramWindows final : public WindowSource {
 public:
  ProgramWindows(std::unique_ptr<WindowSource> inner, std::string name, size_t row_bytes,
                 uint32_t epoch, const plan::ShardRange& range, bool counted, bool streamed)
      : inner_(std::move(inner)),
        name_(std::move(name)),
        row_bytes_(row_bytes),
        epoch_(epoch),
        range_(range),
        counted_(counted),
        streamed_(streamed) {}

  Result<bool> next(Window& window) override {
    const uint64_t before = records_;
    DP_TRY(const bool more, inner_->next(window));
    const uint64_t wanted = range_.end - range_.begin;
    if (more) records_ += window.records->size();
    if (counted_ && (records_ > wanted || (!more && records_ < wanted))) {
      return Error{
          ErrorCode::kBadData,
          str("the program wrote ", records_ > wanted ? "more" : str("only ", records_), " records",
              records_ > wanted ? " than the " : " of the ", wanted, " that were requested"),
          place(),
          "the program must write the records from DOWNPOUR_SHARD_BEGIN up to, but not including, "
          "DOWNPOUR_SHARD_END"};
    }
    if (streamed_) return more;  // BlockWindows has set the progress, in records
    window.begin_progress = counted_ ? before : 0;
    window.end_progress = counted_ ? records_ : uint64_t{!more};
    return more;
  }
  bool at_end() const override { return inner_->at_end(); }
  uint64_t first_offset() const override {
    return streamed_ ? inner_->first_offset() : range_.begin;
  }
  uint64_t end_offset() const override { return streamed_ ? inner_->end_offset() : range_.end; }
  std::string locate(uint64_t offset) override {
    if (row_bytes_ > 0) return str(place(), ", record ", offset / row_bytes_, " of its output");
    return str(place(), ", byte ", offset, " of its output");
  }

 private:
  std::string place() const {
    return str(name_, " (epoch ", epoch_ + 1,
               counted_ ? str(", records [", range_.begin, ", ", range_.end, ")") : "", ")");
  }

  const std::unique_ptr<WindowSource> inner_;
  const std::string name_;
  const size_t row_bytes_;  // bytes of a row of arrays; 0 for text
  const uint32_t epoch_;
  const plan::ShardRange range_;
  const bool counted_;
  const bool streamed_;  // the range is a piece of a stream
  uint64_t records_ = 0;
};

}  // namespace

bool is_piece(const ReadPlan& plan, const plan::ShardRange& range) {
  return plan.files[range.file].is_streamed();
}

Result<void> start_stream(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range,
                          RecordStream::Reading& reading) {
  const plan::FileInfo& info = plan.files[range.file];
  plan::ShardRange whole = range;
  whole.begin = 0;
  whole.end = info.bytes;
  DP_TRY(std::unique_ptr<ByteSource> source,
         start_program(call_of(plan, epoch, whole), plan.programs));
  if (is_arrays(plan.data.format)) {
    DP_TRY(RowStream rows, rows_of(std::move(source), plan, info.path, kProgramWindowBytes,
                                   reading.buffer, reading.records));
    reading.source = std::move(rows.records.source);
    reading.arrays = std::move(rows.arrays);
  } else {
    const WindowMemory memory{kProgramWindowBytes, reading.buffer, reading.records};
    DP_TRY(reading.source,
           format_of(plan.data.format).open_stream(plan, std::move(source), info.path, memory));
  }
  // If the length is unknown, the pieces are cut from the chosen records only, because the numbers
  // of the other records are not known when the pieces are leased.
  if (info.is_open()) {
    whole.records_before = 0;
    reading.source =
        choose_by_number(plan.source, whole, /*whole=*/true, std::move(reading.source));
  }
  return {};
}

Result<ShardRecords> open_program(const ReadPlan& plan, uint32_t epoch,
                                  const plan::ShardRange& range, const WindowMemory& memory) {
  const plan::FileInfo& info = plan.files[range.file];
  const bool streamed = is_piece(plan, range);
  ShardRecords out;
  size_t row_bytes = 0;
  const auto take_rows = [&](RowStream rows) {
    row_bytes = rows.row_bytes;
    out = std::move(rows.records);
  };
  if (streamed) {
    const auto start = [&](RecordStream::Reading& reading) {
      return start_stream(plan, epoch, range, reading);
    };
    DP_TRY(StreamBlockPtr block, plan.streams->take(plan, epoch, range, start));
    std::shared_ptr<const ArrayFields> arrays = block->arrays;
    out.source = windows_of(std::move(block), memory.records);
    if (arrays != nullptr) {
      DP_TRY(RowStream rows, rows_in(std::move(out.source), plan, std::move(arrays)));
      take_rows(std::move(rows));
    }
  } else {
    DP_TRY(std::unique_ptr<ByteSource> source,
           start_program(call_of(plan, epoch, range), plan.programs));
    // Evaluation does not depend on the order, so it does not wait for a large window to shuffle.
    const bool waits = plan.training && plan.data.shuffle != "off";
    const WindowMemory window{waits ? memory.window_bytes : kProgramWindowBytes, memory.buffer,
                              memory.records};
    if (is_arrays(plan.data.format)) {
      DP_TRY(RowStream rows, rows_of(std::move(source), plan, info.path, window.window_bytes,
                                     window.buffer, window.records));
      take_rows(std::move(rows));
    } else {
      DP_TRY(out.source,
             format_of(plan.data.format).open_stream(plan, std::move(source), info.path, window));
    }
  }
  out.source = std::make_unique<ProgramWindows>(std::move(out.source), info.path, row_bytes, epoch,
                                                range, plan.source.records > 0, streamed);
  return out;
}

}  // namespace downpour::data
