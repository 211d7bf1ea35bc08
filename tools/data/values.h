// Field values of a record before any transform, for output, statistics and conversion, and the
// decoders that produce them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/data/values/fields.h"
#include "tools/data/record_cursor.h"

namespace downpour::tools {

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

/// What a decoder does with fields that were not named when it was made.
enum class Unnamed : uint8_t {
  kAdd,     // add each to fields() when it first occurs
  kIgnore,  // skip them
  kRefuse,  // reject a record that contains one
};

/// The largest number of fields. A record that would add one more is bad.
constexpr size_t kFieldsMax = 10'000;

/// Splits records into field values.
class RecordDecoder {
 public:
  virtual ~RecordDecoder() = default;
  /// Sets `values` to one entry per field of fields(). Returns false and sets `fault` if the record
  /// is bad.
  virtual bool decode(const RawRecord& record, std::vector<FieldValues>& values,
                      data::Fault& fault) = 0;
  const std::vector<ValueField>& fields() const { return fields_; }

 protected:
  /// Results of place_of() for a field that must be ignored, or that makes the record bad.
  static constexpr size_t kIgnored = SIZE_MAX, kRefused = SIZE_MAX - 1;
  /// Returns the index of the field that has this name in the record, or kIgnored or kRefused. Adds
  /// the field if the decoder does so.
  size_t place_of(std::string_view name, std::vector<FieldValues>& values);
  void begin(std::vector<FieldValues>& values) const {
    values.resize(fields_.size());
    for (FieldValues& each : values) each.clear();
  }
  bool refuse(std::string_view name, data::Fault& fault);

  std::vector<ValueField> fields_;
  Unnamed unnamed_ = Unnamed::kAdd;

 private:
  size_t last_ = 0;  // index where place_of() starts, because records repeat the order of fields
  std::string refused_;
};

/// Makes the decoder of a file's records. `fields` are the known fields; with Unnamed::kAdd there
/// may be none. Error kConfig: a field refers to something that the data do not have.
Result<std::unique_ptr<RecordDecoder>> make_decoder(const DataSpec& data, const std::string& path,
                                                    std::vector<ValueField> fields,
                                                    Unnamed unnamed);

/// Returns the fields that a job declares, or the format's default fields if it declares none.
std::vector<ValueField> declared_fields(const DataSpec& data);

/// Returns the fields of the first records of a file, with a kind and shape that fit all of their
/// values. It reads at most kSampledRecords records and about kSampledBytes bytes. A field with
/// both numbers and texts is text in a table, and kNone in other formats. Bad records are skipped.
constexpr uint64_t kSampledRecords = 10'000;
constexpr uint64_t kSampledBytes = uint64_t{16} << 20;
Result<std::vector<ValueField>> found_fields(const DataSpec& data, const plan::FileInfo& info);

/// Appends the shortest text that parses to the same value.
void append_number(std::string& out, double value, bool single);
void append_number(std::string& out, int64_t value);

}  // namespace downpour::tools
