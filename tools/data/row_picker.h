// RowPicker: reads rows of arrays by number, in any order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/job/job.h"

namespace downpour::tools {

class RowPicker {
 public:
  /// Opens the arrays. Errors: as open_arrays().
  static Result<RowPicker> open(const DataSpec& data, const std::string& path);
  /// Returns the concatenated rows of all arrays; kPadBytes after them are readable. The bytes stay
  /// valid until the next call. For each compressed archive member, the last two blocks of 64 MiB
  /// are kept, which is enough for rows shuffled within windows. To go back further, the member is
  /// decompressed from its start. Errors: kIo, kBadData.
  Result<std::string_view> row(uint64_t number);

 private:
  struct Block {
    uint64_t number = UINT64_MAX;
    std::vector<char> rows;
  };
  /// A compressed archive member, which can only be read from its start.
  struct Inflating {
    std::unique_ptr<data::InflatedMember> member;
    uint64_t next = 0;  // number of the next block
    std::array<Block, 2> kept;
  };
  Result<const char*> inflated_row(size_t array, uint64_t number);

  std::vector<data::SourceArray> arrays_;
  std::vector<Inflating> inflating_;  // per array
  std::vector<char> row_;
};

}  // namespace downpour::tools
