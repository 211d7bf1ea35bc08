// Values: what stands in a record, field by field, before any transform: what is shown, counted and
// converted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/data/fields.h"
#include "tools/data/record_cursor.h"

namespace downpour::tools {

/// What the values of a field are. kPairs: keys with values, as libsvm has them.
enum class ValueKind : uint8_t { kNone, kInteger, kReal, kText, kPairs };
/// "integers", "numbers", "texts", ...
const char* kind_name(ValueKind kind);

/// One field's values in one record.
struct FieldValues {
  ValueKind kind = ValueKind::kNone;    // kNone: missing, or an empty list
  bool list = false;                    // stands as a list, however many there are
  bool single = false;                  // reals that were floats: fewer digits say them
  std::vector<int64_t> integers;        // kPairs: the keys
  std::vector<double> reals;            // kPairs: the keys' values
  std::vector<uint64_t> groups;         // kPairs of libffm: the keys' fields
  std::vector<std::string_view> texts;  // in the record, or in the decoder's memory

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

  // False: this value can't stand beside those before it.
  bool add(int64_t value);
  bool add_real(double value, bool is_single);
  bool add_text(std::string_view value);
};

/// A field as declared, or as found.
struct ValueField {
  std::string name;
  ValueKind kind = ValueKind::kNone;  // kNone: whatever stands there
  std::vector<int64_t> shape;         // {}: one value; {-1}: any number
  bool single = true;                 // reals are floats
  FieldSpec spec;                     // where it stands in the record
};

/// What to do with fields that were not named when the decoder was made.
enum class Unnamed : uint8_t {
  kAdd,     // they are added to fields() as they are met
  kIgnore,  // the named ones are all that is wanted
  kRefuse,  // a record that has one is a bad one
};

/// A record that brings one field more than this is a bad one.
constexpr size_t kFieldsMax = 10'000;

/// Takes records apart.
class RecordDecoder {
 public:
  virtual ~RecordDecoder() = default;
  /// `values` gets an entry a field of fields(). False: told in `fault`.
  virtual bool decode(const RawRecord& record, std::vector<FieldValues>& values,
                      data::Fault& fault) = 0;
  const std::vector<ValueField>& fields() const { return fields_; }

 protected:
  /// The place of the field that stands under `name` in the record; npos: it is to be ignored.
  static constexpr size_t kIgnored = SIZE_MAX, kRefused = SIZE_MAX - 1;
  size_t place_of(std::string_view name, std::vector<FieldValues>& values);
  void begin(std::vector<FieldValues>& values) const {
    values.resize(fields_.size());
    for (FieldValues& each : values) each.clear();
  }
  bool refuse(std::string_view name, data::Fault& fault);

  std::vector<ValueField> fields_;
  Unnamed unnamed_ = Unnamed::kAdd;

 private:
  size_t last_ = 0;  // fields mostly come in the same order
  std::string refused_;
};

/// The decoder of a file's records. `fields`: those that are known; with Unnamed::kAdd they may be
/// none. Errors: kConfig where a field names what such data have not.
Result<std::unique_ptr<RecordDecoder>> make_decoder(const DataSpec& data, const std::string& path,
                                                    std::vector<ValueField> fields,
                                                    Unnamed unnamed);

/// The fields that a job declares; the format's own where it declares none.
std::vector<ValueField> declared_fields(const DataSpec& data);

/// The fields that the first records of a file have, with the kind and shape of all that was met:
/// at most kSampledRecords, kSampledBytes of them. A field that is sometimes a number and sometimes
/// a text is text in a table and kNone elsewhere. Bad records are passed over.
constexpr uint64_t kSampledRecords = 10'000;
constexpr uint64_t kSampledBytes = uint64_t{16} << 20;
Result<std::vector<ValueField>> found_fields(const DataSpec& data, const plan::FileInfo& info);

/// A value as text: the shortest that reads back as the same.
void append_number(std::string& out, double value, bool single);
void append_number(std::string& out, int64_t value);

}  // namespace downpour::tools
