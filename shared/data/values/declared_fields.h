// Declared fields: the fields that a job or its data format declares.
#pragma once

#include <string>

#include "shared/base/result.h"
#include "shared/data/values/field_context.h"

namespace downpour::data {

/// Returns the field as the job declares it, or else as the format does. Error kConfig names the
/// field and lists the available ones.
Result<FieldSpec> resolve_field(const FieldContext& context, const std::string& name);

/// Returns the rule of the target that reads this field; null if the field is not a target.
const TargetRule* find_target(const FieldContext& context, const std::string& name);

}  // namespace downpour::data
