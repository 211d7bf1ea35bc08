// list_files: what the user's paths and globs name.
#include <algorithm>
#include <filesystem>
#include <glob.h>

#include "shared/data/arrays.h"
#include "shared/data/byte_source.h"
#include "shared/data/dataset.h"
#include "shared/data/mnist.h"
#include "shared/data/program.h"
#include "shared/data/tfrecord.h"

namespace downpour::data {
namespace {

/// The names that a glob matches, sorted byte by byte; empty: none.
Result<std::vector<std::string>> expand_glob(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths;
  if (status == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (status != 0 && status != GLOB_NOMATCH)
    return Error{ErrorCode::kIo, str("can't list ", pattern), pattern};
  std::sort(paths.begin(), paths.end());  // glob's own order depends on the locale
  return paths;
}

Result<plan::FileInfo> look_at(const DataSpec& data, const std::string& path) {
  if (names_arrays(data, path)) return look_at_arrays(data, path);
  DP_TRY(const File file, File::open(path));
  if (file.bytes() == 0) {
    return Error{ErrorCode::kBadData, str("the file is empty: ", path), path,
                 "remove it from data.source, or write it anew"};
  }
  DP_TRY(const uint64_t fingerprint, fingerprint_of(file));
  char head[4] = {};
  DP_TRY(const size_t n, file.read_at(0, head, sizeof head));
  DP_TRY(const bool compressed, file.is_compressed());
  return plan::FileInfo{.path = path,
                        .bytes = file.bytes(),
                        .fingerprint = fingerprint,
                        .splittable = !compressed && !is_idx_images({head, n}) &&
                                      data.format != DataFormat::kTfrecord};
}

}  // namespace

Result<std::vector<plan::FileInfo>> list_files(const DataSpec& data, const SourceSpec& source,
                                               const std::string& base_dir) {
  if (source.is_program()) return std::vector{program_info(source)};
  std::vector<plan::FileInfo> files;
  for (const std::string& written : source.paths) {
    std::error_code ignored;
    const std::filesystem::path joined = std::filesystem::path(base_dir) / written;
    const std::string path = std::filesystem::absolute(joined, ignored).lexically_normal().string();
    std::vector<std::string> paths = {path};
    // A file whose very name looks like a glob is meant as it is written.
    if (path.find_first_of("*?[") != std::string::npos && !std::filesystem::exists(path, ignored)) {
      DP_TRY(paths, expand_glob(path));
      if (paths.empty()) {
        return Error{
            ErrorCode::kNoInput, str("no file matches ", written), path,
            str("see what is there: ls ", std::filesystem::path(path).parent_path().string())};
      }
    }
    for (const std::string& each : paths) {
      DP_TRY(plan::FileInfo info, look_at(data, each));
      files.push_back(std::move(info));
    }
  }
  if (files.empty())
    return Error{ErrorCode::kNoInput, "no data source is named", "data.source",
                 "data.source = \"train.csv\", say"};
  return files;
}

Result<void> find_cuts(const DataSpec& data, uint64_t shard_bytes,
                       std::vector<plan::FileInfo>& files) {
  if (data.format != DataFormat::kTfrecord) return {};
  for (plan::FileInfo& info : files) {
    if (info.bytes <= shard_bytes || is_program(info)) continue;
    DP_TRY(const File file, File::open(info.path));
    DP_TRY(const bool compressed, file.is_compressed());
    if (compressed) continue;
    DP_TRY(info.cuts, find_frame_cuts(info.path, shard_bytes));
    info.splittable = !info.cuts.empty();
  }
  return {};
}

}  // namespace downpour::data
