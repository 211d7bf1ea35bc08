#include "tools/data/data_set.h"

#include <algorithm>
#include <filesystem>

#include "chief/runtime/job_setup.h"
#include "shared/data/formats/sniff.h"
#include "shared/data/reading/dataset.h"
#include "shared/job/file_job.h"
#include "shared/job/formats.h"
#include "shared/job/keys.h"

namespace downpour::tools {
namespace {

Result<DataSet> open_job(const std::string& path, const DataSetOptions& options) {
  DP_TRY(chief::GivenJob given, chief::load_given_job(path, options.overrides));
  if (given.loaded.job.data.source.is_program()) {
    return Error{
        ErrorCode::kUsage, "the source of this job is a program, not files", path,
        "run the program by hand to see its output; downpour train JOB --dry-run shows its shards"};
  }
  DataSet set{.job = std::move(given.loaded.job),
              .from_job = true,
              .found = std::move(given.sniffed),
              .name = path};
  set.declared =
      std::any_of(given.loaded.origins.begin(), given.loaded.origins.end(),
                  [](const auto& origin) { return origin.first.starts_with("data.fields"); });
  DP_TRY(set.files, data::list_files(set.data(), set.data().source, set.job.base_dir));
  return set;
}

}  // namespace

const char* format_name(DataFormat format) { return traits_of(format).name.data(); }

std::optional<DataFormat> format_named(std::string_view name) {
  for (const FormatTraits& traits : kFormats)
    if (traits.name == name) return traits.format;
  return std::nullopt;
}

Result<DataSet> open_data_set(const std::vector<std::string>& names,
                              const DataSetOptions& options) {
  DP_CHECK(!names.empty());
  const bool job = std::any_of(names.begin(), names.end(),
                               [](const std::string& name) { return name.ends_with(".toml"); });
  if (job && names.size() > 1) {
    return Error{ErrorCode::kUsage, "give either one job file or data files", names.back(),
                 "the data files of a job are in its data.source"};
  }
  if (job) return open_job(names[0], options);

  DataSet set;
  set.name = names[0];
  const std::string here = std::filesystem::current_path().string();
  DataSpec wanted;
  wanted.source.paths = names;
  DP_TRY(set.files, data::list_files(wanted, wanted.source, here));
  const std::string& first = set.files.front().path;
  if (auto [found, facts] = data::recognize(first); facts) {
    facts->path = first;
    set.job = job_for_file(*facts, here);
    set.job.data.filter.clear();  // all records are shown and copied
    set.found = facts->reason;
  } else if (traits_of(found).typed && !is_lines(found)) {
    set.job.data.format = found;  // its records can be read without the settings
  } else if (!is_decided(options.format)) {
    return std::move(facts).error();
  }
  if (is_decided(options.format) && options.format != set.data().format) {
    // The detected fields belong to another format.
    set.job.data = DataSpec{.format = options.format};
    set.found.clear();
  }
  set.job.data.source.paths = names;
  set.job.base_dir = here;
  if (is_frames(set.data().format) || is_arrays(set.data().format)) {
    // List the files again with this format, because their content decides where they can be cut.
    DataSpec all = set.data();
    all.fields.clear();
    DP_TRY(set.files, data::list_files(all, all.source, here));
  }
  return set;
}

}  // namespace downpour::tools
