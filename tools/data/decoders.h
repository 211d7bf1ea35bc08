// Factories of the record decoders of all formats. make_decoder() chooses among them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/data/values.h"

namespace downpour::tools {

Result<std::unique_ptr<RecordDecoder>> make_table_decoder(const DataSpec& data,
                                                          const std::string& path,
                                                          std::vector<ValueField> fields,
                                                          Unnamed unnamed);
std::unique_ptr<RecordDecoder> make_libsvm_decoder(const DataSpec& data,
                                                   std::vector<ValueField> fields, Unnamed unnamed);
std::unique_ptr<RecordDecoder> make_json_decoder(std::vector<ValueField> fields, Unnamed unnamed);
std::unique_ptr<RecordDecoder> make_example_decoder(std::vector<ValueField> fields,
                                                    Unnamed unnamed);
/// Makes a decoder of records that are one serialized tensor each.
Result<std::unique_ptr<RecordDecoder>> make_tensor_decoder(std::vector<ValueField> fields,
                                                           Unnamed unnamed);
Result<std::unique_ptr<RecordDecoder>> make_row_decoder(const DataSpec& data,
                                                        const std::string& path,
                                                        std::vector<ValueField> fields,
                                                        Unnamed unnamed);
Result<std::unique_ptr<RecordDecoder>> make_image_decoder(const std::string& path,
                                                          std::vector<ValueField> fields,
                                                          Unnamed unnamed);

}  // namespace downpour::tools
