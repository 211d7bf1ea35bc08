#include "shared/data/formats/text/text_lines.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "shared/data/bytes/open_bytes.h"
#include "shared/data/records/line_windows.h"
#include "shared/data/records/preamble_cache.h"

namespace downpour::data {
namespace {

constexpr size_t kMeanSampleBytes = size_t{256} << 10;

}  // namespace

Result<std::unique_ptr<WindowSource>> open_text(const FieldContext& context,
                                                const plan::FileInfo& info,
                                                const plan::ShardRange& range,
                                                const WindowMemory& memory) {
  DP_TRY(const Preamble preamble, context.preambles->get(context.data, info));
  DP_TRY(const LineRules rules, rules_of(context.data));
  return open_lines(info, range, preamble.bytes, rules, memory.window_bytes, memory.buffer,
                    memory.records);
}

Result<std::unique_ptr<WindowSource>> open_text_stream(const FieldContext& context,
                                                       std::unique_ptr<ByteSource> source,
                                                       const std::string& name,
                                                       const WindowMemory& memory) {
  DP_TRY(const LineRules rules, rules_of(context.data));
  return lines_of(std::move(source), name, rules, memory.window_bytes, memory.buffer,
                  memory.records);
}

Result<uint64_t> mean_line_bytes(const DataSpec& data, const std::string& path) {
  DP_TRY(File file, File::open(path));
  const uint64_t file_bytes = file.bytes();
  DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  std::string text(kMeanSampleBytes, '\0');
  DP_TRY(const size_t n, source->read(text.data(), text.size()));
  // For a compressed file, its compressed bytes count.
  const uint64_t used =
      n < text.size() ? file_bytes : std::min<uint64_t>(source->consumed(), file_bytes);
  const auto mean = [&](uint64_t bytes, uint64_t records) {
    return std::max(uint64_t(__uint128_t{used} * bytes / (std::max<uint64_t>(n, 1) * records)),
                    uint64_t{1});
  };
  if (data.boundaries_need_scan()) {
    DP_TRY(const LineRules rules, rules_of(data));
    DP_TRY(const Preamble preamble, read_preamble(path, data, data.header));
    const std::string_view rest =
        std::string_view(text.data(), n).substr(std::min<uint64_t>(preamble.bytes, n));
    const auto records = records_in(rest, rules, n < text.size());
    if (!records.empty()) {
      const std::string_view last = records.back();
      return mean(uint64_t(last.data() + last.size() + 1 - rest.data()), records.size());
    }
  }
  const auto lines = uint64_t(std::count(text.begin(), text.begin() + ptrdiff_t(n), '\n'));
  return mean(std::max<uint64_t>(n, 1), std::max<uint64_t>(lines, 1));
}

}  // namespace downpour::data
