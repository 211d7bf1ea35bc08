// JsonRules: how JSON is read for a model that was trained on another format.
#pragma once

#include <memory>

#include "shared/base/result.h"
#include "shared/data/formats/parser.h"
#include "shared/data/values/field_context.h"

namespace downpour::data {

struct JsonRules {
  // A text is the cell of a table: data.trim removes the blanks around it, it reads as null if it
  // means "missing" there (data.missing, or empty), and blanks separate the values of a field of
  // any length.
  bool texts_are_cells = false;
  bool numbers_as_texts = false;  // a string field takes a number, as its decimal digits
};

/// Makes a parser of JSON objects. Errors: those of Format::make_parser().
Result<std::unique_ptr<RecordParser>> make_json_parser(const FieldContext& context,
                                                       const JsonRules& rules);

}  // namespace downpour::data
