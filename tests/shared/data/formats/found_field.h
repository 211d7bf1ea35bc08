// The field of a name among those that detection finds.
#pragma once

#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "shared/job/file_job.h"

namespace downpour::data {

inline const FieldSpec& field_of(const FileFacts& facts, const std::string& name) {
  const auto field = std::ranges::find(facts.fields, name, &FieldSpec::name);
  if (field == facts.fields.end()) FAIL("no field " << name);
  return *field;
}

}  // namespace downpour::data
