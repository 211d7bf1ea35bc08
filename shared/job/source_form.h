// The valid forms of a job's source: a table, a list of tables, and paths with a scheme (range:N,
// synth:N, s3://bucket/key).
#pragma once

#include <optional>
#include <string>

#include "shared/base/object_scheme.h"
#include "shared/base/str.h"
#include "shared/job/job.h"
#include "shared/job/range_source.h"
#include "shared/job/synth_source.h"

namespace downpour {

/// Returns how a path with one of these schemes must be written, if `path` is not. Returns an empty
/// string if it is valid or has no such scheme.
inline std::string hint_for_source_path(const std::string& path) {
  if (path.starts_with(kRangeScheme) && !range_records(path))
    return str("range:N gives the numbers from 0 to N - 1; N can be 1 to ", kRangeMax);
  if (path.starts_with(kSynthScheme) && !synth_source(path)) return synth_source_hint();
  if (!is_object_path(path)) return {};
  const size_t slash = path.find('/', kObjectScheme.size());
  const bool good = slash != kObjectScheme.size() && slash < path.size() - 1;
  return good ? "" : "give a bucket and a key or a glob: s3://BUCKET/2024/*.tsv";
}

/// An error in a source as written, and the correction.
struct SourceComplaint {
  std::string what;
  const char* hint;
};

/// Checks one table.
inline std::optional<SourceComplaint> complaint_of(const SourceSpec& source) {
  if (source.empty()) return SourceComplaint{"without a path", "source = { path = \"...\" }"};
  if (source.is_program() && !source.paths.empty())
    return SourceComplaint{"both files and a program", "keep either path or exec"};
  if (source.is_program() && !source.parts.empty())
    return SourceComplaint{"a program with a weight, or repeated",
                           "a program must be the only source; train.epochs runs it again"};
  if (source.is_program() && source.exec[0].empty())
    return SourceComplaint{"a program without a name", "exec = [\"python3\", \"make.py\"]"};
  if (!source.takes_all() && !source.parts.empty() && source.parts[0].repeat > 1)
    return SourceComplaint{"a repeated source with skip, take or shard",
                           "remove repeat, and set train.epochs to read the records more often"};
  if (source.shard_index >= source.shard_count)
    return SourceComplaint{str("shard ", source.shard_index, " of ", source.shard_count),
                           "the index starts at 0: shard = { count = 2, index = 1 }"};
  return std::nullopt;
}

/// Checks an entry of a list. `before` holds the entries before it.
inline std::optional<SourceComplaint> complaint_of(const SourceSpec& entry,
                                                   const SourceSpec& before) {
  if (!entry.takes_all())
    return SourceComplaint{
        "a list whose entries have skip, take or shard",
        "set skip, take and shard for the whole source: source = { path = [...], take = 1000 }"};
  if (entry.is_program())
    return SourceComplaint{"a list that contains a program",
                           "a program must be the only source: source = { exec = [...] }"};
  if (!before.paths.empty() && entry.format != before.format)
    return SourceComplaint{"a list of several formats",
                           "use one format for all entries; `downpour shard --to` converts files"};
  return std::nullopt;
}

}  // namespace downpour
