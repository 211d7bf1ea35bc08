#include "shared/data/records/delimited.h"

#include <algorithm>

#include "shared/base/str.h"
#include "shared/data/records/window.h"
#include "shared/job/formats.h"

namespace downpour::data {
namespace {

constexpr size_t kShownBytes = 80;

}  // namespace

Result<char> delimiter_of(const DataSpec& data) {
  if (data.delimiter.empty()) return traits_of(data.format).delimiter;
  const std::string_view text = data.delimiter == "\\t" ? "\t" : std::string_view(data.delimiter);
  const char c = text[0];
  // A delimiter must end a number, so it can't be a character of one.
  const bool ends_numbers = !(c >= '0' && c <= '9') && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') &&
                            c != '.' && c != '-' && c != '+';
  if (text.size() == 1 && ends_numbers && c != '"' && c != '\n' && c != '\r') return c;
  return Error{ErrorCode::kConfig, str("\"", shown(data.delimiter), "\" can't be a delimiter"),
               "data.delimiter",
               "use one character that is not a letter, digit, sign, point, quote or line break"};
}

bool split_line(std::string_view line, char delimiter, bool quotes,
                std::vector<std::string_view>& cells, size_t& count, std::string& store) {
  store.clear();
  store.reserve(line.size() + kPadBytes);  // prevents reallocation below, because cells point into
                                           // it
  count = 0;
  size_t i = 0;
  for (;;) {
    std::string_view cell;
    size_t blanks = i;
    while (quotes && blanks < line.size() && line[blanks] == ' ' && delimiter != ' ') ++blanks;
    if (quotes && blanks < line.size() && line[blanks] == '"') {
      const size_t begin = store.size();
      bool closed = false;
      for (i = blanks + 1; i < line.size(); ++i) {
        if (line[i] != '"') {
          store += line[i];
        } else if (i + 1 < line.size() && line[i + 1] == '"') {
          store += line[i++];
        } else {
          closed = true;
          break;
        }
      }
      if (!closed) return false;
      ++i;
      while (i < line.size() && line[i] == ' ' && delimiter != ' ') ++i;
      if (i < line.size() && line[i] != delimiter) return false;
      cell = std::string_view(store).substr(begin);
      store += '\0';  // ends a number
    } else {
      const size_t end = std::min(line.find(delimiter, i), line.size());
      cell = line.substr(i, end - i);
      i = end;
    }
    if (count < cells.size()) cells[count] = cell;
    ++count;
    if (i >= line.size()) return true;
    ++i;  // the delimiter; after the last one there is an empty cell
  }
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && (is_blank(text.back()) || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::string shown(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, kShownBytes)) {
    if (c == '\t') {
      out += "\\t";
    } else if (uint8_t(c) < 0x20 || uint8_t(c) == 0x7f) {
      out += {'\\', 'x', kHex[uint8_t(c) >> 4], kHex[c & 15]};
    } else {
      out += c;
    }
  }
  return text.size() > kShownBytes ? out + "..." : out;
}

}  // namespace downpour::data
