#include "tools/data/row_picker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/base/str.h"
#include "shared/data/formats/parser.h"

namespace downpour::tools {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{64} << 20;

}  // namespace

Result<RowPicker> RowPicker::open(const DataSpec& data, const std::string& path) {
  RowPicker picker;
  DP_TRY(picker.arrays_, data::open_arrays(data, path));
  picker.inflating_.resize(picker.arrays_.size());
  size_t bytes = 0;
  for (const data::SourceArray& array : picker.arrays_) bytes += size_t(array.array.row_bytes());
  picker.row_.resize(bytes + data::kPadBytes);
  return picker;
}

Result<std::string_view> RowPicker::row(uint64_t number) {
  char* to = row_.data();
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const data::SourceArray& source = arrays_[i];
    const auto bytes = size_t(source.array.row_bytes());
    if (source.member.deflated) {
      DP_TRY(const char* const from, inflated_row(i, number));
      std::memcpy(to, from, bytes);
    } else {
      DP_TRY(const size_t n,
             source.file->read_at(source.array.data_offset + number * bytes, to, bytes));
      if (n < bytes) {
        return Error{ErrorCode::kBadData, str("the file is shorter now: ", source.where),
                     source.where, "the file must not change while it is read"};
      }
    }
    to += bytes;
  }
  return std::string_view(row_.data(), size_t(to - row_.data()));
}

Result<const char*> RowPicker::inflated_row(size_t array, uint64_t number) {
  const data::SourceArray& source = arrays_[array];
  Inflating& inflating = inflating_[array];
  const uint64_t bytes = std::max<uint64_t>(source.array.row_bytes(), 1);
  const uint64_t rows = std::max<uint64_t>(kBlockBytes / bytes, 1), wanted = number / rows;
  for (;;) {
    for (const Block& block : inflating.kept)
      if (block.number == wanted) return block.rows.data() + (number % rows) * bytes;
    if (inflating.member == nullptr || wanted < inflating.next) {
      inflating.member = std::make_unique<data::InflatedMember>(source.file, source.member);
      inflating.next = 0;
      std::string head(size_t(source.array.data_offset), '\0');
      DP_TRY_VOID(inflating.member->read(head.data(), head.size()));
    }
    Block& older = inflating.kept[0];
    std::swap(older, inflating.kept[1]);
    Block& block = inflating.kept[1];
    const uint64_t begin = inflating.next * rows;
    block.rows.resize(size_t(std::min(rows, source.array.rows - begin) * bytes));
    block.number = UINT64_MAX;
    DP_TRY_VOID(inflating.member->read(block.rows.data(), block.rows.size()));
    block.number = inflating.next++;
  }
}

}  // namespace downpour::tools
