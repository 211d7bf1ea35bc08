#include "shared/checkpoint/build_on.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "shared/checkpoint/image_layout.h"

namespace downpour::checkpoint {
namespace {

/// Merges one table of an image and of the next image by key.
class Merging {
 public:
  Merging(const TableSpec& spec, const TableImage& old, const TableImage& next)
      : spec_(spec), old_(old), next_(next) {
    merged_.table = next.table;
    merged_.table_variables.resize(next.table_variables.size());
  }

  Result<TableImage> merge() {
    for (size_t m = 0; m < next_.table_variables.size(); ++m) {
      DP_TRY(const uint32_t was,
             stored_copies(spec_, m, old_.keys, old_.table_variables[m].size()));
      DP_TRY(const uint32_t is,
             stored_copies(spec_, m, next_.keys, next_.table_variables[m].size()));
      if (was != is) {
        return Error{ErrorCode::kBadData,
                     str("variable ", spec_.table_variables[m].name, " stores ", is,
                         " floats per weight, but ", was, " in the image that it builds on")};
      }
      widths_.push_back(size_t{is} * spec_.row_floats(m, 0) + row_slots_of(spec_, m));
    }
    const auto old_begin = old_.keys.begin();
    size_t at = 0;
    for (size_t i = 0; i < next_.keys.size(); ++i) {
      const uint64_t key = next_.keys[i];
      const auto from = std::lower_bound(old_begin + ptrdiff_t(at), old_.keys.end(), key);
      append(old_, at, size_t(from - old_begin));
      append(next_, i, i + 1);
      at = size_t(from - old_begin) + (from != old_.keys.end() && *from == key ? 1 : 0);
    }
    append(old_, at, old_.keys.size());
    return std::move(merged_);
  }

 private:
  /// Appends rows [begin, end). All rows are as wide as the first one. Only the last block of a
  /// dense variable may be shorter, and it is the last row of all.
  void append(const TableImage& from, size_t begin, size_t end) {
    merged_.keys.insert(merged_.keys.end(), from.keys.begin() + ptrdiff_t(begin),
                        from.keys.begin() + ptrdiff_t(end));
    for (size_t m = 0; m < from.table_variables.size(); ++m) {
      const PageVector<float>& rows = from.table_variables[m];
      const auto first = rows.begin() + ptrdiff_t(std::min(rows.size(), begin * widths_[m]));
      const auto last = rows.begin() + ptrdiff_t(std::min(rows.size(), end * widths_[m]));
      merged_.table_variables[m].insert(merged_.table_variables[m].end(), first, last);
    }
  }

  const TableSpec& spec_;
  const TableImage& old_;
  const TableImage& next_;
  TableImage merged_;
  std::vector<size_t> widths_;  // per variable: floats of a row
};

}  // namespace

Result<void> build_on(PartitionImage& image, PartitionImage&& next,
                      const std::vector<TableSpec>& tables) {
  std::vector<TableImage> old = std::move(image.tables);
  std::vector<TableImage> merged;
  auto from = old.begin();
  for (TableImage& table : next.tables) {
    for (; from != old.end() && from->table < table.table; ++from) {
      merged.push_back(std::move(*from));
    }
    if (from == old.end() || from->table != table.table) {
      merged.push_back(std::move(table));
      continue;
    }
    DP_TRY(TableImage both, Merging(tables[raw(table.table)], *from, table).merge());
    merged.push_back(std::move(both));
    ++from;
  }
  merged.insert(merged.end(), std::make_move_iterator(from), std::make_move_iterator(old.end()));
  image = std::move(next);
  image.base = 0;
  image.tables = std::move(merged);
  return {};
}

}  // namespace downpour::checkpoint
