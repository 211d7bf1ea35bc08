// Paths of sources that have a form of their own: range:N, s3://bucket/key.
#pragma once

#include <string>

#include "shared/base/object_scheme.h"
#include "shared/base/str.h"
#include "shared/job/range_source.h"

namespace downpour {

/// How such a path is written, where this one is not; empty: it is, or is any other path.
inline std::string hint_for_source_path(const std::string& path) {
  if (path.starts_with(kRangeScheme) && !range_records(path))
    return str("range:N, the numbers from 0 to N - 1; N from 1 to ", kRangeMax);
  if (!is_object_path(path)) return {};
  const size_t slash = path.find('/', kObjectScheme.size());
  const bool good = slash != kObjectScheme.size() && slash < path.size() - 1;
  return good ? "" : "a bucket and a key or a glob: s3://BUCKET/2024/*.tsv";
}

}  // namespace downpour
