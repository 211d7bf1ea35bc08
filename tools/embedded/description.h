// Describes a model as JSON, for the C interface and for `downpour serve`.
#pragma once

#include <nlohmann/json.hpp>

#include "shared/job/job.h"
#include "tools/embedded/model.h"

namespace downpour::tools {

/// Returns "number", "integer" or "text".
const char* type_name(FieldType type);

/// Returns an array with an object for each output: "name", "target", "weights" (the field with the
/// sample weights; may be empty), "loss", "width" (values of a record), "classes" (texts; empty if
/// the labels are numbers).
nlohmann::ordered_json describe_outputs(const Scorer& scorer);

}  // namespace downpour::tools
