// MemoryTable: columns in the memory of this process, as a data source. Row i of every column is
// record i. A program that embeds Downpour makes one of its own arrays, without a copy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/formats/numpy/npy.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Where the texts of a column are, as in Arrow's formats utf8 and large_utf8: text i is the bytes
/// from offset i to offset i + 1.
struct MemoryTexts {
  const void* offsets = nullptr;  // int32, or int64 if `wide`; aligned
  bool wide = false;
  const char* bytes = nullptr;

  std::string_view operator[](uint64_t i) const {
    const auto at = [&](const auto* from) {
      return std::string_view(bytes + from[i], size_t(from[i + 1] - from[i]));
    };
    return wide ? at(static_cast<const int64_t*>(offsets))
                : at(static_cast<const int32_t*>(offsets));
  }
};

/// A column. Owns nothing.
struct MemoryColumn {
  enum class Kind : uint8_t {
    kNumbers,     // `width` numbers in each row
    kTexts,       // row i is texts[i]
    kDictionary,  // the number in row i is the index of a text; a negative one is missing
    kPairs,       // keys with values: a compressed sparse row matrix
  };
  std::string name;
  Kind kind = Kind::kNumbers;
  // kNumbers, kDictionary: row i begins at values + i * stride, and its elements are adjacent.
  // kPairs: the values of all pairs.
  NpyType type;
  const char* values = nullptr;
  int64_t stride = 0;  // bytes
  uint64_t width = 1;
  // Bit valid_begin + i, the lowest bit of a byte first: row i has a value. Null: every row has.
  const uint8_t* valid = nullptr;
  uint64_t valid_begin = 0;
  MemoryTexts texts;
  uint64_t text_count = 0;  // kDictionary
  // kPairs: row i has the pairs from starts[i] to starts[i + 1], and their keys.
  NpyType start_type, key_type;
  const char* starts = nullptr;
  const char* keys = nullptr;

  bool has_value(uint64_t row) const {
    if (valid == nullptr) return true;
    const uint64_t bit = valid_begin + row;
    return (valid[bit / 8] >> (bit % 8) & 1) != 0;
  }
  /// Returns the position of the first pair of a row; with `row` the number of rows, the number of
  /// pairs.
  uint64_t pair_begin(uint64_t row) const;
  /// Returns the bytes of a row, an estimate for texts and pairs.
  uint64_t row_bytes(uint64_t rows) const;
};

struct MemoryTable {
  uint64_t rows = 0;
  std::vector<MemoryColumn> columns;

  const MemoryColumn* find(std::string_view name) const;
  /// Returns the bytes of a row, at least 1. The plan of a job cuts the table by it.
  uint64_t row_bytes() const;
};

/// Checks what a reader relies on: that there are rows and columns, that names differ, and that
/// offsets and indices are in range. Reads all offsets and indices. Error kBadData names the
/// column.
Result<void> check_table(const MemoryTable& table);

/// Makes a table readable by this process as a data source while the object lives.
class SharedTable {
 public:
  explicit SharedTable(std::shared_ptr<const MemoryTable> table);
  ~SharedTable();
  SharedTable(const SharedTable&) = delete;
  SharedTable& operator=(const SharedTable&) = delete;
  /// Returns the name as a source of a job: "memory:7".
  const std::string& path() const { return path_; }
  const std::shared_ptr<const MemoryTable>& table() const { return table_; }

 private:
  std::shared_ptr<const MemoryTable> table_;
  std::string path_;
};

/// Describes a table as a file of a plan. Its bytes are those of its rows, and row i starts at i
/// times the bytes of a row. Error kNoInput if this process has no table of that name.
Result<plan::FileInfo> look_at_table(const std::string& path);

/// Returns the table of that name. Error kNoInput if this process has none.
Result<std::shared_ptr<const MemoryTable>> find_table(const std::string& path);

}  // namespace downpour::data
