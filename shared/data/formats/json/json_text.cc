#include "shared/data/formats/json/json_text.h"

#include <cmath>
#include <cstdio>

#include "shared/base/str.h"

namespace downpour::data {
namespace {

void append_escape(std::string& out, char c) {
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", unsigned(uint8_t(c)));
  out += text;
}

}  // namespace

size_t utf8_bytes(const char* p, const char* end) {
  const auto c = uint8_t(*p);
  const size_t n = c < 0x80                ? 1
                   : c >= 0xc2 && c < 0xe0 ? 2
                   : c >= 0xe0 && c < 0xf0 ? 3
                   : c >= 0xf0 && c < 0xf5 ? 4
                                           : 0;
  if (n == 0 || size_t(end - p) < n) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((uint8_t(p[i]) & 0xc0) != 0x80) return 0;
  const auto d = n > 1 ? uint8_t(p[1]) : uint8_t(0);
  const bool bad = (c == 0xe0 && d < 0xa0) || (c == 0xed && d >= 0xa0) || (c == 0xf0 && d < 0x90) ||
                   (c == 0xf4 && d >= 0x90);
  return bad ? 0 : n;
}

bool is_utf8(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const size_t n = utf8_bytes(p, end);
    if (n == 0) return false;
    p += n;
  }
  return true;
}

void append_json_text(std::string& out, std::string_view text) {
  out += '"';
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const size_t n = utf8_bytes(p, end);
    if (n == 0 || uint8_t(*p) < 0x20 || *p == 0x7f) {
      append_escape(out, *p++);  // write an invalid byte as if it were Latin-1
      continue;
    }
    if (*p == '"' || *p == '\\') out += '\\';
    out.append(p, n);
    p += n;
  }
  out += '"';
}

void append_json_value(std::string& out, const FieldValues& values, bool scalar) {
  if (values.missing() && !values.list) {
    out += "null";
    return;
  }
  const bool pairs = values.kind == ValueKind::kPairs;
  const bool one = scalar && values.count() == 1 && !pairs;
  if (!one) out += pairs ? '{' : '[';
  for (size_t i = 0; i < values.count(); ++i) {
    if (i > 0) out += ", ";
    if (pairs) {
      out += str('"', values.groups.empty() ? "" : str(values.groups[i], ":"), values.integers[i],
                 "\": ");
      append_number(out, values.reals[i], true);
    } else if (values.kind == ValueKind::kText) {
      append_json_text(out, values.texts[i]);
    } else if (values.kind == ValueKind::kReal && !std::isfinite(values.reals[i])) {
      std::string text;  // JSON has no NaN and no infinity
      append_number(text, values.reals[i], values.single);
      append_json_text(out, text);
    } else if (values.kind == ValueKind::kReal) {
      append_number(out, values.reals[i], values.single);
    } else {
      append_number(out, values.integers[i]);
    }
  }
  if (!one) out += pairs ? '}' : ']';
}

}  // namespace downpour::data
