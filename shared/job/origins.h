// Origins: where the values of a job's keys came from.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace downpour {

/// Where the value of a key came from, by the key's full path. Keys that are absent have their
/// default.
struct Origin {
  std::string from;   // "job.toml:12", "--set", "environment DAY"
  std::string where;  // for errors: "job.toml:12:9", "--set train.epochs"
};
using Origins = std::map<std::string, Origin>;

/// Replaces an error's `where`, if it is a key ("model.layers[1].inputs"), by that key's place in
/// the file.
Error located(Error error, const Origins& origins);

/// Returns the origin of a key, or of the nearest table around it. Null: the default value.
const Origin* find_origin(const Origins& origins, std::string_view key);

}  // namespace downpour
