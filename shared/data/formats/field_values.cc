#include "shared/data/formats/field_values.h"

#include <charconv>

#include "shared/base/enum_text.h"

namespace downpour::data {

const char* kind_name(ValueKind kind) {
  return enum_text<ValueKind::kPairs>(
      kind, {"values of several types", "integers", "numbers", "strings", "keys with values"});
}

bool FieldValues::add(int64_t value) {
  if (kind == ValueKind::kReal) return add_real(double(value), single);
  if (kind != ValueKind::kNone && kind != ValueKind::kInteger) return false;
  kind = ValueKind::kInteger;
  integers.push_back(value);
  return true;
}

bool FieldValues::add_real(double value, bool is_single) {
  if (kind == ValueKind::kInteger) {
    for (const int64_t each : integers) reals.push_back(double(each));
    integers.clear();
    kind = ValueKind::kReal;
  }
  if (kind == ValueKind::kNone) {
    kind = ValueKind::kReal;
    single = is_single;
  }
  if (kind != ValueKind::kReal) return false;
  single &= is_single;
  reals.push_back(value);
  return true;
}

bool FieldValues::add_text(std::string_view value) {
  if (kind != ValueKind::kNone && kind != ValueKind::kText) return false;
  kind = ValueKind::kText;
  texts.push_back(value);
  return true;
}

void append_number(std::string& out, double value, bool single) {
  char text[40];
  const auto end = single ? std::to_chars(text, text + sizeof text, float(value))
                          : std::to_chars(text, text + sizeof text, value);
  out.append(text, end.ptr);
}

void append_number(std::string& out, int64_t value) {
  char text[24];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

}  // namespace downpour::data
