// Codec: decodes records of one layout to the values of their fields, and encodes such values as
// records, for people and for conversion. Training uses the parsers (format.h) instead.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/formats/field_values.h"
#include "shared/data/values/fields.h"
#include "shared/job/formats.h"

namespace downpour::data {

/// The bytes of one record: a line without its line break, the payload of a TFRecord frame, the
/// concatenated rows of all arrays, or the pixels of an image. kPadBytes after them are readable.
struct RawRecord {
  std::string_view bytes;
  uint64_t offset = 0;   // in the decompressed file; for arrays the row number
  Fault fault;           // reason != null: incomplete record, or wrong checksum
  bool dropped = false;  // by data.program; `bytes` is empty
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
  RecordDecoder() = default;
  /// `fields` are the named fields; `unnamed` says what the decoder does with all others.
  RecordDecoder(std::vector<ValueField> fields, Unnamed unnamed);
  virtual ~RecordDecoder() = default;
  /// Sets `values` to one entry per field of fields(). Returns false and sets `fault` if the record
  /// is bad.
  virtual bool decode(const RawRecord& record, std::vector<FieldValues>& values, Fault& fault) = 0;
  const std::vector<ValueField>& fields() const { return fields_; }

 protected:
  /// Results of place_of() for a field that must be ignored, or that makes the record bad.
  static constexpr size_t kIgnored = SIZE_MAX, kRefused = SIZE_MAX - 1;
  /// Returns the index of the first field that has this name in the record, or kIgnored or
  /// kRefused. Adds the field if the decoder does so.
  size_t place_of(std::string_view name, std::vector<FieldValues>& values);
  /// Gives the values of each field that place_of() returns to the later fields of the same name.
  void copy_repeated(std::vector<FieldValues>& values) const;
  void begin(std::vector<FieldValues>& values) const {
    values.resize(fields_.size());
    for (FieldValues& each : values) each.clear();
  }
  bool refuse(std::string_view name, Fault& fault);

  std::vector<ValueField> fields_;
  Unnamed unnamed_ = Unnamed::kAdd;

 private:
  /// A field that has the same name in the record as an earlier one.
  struct Repeated {
    size_t field = 0, first = 0;
  };
  std::vector<Repeated> repeated_;
  size_t last_ = 0;  // index where place_of() starts, because records repeat the order of fields
  std::string refused_;
};

/// One .npy file of a set of arrays.
struct ArrayForm {
  std::string file;   // name, such as "x.npy"
  std::string descr;  // "<f4"
  std::vector<uint64_t> row_shape;
  uint64_t row_bytes = 0;
};

/// Encodes field values as records.
class RecordEncoder {
 public:
  virtual ~RecordEncoder() = default;
  /// Appends the record in its file form: a line with its line break, a frame, or one row of every
  /// array. Returns false and sets `fault` if the format can't represent these values.
  virtual bool encode(const std::vector<FieldValues>& values, std::string& out, Fault& fault) = 0;
  /// Returns the bytes at the start of each file.
  const std::string& preamble() const { return preamble_; }
  /// Returns the files of format npy, in the order in which a record contains their rows.
  const std::vector<ArrayForm>& arrays() const { return arrays_; }

 protected:
  std::string preamble_;
  std::vector<ArrayForm> arrays_;
};

/// What an encoder is made for.
struct Encoding {
  DataFormat format = DataFormat::kAuto;
  std::vector<ValueField> fields;
  std::string target;   // the field that becomes the label of libsvm; empty: "label"
  bool breaks = false;  // a cell of csv may contain line breaks (data.quoted_newlines)
};

/// The functions of a layout. A null function means that its formats do not support the operation.
struct Codec {
  RecordLayout layout = RecordLayout::kUnknown;
  /// See the function make_decoder().
  Result<std::unique_ptr<RecordDecoder>> (*make_decoder)(const DataSpec& data,
                                                         const std::string& path,
                                                         std::vector<ValueField> fields,
                                                         Unnamed unnamed) = nullptr;
  /// See the function make_encoder().
  Result<std::unique_ptr<RecordEncoder>> (*make_encoder)(const Encoding& encoding) = nullptr;
};

// The codecs, each defined in a file of its layout.
extern const Codec kArrayCodec, kFrameCodec, kImageCodec, kJsonCodec, kSparseLineCodec, kTableCodec;

/// The entry of RecordLayout::kUnknown, which has no functions.
inline constexpr Codec kNoCodec;
/// The entry of RecordLayout::kColumns, which has no functions either.
inline constexpr Codec kNoMemoryCodec{.layout = RecordLayout::kColumns};
/// All codecs, in the order of the enum.
inline constexpr auto kCodecTable =
    std::to_array<const Codec*>({&kNoCodec, &kArrayCodec, &kFrameCodec, &kImageCodec, &kJsonCodec,
                                 &kSparseLineCodec, &kTableCodec, &kNoMemoryCodec});
static_assert(kCodecTable.size() == size_t(RecordLayout::kLast) + 1,
              "kCodecTable needs one entry per RecordLayout");

/// Makes the decoder of a file's records. `fields` are the known fields; with Unnamed::kAdd there
/// may be none. Error kConfig: a field refers to something that the data do not have.
Result<std::unique_ptr<RecordDecoder>> make_decoder(const DataSpec& data, const std::string& path,
                                                    std::vector<ValueField> fields,
                                                    Unnamed unnamed);

/// Makes an encoder. Error kConfig names a field that the format can't represent, and the reason.
Result<std::unique_ptr<RecordEncoder>> make_encoder(const Encoding& encoding);

}  // namespace downpour::data
