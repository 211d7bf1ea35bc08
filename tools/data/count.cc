// `downpour data count`: counts records.
#include <nlohmann/json.hpp>

#include "shared/base/human.h"
#include "shared/data/bytes/open_bytes.h"
#include "shared/data/formats/example/tfrecord.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/job/formats.h"
#include "tools/data/look.h"
#include "tools/data/record_cursor.h"

namespace downpour::tools {
namespace {

struct FileCount {
  std::string path;
  uint64_t records = 0, bytes = 0;
};

}  // namespace

Result<uint64_t> count_records(const DataSpec& data, const plan::FileInfo& info,
                               const std::function<bool()>& stopped,
                               const std::function<void(uint64_t, uint64_t)>& told) {
  if (is_arrays(data.format)) {
    DP_TRY(const auto arrays, data::open_arrays(data, info.path));
    return arrays.front().array.rows;
  }
  DP_TRY(data::File file, data::File::open(info.path));
  DP_TRY(const bool compressed, file.is_compressed());
  if (is_frames(data.format) && !compressed) {
    DP_TRY(auto source, data::open_bytes(std::move(file), 0));
    data::FrameScanner scanner(std::move(source), info.path);
    uint64_t records = 0, at = 0;
    for (;;) {
      DP_TRY(const bool more, scanner.next(at));
      if (!more) return records;
      if (++records % kRecordsPerLook != 0) continue;
      if (stopped()) return interrupted_error();
      told(records, at);
    }
  }
  DP_TRY(const auto cursor, open_cursor(data, info, {.check = false}));
  RawRecord record;
  for (uint64_t records = 0;; ++records) {
    DP_TRY(const bool more, cursor->next(record));
    if (!more) return records;
    if (records % kRecordsPerLook != 0) continue;
    if (stopped()) return interrupted_error();
    told(records, cursor->progress());
  }
}

Result<void> show_count(const DataSet& set, const LookOptions& options, std::ostream& out) {
  const DataSpec data = readable_data(set);
  std::vector<FileCount> counts;
  FileCount all{.path = "total"};
  uint64_t of_bytes = 0;
  for (const plan::FileInfo& info : set.files) of_bytes += info.bytes;
  for (const plan::FileInfo& info : set.files) {
    DP_TRY(const uint64_t records,
           count_records(data, info, options.stopped, [&](uint64_t records, uint64_t bytes) {
             options.progress(all.records + records, all.bytes + bytes, of_bytes);
           }));
    counts.push_back({info.path, records, info.bytes});
    all.records += records;
    all.bytes += info.bytes;
  }
  if (options.json) {
    nlohmann::ordered_json files = nlohmann::ordered_json::array();
    for (const FileCount& file : counts)
      files.push_back({{"path", file.path}, {"records", file.records}, {"bytes", file.bytes}});
    const nlohmann::ordered_json json = {{"format", format_name(data.format)},
                                         {"records", all.records},
                                         {"bytes", all.bytes},
                                         {"files", std::move(files)}};
    out << json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
    return {};
  }
  std::vector<std::vector<std::string>> rows = {{"file", "records", "bytes", "bytes per record"}};
  if (counts.size() > 1) counts.push_back(all);
  for (const FileCount& file : counts) {
    const double mean = file.records == 0 ? 0 : double(file.bytes) / double(file.records);
    rows.push_back({file.path, grouped(file.records), human_bytes(file.bytes),
                    str(uint64_t(mean + 0.5), " B")});
  }
  out << table_text(rows, /*left_columns=*/1);
  return {};
}

}  // namespace downpour::tools
