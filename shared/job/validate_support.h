// Errors and checks of names that the rules of a job share. Internal to validate.cc and
// validate_model.cc.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/base/str.h"
#include "shared/job/nearest_name.h"

namespace downpour {

/// Returns an error in a job. `where` is the key.
inline Error wrong(std::string what, std::string where, std::string hint,
                   const char* id = "DP-2106") {
  return Error{ErrorCode::kConfig, std::move(what), std::move(where), std::move(hint), id};
}

/// Returns the error for a name that is not in `names`, with the nearest one or all of a few.
inline Error unknown_name(const char* kind, const std::string& name, std::string where,
                          const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(name, names);
  std::string hint = nearest.empty() ? "" : str("did you mean `", nearest, "`?");
  if (nearest.empty() && names.size() <= 12) {
    for (const std::string& known : names) hint += str(hint.empty() ? "available: " : ", ", known);
  }
  return wrong(str("there is no ", kind, " `", name, "`"), std::move(where), std::move(hint),
               "DP-2108");
}

inline bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns true if a run, field, layer or output may have this name. It may have blanks and letters
/// of any language, but it becomes part of a path.
inline bool can_be_named(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.size() <= 200 &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return uint8_t(c) >= 0x20 && c != '/' && c != 0x7f; });
}

}  // namespace downpour
