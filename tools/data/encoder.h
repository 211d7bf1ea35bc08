// RecordEncoder: writes field values as a record of a format.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/data/values.h"

namespace downpour::tools {

/// One .npy file of a set of arrays.
struct ArrayForm {
  std::string file;   // name, such as "x.npy"
  std::string descr;  // "<f4"
  std::vector<uint64_t> row_shape;
  uint64_t row_bytes = 0;
};

/// Returns the header of an .npy file of version 1 with `rows` rows.
std::string npy_header(const ArrayForm& form, uint64_t rows);

class RecordEncoder {
 public:
  virtual ~RecordEncoder() = default;
  /// Appends the record in its file form: a line with its line break, a frame, or one row of every
  /// array. Returns false and sets `fault` if the format can't represent these values.
  virtual bool encode(const std::vector<FieldValues>& values, std::string& out,
                      data::Fault& fault) = 0;
  /// Returns the bytes at the start of each file.
  const std::string& preamble() const { return preamble_; }
  /// Returns the files of format npy, in the order in which a record contains their rows.
  const std::vector<ArrayForm>& arrays() const { return arrays_; }

 protected:
  std::string preamble_;
  std::vector<ArrayForm> arrays_;
};

/// Makes an encoder for records with these fields. `target` names the field that becomes the label
/// of libsvm. With `breaks`, a CSV cell may contain line breaks (data.quoted_newlines). Error
/// kConfig names a field that the format can't represent, and the reason.
Result<std::unique_ptr<RecordEncoder>> make_encoder(DataFormat format,
                                                    const std::vector<ValueField>& fields,
                                                    const std::string& target, bool breaks);

}  // namespace downpour::tools
