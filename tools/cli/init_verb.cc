// The verb init: writes the job that `downpour train DATAFILE` would train to a job file.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chief/runtime/job_setup.h"
#include "shared/base/error_text.h"
#include "shared/base/object_scheme.h"
#include "shared/env/storage.h"
#include "shared/job/nearest_name.h"
#include "shared/job/outline.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

namespace fs = std::filesystem;

struct InitFlags {
  std::vector<std::string> data;
  std::string target, out;
  bool force = false;
};

/// Returns the path of a data file as a job file in `folder` names it: relative if it is below the
/// folder.
std::string source_path(const std::string& path, const fs::path& folder) {
  if (is_object_path(path)) return path;
  const fs::path relative = fs::path(path).lexically_normal().lexically_relative(folder);
  const bool below = !relative.empty() && *relative.begin() != "..";
  return below ? relative.string() : path;
}

Result<void> check_out(const fs::path& out, bool force) {
  std::error_code ignored;
  if (out.extension() != ".toml") {
    return Error{
        ErrorCode::kUsage, str("the name of a job file ends in .toml, not `", out.string(), "`"),
        "", "for example -o job.toml: downpour train takes any other name for a data file", ""};
  }
  if (fs::is_directory(out, ignored))
    return Error{ErrorCode::kCannotCreate, "the path of the job file is that of a folder", out,
                 "name a file in it: -o FOLDER/job.toml", ""};
  if (!force && fs::exists(out, ignored)) {
    return Error{ErrorCode::kCannotCreate, "the job file exists already", out,
                 "--force replaces it; -o OTHER.toml writes another file", ""};
  }
  return {};
}

/// Checks that the field that the user wants to predict is the target of the job.
Result<void> check_target(const InitFlags& flags, const Job& job) {
  if (flags.target.empty() || job.model.options.target == flags.target) return {};
  std::vector<std::string> names;
  for (const FieldSpec& field : job.data.fields) names.push_back(field.name);
  const std::string nearest = nearest_name(flags.target, names);
  std::string listed;
  constexpr size_t kShownMax = 20;
  for (size_t i = 0; i < std::min(kShownMax, names.size()); ++i)
    listed += str(i == 0 ? "" : ", ", names[i]);
  if (names.size() > kShownMax) listed += str(" and ", names.size() - kShownMax, " more");
  return Error{
      ErrorCode::kConfig,
      str("--target is `", flags.target, "`, but the data file has no such field"), flags.data[0],
      nearest.empty() ? str("the fields are ", listed) : str("did you mean `", nearest, "`?"),
      "DP-2108"};
}

std::string heading(const InitFlags& flags, const std::string& out, const std::string& reason) {
  std::string data;
  for (const std::string& path : flags.data) data += " " + printable(path);
  return str("# Written by `downpour init", data, "`. To train: downpour train ", printable(out),
             "\n# Found in the file: ", printable(reason),
             ".\n# A key that is absent has its default: docs/job-file.md lists all keys.\n\n");
}

Result<void> init(const InitFlags& flags) {
  for (const std::string& path : flags.data) {
    if (!path.ends_with(".toml")) continue;
    return Error{ErrorCode::kUsage, "the argument is a job file, not a data file", path,
                 str("train it: downpour train ", path), ""};
  }
  std::error_code ignored;
  if (!flags.out.empty()) DP_TRY_VOID(check_out(flags.out, flags.force));
  const std::string here = flags.out.empty() ? "job.toml" : flags.out;
  const fs::path folder = fs::absolute(here, ignored).lexically_normal().parent_path();
  std::vector<Override> overrides;
  if (!flags.target.empty()) overrides.push_back({"model.target", flags.target, "--target"});
  DP_TRY(chief::ChosenJob chosen,
         chief::choose_job(flags.data, overrides, /*fresh=*/false, folder.string()));
  DP_TRY_VOID(check_target(flags, chosen.job));
  Job& job = chosen.job;
  const std::string out = flags.out.empty() ? job.name + ".toml" : flags.out;
  if (flags.out.empty()) DP_TRY_VOID(check_out(out, flags.force));
  job.base_dir.clear();
  job.run_dir = "runs/" + job.name;
  for (std::string& path : job.data.source.paths) path = source_path(path, folder);
  const std::string text = heading(flags, out, chosen.reason) + job_outline(job);
  // Reports what the data file lacks before the job file exists.
  DP_TRY(LoadedJob loaded, load_job(JobSource{out, text}, {}, chief::process_environment()));
  std::string sniffed;
  if (auto complete = chief::complete_from_data(loaded.job, sniffed); !complete)
    return located(std::move(complete).error(), loaded.origins);
  PosixStorage storage;
  DP_TRY_VOID(storage.write_file_atomic(out, as_bytes(text)));
  std::fprintf(stderr, "data: %s\n", printable(chosen.reason).c_str());
  for (const std::string& warning : chosen.warnings)
    std::fprintf(stderr, "warning: %s\n", printable(warning).c_str());
  std::printf("job     %s\nnext    edit it, or train: downpour train %s\n", printable(out).c_str(),
              printable(out).c_str());
  return {};
}

}  // namespace

void declare_init(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, init);
  verb->add_option("data", flags->data, "Data files, folders and globs: their format is detected")
      ->required();
  verb->add_option("--target", flags->target, "Field to predict; default: detected");
  verb->add_option("-o,--out", flags->out,
                   "Job file to write: NAME.toml; default: the name of the data file, here");
  verb->add_flag("--force", flags->force, "Replace the job file if it exists");
  verb->footer(
      "Examples:\n  downpour init clicks.tsv                       write clicks.toml\n  downpour "
      "init houses.csv --target price -o jobs/houses.toml");
}

}  // namespace downpour::tools
