#include "shared/data/formats/format.h"

namespace downpour::data {

Result<std::unique_ptr<WindowSource>> open_windows(const FieldContext& context,
                                                   const plan::FileInfo& info,
                                                   const plan::ShardRange& range,
                                                   const WindowMemory& memory) {
  const Format& format = format_of(context.data.format);
  DP_CHECK(format.open != nullptr, size_t(format.layout));
  return format.open(context, info, range, memory);
}

}  // namespace downpour::data
