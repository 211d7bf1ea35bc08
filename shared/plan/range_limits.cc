#include "shared/plan/range_limits.h"

#include <algorithm>
#include <functional>

#include "shared/base/human.h"
#include "shared/base/sizes.h"
#include "shared/base/str.h"

namespace downpour::plan {
namespace {

Result<void> check_cuts(const FileInfo& file) {
  const auto is_place = [&](uint64_t cut) { return cut > 0 && cut < file.bytes; };
  const bool ascending =
      std::ranges::adjacent_find(file.cuts, std::greater_equal<>()) == file.cuts.end();
  if (ascending && std::ranges::all_of(file.cuts, is_place) &&
      !(file.is_open() && file.cuts.empty()))
    return {};
  return Error{ErrorCode::kMalformed,
               str("the cuts of ", file.path, " are outside the file or not in ascending order"),
               file.path};
}

/// Returns the number of ranges of about `target_bytes` in a file.
uint64_t ranges_in(const FileInfo& file, uint64_t target_bytes) {
  if (file.is_open()) return 1;
  if (!file.cuts.empty()) return file.cuts.size() + 1;
  return file.splittable ? std::max<uint64_t>(divide_up(file.bytes, target_bytes), 1) : 1;
}

}  // namespace

Result<void> check_ranges(const std::vector<FileInfo>& files, uint64_t target_bytes,
                          const StreamSpec& streams) {
  if (target_bytes == 0)
    return Error{ErrorCode::kConfig, "a shard would have 0 bytes", "data.shard_records"};
  uint64_t ranges = 0, bytes = 0;
  for (const FileInfo& file : files) {
    DP_TRY_VOID(check_cuts(file));
    ranges = saturating_add(ranges, ranges_in(file, target_bytes));
    if (!file.is_open()) bytes = saturating_add(bytes, file.bytes);
  }
  const bool copied =
      streams.policy == StreamPolicy::kRecords || streams.policy == StreamPolicy::kCopies;
  const uint64_t copies = copied ? streams.count : 1;
  const uint64_t all = saturating_multiply(ranges, copies);
  if (all <= kRangesMax) return {};
  const uint64_t wanted = saturating_multiply(divide_up(bytes, kRangesMax), copies);
  return Error{
      ErrorCode::kConfig,
      str(human_bytes(bytes), " in ", files.size(), files.size() == 1 ? " file" : " files",
          copies > 1 ? str(", read by ", copies, " streams,") : "", " would give ", grouped(all),
          " shards of ", human_bytes(target_bytes), "; the maximum is ", grouped(kRangesMax)),
      "data.shard_records",
      str("raise data.shard_records so that a shard has more than ", human_bytes(wanted),
          ", or use fewer and larger files")};
}

}  // namespace downpour::plan
