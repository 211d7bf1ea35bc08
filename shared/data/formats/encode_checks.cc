#include "shared/data/formats/encode_checks.h"

#include <cmath>

#include "shared/base/str.h"
#include "shared/job/formats.h"

namespace downpour::data {

Error cannot_encode(DataFormat format, const ValueField& field, const std::string& why,
                    const std::string& hint) {
  return Error{
      ErrorCode::kConfig,
      str("field ", field.name, " can't be written as ", traits_of(format).name, ": ", why),
      str("data.fields.", field.name), hint};
}

bool refuse_value(const char* reason, const ValueField& field, Fault& fault) {
  fault = {.reason = reason,
           .field = &field.name,
           .hint = "declare the field in a job file, or choose another --to"};
  return false;
}

bool fits_field(const ValueField& field, const FieldValues& values, Fault& fault) {
  const bool number = values.kind == ValueKind::kInteger || values.kind == ValueKind::kReal;
  if (field.kind == ValueKind::kReal ? !number : field.kind != values.kind)
    return refuse_value("has another type of value than in the first records", field, fault);
  if (field.kind == ValueKind::kPairs) return true;
  const bool any = field.spec.is_bag() || (field.shape.size() == 1 && field.shape[0] < 0);
  if (any || values.count() == elements_of(field.shape)) return true;
  return refuse_value("has another number of values than in the first records", field, fault);
}

bool to_float(double value, float& to) {
  to = float(value);
  return std::isfinite(to) || !std::isfinite(value);
}

}  // namespace downpour::data
