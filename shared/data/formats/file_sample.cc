#include "shared/data/formats/file_sample.h"

#include <algorithm>

#include "shared/data/bytes/open_bytes.h"
#include "shared/data/records/delimited.h"
#include "shared/data/records/line_windows.h"
#include "shared/data/records/window.h"
#include "shared/data/values/number.h"

namespace downpour::data {
namespace {

constexpr size_t kFirstBytes = 512;

/// Returns the records of `rest` that are not blank.
std::vector<std::string_view> sample_lines(std::string_view rest, LineRules rules) {
  std::vector<std::string_view> lines = records_in(rest, rules, /*whole=*/true, kSampleLines);
  std::erase_if(lines, [](std::string_view line) { return trimmed(line).empty(); });
  return lines;
}

}  // namespace

std::string_view FileSample::text() {
  read();
  return text_;
}

const std::vector<std::string_view>& FileSample::lines() {
  read();
  return lines_;
}

std::vector<std::string_view> FileSample::records(char quoting) {
  read();
  return sample_lines(rest_, {.quoting = quoting});
}

void FileSample::read() {
  if (std::exchange(is_read_, true)) return;
  if (auto done = try_read(); !done) {
    error_ = std::move(done).error();
    text_.clear();
  }
}

Result<void> FileSample::try_read() {
  DP_TRY(File file, File::open(path_));
  if (file.bytes() == 0)
    return Error{ErrorCode::kBadData, str("the file is empty: ", path_), path_};
  DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  text_.reserve(kSampleBytes + kPadBytes);
  text_.resize(kSampleBytes);
  // If the rest of the file is damaged, its beginning still shows the format. The readers report
  // the damage.
  size_t n = 0;
  bool cut = false;
  for (size_t got = 1; got > 0 && n < kSampleBytes; n += got) {
    const size_t wanted =
        std::min<size_t>(n < kFirstBytes ? kFirstBytes : kSampleBytes, kSampleBytes - n);
    auto read = source->read(text_.data() + n, wanted);
    if (!read && n == 0) return std::move(read).error();
    cut = !read;
    got = read ? *read : 0;
  }
  text_.resize(n);
  if (text_.find('\0') != std::string::npos) return {};  // no text
  std::string_view rest = text_;
  if (rest.substr(0, 3) == "\xef\xbb\xbf") rest.remove_prefix(3);
  for (uint32_t i = 0; i < declared_.skip_lines && !rest.empty(); ++i)
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  if ((cut || n == kSampleBytes) && rest.rfind('\n') != std::string_view::npos)
    rest = rest.substr(0, rest.rfind('\n') + 1);  // the sample cuts off the line after it
  rest_ = rest;
  lines_ = sample_lines(rest, {});
  return {};
}

bool number_of(std::string_view text, double& value) {
  // The parsers need a byte after the text that is not part of a number, so copy the text.
  float narrow = 0;
  const std::string copy(text);
  const char* const end = parse_float(copy.c_str(), narrow);  // is it a number for the readers?
  if (copy.empty() || end != copy.c_str() + copy.size()) return false;
  parse_double(copy.c_str(), value);
  return true;
}

}  // namespace downpour::data
