#include "shared/data/values/declared_fields.h"

#include <utility>
#include <vector>

#include "shared/base/str.h"
#include "shared/data/records/delimited.h"
#include "shared/job/formats.h"

namespace downpour::data {

Result<FieldSpec> resolve_field(const FieldContext& context, const std::string& name) {
  const auto found = [&](FieldSpec field) {
    if (context.targets_optional && find_target(context, name) != nullptr && !field.fallback)
      field.fallback = "0";
    return field;
  };
  if (const FieldSpec* field = context.data.find_field(name)) return found(*field);
  std::string there;
  for (const FieldSpec& field : context.data.fields)
    there += (there.empty() ? "" : ", ") + field.name;
  for (FieldSpec& field : default_fields(context.data.format)) {
    if (field.name == name) return found(std::move(field));
    there += (there.empty() ? "" : ", ") + field.name;
  }
  return Error{ErrorCode::kConfig, str("field ", name, " is not declared"),
               str("data.fields.", name),
               there.empty() ? "declare it in data.fields" : str("the fields are: ", shown(there))};
}

const TargetRule* find_target(const FieldContext& context, const std::string& name) {
  for (const TargetRule& rule : context.targets)
    if (rule.field == name) return &rule;
  return nullptr;
}

}  // namespace downpour::data
