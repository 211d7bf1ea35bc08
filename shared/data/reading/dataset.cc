#include "shared/data/reading/dataset.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"
#include "shared/data/formats/format.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/data/formats/text/text_lines.h"
#include "shared/data/reading/open_shard.h"
#include "shared/data/reading/program.h"
#include "shared/data/records/chosen_windows.h"
#include "shared/job/formats.h"

namespace downpour::data {
Result<void> check_filter(const DataSpec& data) {
  DP_TRY(const std::unique_ptr<RecordFilter> filter, RecordFilter::make(data));
  if (filter != nullptr && is_images(data.format)) {
    return Error{ErrorCode::kConfig, "data.filter does not support images", "data.filter",
                 "remove data.filter, or convert the data set to CSV"};
  }
  return {};
}

Result<std::unique_ptr<ShardReader>> open_shard(std::shared_ptr<const ReadPlan> plan, Split split,
                                                ShardId shard, std::vector<plan::ShardRange> ranges,
                                                uint32_t first_batch,
                                                std::vector<uint32_t> quarantined_batches) {
  DP_TRY(std::unique_ptr<BatchReader> reader,
         open_batch_reader(std::move(plan), split, shard, std::move(ranges), first_batch,
                           std::move(quarantined_batches)));
  return std::unique_ptr<ShardReader>(std::move(reader));
}

Result<std::unique_ptr<ShardReader>> open_shard(std::shared_ptr<const ReadPlan> plan, Split split,
                                                ShardId shard, const plan::ShardRange& range,
                                                uint32_t first_batch,
                                                std::vector<uint32_t> quarantined_batches) {
  return open_shard(std::move(plan), split, shard, std::vector{range}, first_batch,
                    std::move(quarantined_batches));
}

Result<void> count_pieces(const ReadPlan& plan, uint64_t shard_bytes,
                          std::vector<plan::FileInfo>& files) {
  uint64_t records = 0;
  const uint64_t wanted = chosen_end(plan.source);
  Scratch::Text text;
  ReadPlan as_read = plan;
  as_read.source = {};           // no record is left out
  as_read.data.program.clear();  // it writes one record per record that it reads
  for (const plan::ShardRange& range : plan::cut_shards(plan.files, shard_bytes)) {
    const uint64_t before = records;
    if (before < wanted) {
      DP_TRY(const ShardRecords reading, open_records(as_read, 0, range, text));
      Window window;
      while (records < wanted) {
        DP_TRY(const bool more, reading.source->next(window));
        if (!more) break;
        records += window.records->size();
        if (plan.programs->stopped())
          return Error{ErrorCode::kUnavailable, "reading was stopped", files[range.file].path};
      }
    }
    std::vector<uint64_t>& all_before = files[range.file].records_before;
    const uint64_t number = number_of_piece(plan.source, before, records);
    if (number == plan::kNotChosen && before >= wanted && !all_before.empty() &&
        all_before.back() == plan::kNotChosen)
      continue;
    all_before.push_back(number);
  }
  return {};
}

Result<uint64_t> mean_record_bytes(const DataSpec& data, const std::string& path) {
  const DataFormat format = names_arrays(data, path) ? DataFormat::kNpy : data.format;
  const auto mean = format_of(format).mean_record_bytes;
  return mean != nullptr ? mean(data, path) : mean_line_bytes(data, path);
}

Result<uint64_t> mean_record_bytes(const DataSpec& data, const std::vector<plan::FileInfo>& files,
                                   uint32_t part) {
  const plan::FileInfo* typical = nullptr;
  for (const plan::FileInfo& file : files) {
    if (file.part != part) continue;
    if (typical == nullptr || (file.is_cut() && !typical->is_cut())) typical = &file;
  }
  DP_CHECK(typical != nullptr, part);
  return mean_record_bytes(data, typical->path);
}

}  // namespace downpour::data
