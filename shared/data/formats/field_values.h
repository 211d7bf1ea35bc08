// Field values: the values of a record's fields as the file has them, before any transform. They
// are shown to people and converted to other formats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/job/job.h"

namespace downpour::data {

/// The kind of a field's values. kPairs: keys with values, as in libsvm.
enum class ValueKind : uint8_t { kNone, kInteger, kReal, kText, kPairs };
/// Returns "integers", "numbers", "texts", ...
const char* kind_name(ValueKind kind);

/// The values of one field in one record.
struct FieldValues {
  ValueKind kind = ValueKind::kNone;    // kNone: missing, or an empty list
  bool list = false;                    // the record contains a list, of any length
  bool single = false;                  // reals of single precision, printed with fewer digits
  std::vector<int64_t> integers;        // kPairs: the keys
  std::vector<double> reals;            // kPairs: the values of the keys
  std::vector<uint64_t> groups;         // kPairs of libffm: the fields of the keys
  std::vector<std::string_view> texts;  // pointing into the record or the decoder's memory

  void clear() {
    kind = ValueKind::kNone;
    list = single = false;
    integers.clear();
    reals.clear();
    groups.clear();
    texts.clear();
  }
  size_t count() const {
    switch (kind) {
      case ValueKind::kInteger:
      case ValueKind::kPairs:
        return integers.size();
      case ValueKind::kReal:
        return reals.size();
      case ValueKind::kText:
        return texts.size();
      case ValueKind::kNone:
        return 0;
    }
    return 0;
  }
  bool missing() const { return kind == ValueKind::kNone; }
  double number(size_t i) const {
    return kind == ValueKind::kReal ? reals[i] : double(integers[i]);
  }

  // Return false if the value's kind does not match the earlier values.
  bool add(int64_t value);
  bool add_real(double value, bool is_single);
  bool add_text(std::string_view value);
};

/// A declared or detected field.
struct ValueField {
  std::string name;
  ValueKind kind = ValueKind::kNone;  // kNone: any kind
  std::vector<int64_t> shape;         // {}: one value; {-1}: any number of values
  bool single = true;                 // reals have single precision
  FieldSpec spec;                     // position of the field in the record
};

/// Appends the shortest text that parses to the same value.
void append_number(std::string& out, double value, bool single);
void append_number(std::string& out, int64_t value);

}  // namespace downpour::data
