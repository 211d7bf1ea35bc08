// RowPicker: rows of a source of arrays by their number, in any order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/arrays.h"
#include "shared/job/job.h"

namespace downpour::tools {

class RowPicker {
 public:
  /// Errors: as open_arrays().
  static Result<RowPicker> open(const DataSpec& data, const std::string& path);
  /// The row of every array, one behind the other; kPadBytes behind it are readable. Valid until
  /// the next call. Of a compressed member two blocks of 64 MiB are kept, which is what rows that
  /// are shuffled within windows want; to go back further it is decompressed again. Errors: kIo,
  /// kBadData.
  Result<std::string_view> row(uint64_t number);

 private:
  struct Block {
    uint64_t number = UINT64_MAX;
    std::vector<char> rows;
  };
  /// A member that can only be read from its start.
  struct Inflating {
    std::unique_ptr<data::InflatedMember> member;
    uint64_t next = 0;  // block
    std::array<Block, 2> kept;
  };
  Result<const char*> inflated_row(size_t array, uint64_t number);

  std::vector<data::SourceArray> arrays_;
  std::vector<Inflating> inflating_;  // by array
  std::vector<char> row_;
};

}  // namespace downpour::tools
