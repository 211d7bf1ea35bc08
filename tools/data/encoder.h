// RecordEncoder: values written as a record of a format.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/data/values.h"

namespace downpour::tools {

/// An .npy file of those that a set of arrays has.
struct ArrayForm {
  std::string file;   // its name: "x.npy"
  std::string descr;  // "<f4"
  std::vector<uint64_t> row_shape;
  uint64_t row_bytes = 0;
};

/// The header of an .npy file of version 1 with `rows` rows.
std::string npy_header(const ArrayForm& form, uint64_t rows);

class RecordEncoder {
 public:
  virtual ~RecordEncoder() = default;
  /// Appends the record as it stands in a file: a line with its break, a frame, a row of every
  /// array. False: the format can't say these values; told in `fault`.
  virtual bool encode(const std::vector<FieldValues>& values, std::string& out,
                      data::Fault& fault) = 0;
  /// What stands at the start of each file.
  const std::string& preamble() const { return preamble_; }
  /// Of npy: its files, in the order in which a record's rows stand.
  const std::vector<ArrayForm>& arrays() const { return arrays_; }

 protected:
  std::string preamble_;
  std::vector<ArrayForm> arrays_;
};

/// Writes records of `fields`; `target` names the one that libsvm has as its label; `breaks`: a
/// cell of CSV may hold line breaks (data.quoted_newlines). Errors: kConfig naming a field that the
/// format can't express, and why.
Result<std::unique_ptr<RecordEncoder>> make_encoder(DataFormat format,
                                                    const std::vector<ValueField>& fields,
                                                    const std::string& target, bool breaks);

}  // namespace downpour::tools
