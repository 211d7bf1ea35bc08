// Parsers of TFRecord's records: tf.train.Example messages and serialized tensors.
#pragma once

#include <memory>

#include "shared/base/result.h"
#include "shared/data/formats/parser.h"
#include "shared/data/values/field_context.h"

namespace downpour::data {

/// Makes a parser for records that are serialized tf.train.Example messages. Each field is one
/// feature. Error: kConfig naming the field.
Result<std::unique_ptr<RecordParser>> make_example_parser(const FieldContext& context);

/// Makes a parser for records that are serialized tensors. A field is the whole tensor, or its
/// elements from `column` on. Error: kConfig naming the field.
Result<std::unique_ptr<RecordParser>> make_tensor_parser(const FieldContext& context);

}  // namespace downpour::data
