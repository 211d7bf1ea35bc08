#include "shared/data/formats/format.h"

#include <array>

#include "shared/base/check.h"

namespace downpour::data {

const Format& format_of(DataFormat format) {
  static const Format kUndecided;
  // In the order of the enum.
  static const std::array<const Format*, size_t(DataFormat::kLast) + 1> kTable = {
      &kUndecided, &kLibsvm, &kCsv, &kTsv,   &kCriteo, &kMnist,
      &kTfrecord,  &kNpy,    &kNpz, &kJsonl, &kLibffm};
  const Format& found = *kTable[size_t(format)];
  DP_CHECK(found.format == format, size_t(format));
  return found;
}

Result<std::unique_ptr<WindowSource>> open_windows(const FieldContext& context,
                                                   const plan::FileInfo& info,
                                                   const plan::ShardRange& range,
                                                   const WindowMemory& memory) {
  const Format& format = format_of(context.data.format);
  DP_CHECK(format.open != nullptr, size_t(format.format));
  return format.open(context, info, range, memory);
}

}  // namespace downpour::data
