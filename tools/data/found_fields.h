// The fields of a data set: those that its job declares, or those found in its first records.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/formats/codec.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"

namespace downpour::tools {

/// Returns the fields that a job declares, or the format's default fields if it declares none.
std::vector<data::ValueField> declared_fields(const DataSpec& data);

/// Returns the fields of the first records of a file, with a kind and shape that fit all of their
/// values. It reads at most kSampledRecords records and about kSampledBytes bytes. A field with
/// both numbers and texts is text in a table, and kNone in other formats. Bad records are skipped.
constexpr uint64_t kSampledRecords = 10'000;
constexpr uint64_t kSampledBytes = uint64_t{16} << 20;
Result<std::vector<data::ValueField>> found_fields(const DataSpec& data,
                                                   const plan::FileInfo& info);

}  // namespace downpour::tools
