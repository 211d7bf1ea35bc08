// list_files: resolves the user's paths and globs to files.
#include <algorithm>
#include <filesystem>
#include <glob.h>
#include <map>
#include <sstream>

#include "shared/base/object_scheme.h"
#include "shared/data/bytes/open_bytes.h"
#include "shared/data/formats/format.h"
#include "shared/data/formats/memory/memory_table.h"
#include "shared/data/formats/mnist/mnist.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/data/reading/dataset.h"
#include "shared/data/reading/program.h"
#include "shared/data/records/chosen_windows.h"
#include "shared/data/records/delimited.h"
#include "shared/data/records/line_windows.h"
#include "shared/objects/object_store.h"
#include "shared/plan/range_limits.h"

namespace downpour::data {
namespace {

/// Returns the names that match a glob, sorted by bytes; empty if there are none.
Result<std::vector<std::string>> expand_glob(const std::string& pattern) {
  if (pattern.find("**") != std::string::npos)
    return Error{ErrorCode::kConfig, "`**` is not supported in a glob", pattern,
                 "write a pattern for each depth: [\"logs/*.csv\", \"logs/*/*.csv\"]"};
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths;
  if (status == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (status != 0 && status != GLOB_NOMATCH)
    return Error{ErrorCode::kIo, str("can't list ", pattern), pattern};
  std::sort(paths.begin(), paths.end());  // the order of glob() depends on the locale
  return paths;
}

constexpr uint64_t kListBytesMax = uint64_t{16} << 20;

/// Reads paths and globs from a text file, one per line, relative to the folder of that file. Blank
/// lines and lines that begin with '#' are ignored.
Result<std::vector<std::string>> read_list(const std::string& path) {
  DP_TRY(File file, File::open(path));
  DP_TRY(const std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  std::string text(kListBytesMax + 1, '\0');
  DP_TRY(const size_t n, source->read(text.data(), text.size()));
  if (n > kListBytesMax)
    return Error{ErrorCode::kBadData, "the list of file names is larger than 16 MiB", path,
                 "use globs, or fewer and larger files"};
  text.resize(n);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const auto beside = [&](std::string_view name) {
    if (is_object_path(name)) return std::string(name);
    if (is_object_path(path)) return str(path.substr(0, path.rfind('/') + 1), name);
    return (folder / name).lexically_normal().string();
  };
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string_view name = trimmed(line);
    if (name.empty() || name[0] == '#') continue;
    names.push_back(beside(name));
  }
  if (names.empty())
    return Error{ErrorCode::kBadData, "the list contains no file", path,
                 "write one path or glob per line"};
  return names;
}

/// Returns the files of a folder in ascending order. Leaves out names that begin with '.' or '_',
/// as other systems do, and folders.
Result<std::vector<std::string>> files_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name[0] != '.' && name[0] != '_' && entry->is_regular_file(error))
      files.push_back(entry->path().string());
  }
  if (error) return Error{ErrorCode::kIo, str("can't list the folder: ", error.message()), folder};
  if (files.empty())
    return Error{ErrorCode::kNoInput, "the folder contains no data files", folder,
                 "files whose names begin with '.' or '_' do not count, and neither do folders"};
  std::ranges::sort(files);
  return files;
}

/// Returns the path, or the files of the folder that it names. A folder of arrays stays.
Result<std::vector<std::string>> files_at(const DataSpec& data, const std::string& path) {
  std::error_code ignored;
  const bool is_folder = !is_memory_path(path) && !is_object_path(path) &&
                         std::filesystem::is_directory(path, ignored) && !names_arrays(data, path);
  return is_folder ? files_in(path) : Result<std::vector<std::string>>(std::vector{path});
}

Result<plan::FileInfo> look_at(const DataSpec& data, const std::string& path) {
  if (is_memory_path(path)) return look_at_table(path);
  if (names_arrays(data, path)) {
    DP_TRY(const std::vector<SourceArray> arrays, open_arrays(data, path));
    return look_at_arrays(path, arrays);
  }
  DP_TRY(const File file, File::open(path));
  if (file.bytes() == 0) {
    return Error{ErrorCode::kBadData, str("the file is empty: ", path), path,
                 "remove it from data.source, or write the file again"};
  }
  DP_TRY(const uint64_t fingerprint, fingerprint_of(file));
  char head[4] = {};
  DP_TRY(const size_t n, file.read_at(0, head, sizeof head));
  DP_TRY(const bool compressed, file.is_compressed());
  return plan::FileInfo{
      .path = path,
      .bytes = file.bytes(),
      .fingerprint = fingerprint,
      .splittable = !compressed && !is_idx_images({head, n}) && !data.boundaries_need_scan()};
}

/// Returns the files or objects that an absolute path or glob names. If a file with exactly that
/// name exists, the path is not treated as a glob.
Result<std::vector<std::string>> files_named(const std::string& path) {
  if (is_memory_path(path)) return std::vector{path};
  if (is_object_path(path)) {
    if (path.find_first_of("*?[\\") == std::string::npos) return std::vector{path};
    DP_TRY(objects::StoreSettings settings, objects::settings_from_environment());
    objects::ObjectStore store(std::move(settings));
    return objects::expand_object_path(store, path);
  }
  std::error_code ignored;
  if (path.find_first_of("*?[") == std::string::npos || std::filesystem::exists(path, ignored))
    return std::vector{path};
  DP_TRY(std::vector<std::string> paths, expand_glob(path));
  if (!paths.empty()) return paths;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return Error{ErrorCode::kNoInput, str("no file matches ", path), path,
               str("list the folder: ls ", folder.string())};
}

/// Returns the files of a path as it is written in a job.
Result<std::vector<std::string>> files_of(const std::string& written, const std::string& base_dir) {
  std::error_code ignored;
  const auto absolute = [&](std::string_view name) {
    if (is_object_path(name) || is_memory_path(name)) return std::string(name);
    const std::filesystem::path joined = std::filesystem::path(base_dir) / name;
    return std::filesystem::absolute(joined, ignored).lexically_normal().string();
  };
  if (written[0] != '@' || std::filesystem::exists(absolute(written), ignored))
    return files_named(absolute(written));
  DP_TRY(const std::vector<std::string> names,
         read_list(absolute(std::string_view(written).substr(1))));
  std::vector<std::string> files;
  for (const std::string& name : names) {
    DP_TRY(const std::vector<std::string> found, files_named(name));
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace

Result<std::vector<plan::FileInfo>> list_files(const DataSpec& data, const SourceSpec& source,
                                               const std::string& base_dir) {
  if (source.is_program()) return std::vector{program_info(source)};
  std::vector<SourcePart> parts = source.parts;
  if (parts.empty()) parts = {{.paths = uint32_t(source.paths.size())}};
  std::vector<plan::FileInfo> files;
  auto written = source.paths.begin();
  for (uint32_t part = 0; part < parts.size(); ++part) {
    std::vector<plan::FileInfo> once;
    for (uint32_t i = 0; i < parts[part].paths; ++i) {
      DP_TRY(const std::vector<std::string> paths, files_of(*written++, base_dir));
      for (const std::string& path : paths) {
        DP_TRY(const std::vector<std::string> names, files_at(data, path));
        for (const std::string& name : names) {
          DP_TRY(plan::FileInfo info, look_at(data, name));
          info.part = part;
          once.push_back(std::move(info));
        }
      }
    }
    for (uint32_t i = 0; i < parts[part].repeat; ++i)
      files.insert(files.end(), once.begin(), once.end());
  }
  if (files.empty())
    return Error{ErrorCode::kNoInput, "the job has no data source", "data.source",
                 "for example data.source = \"train.csv\""};
  return files;
}

Result<void> note_parts(DataSpec& data, const std::vector<plan::FileInfo>& files) {
  if (!data.source.is_mix()) return {};
  for (uint32_t i = 0; i < data.source.parts.size(); ++i) {
    SourcePart& part = data.source.parts[i];
    part.files = uint32_t(std::ranges::count(files, i, &plan::FileInfo::part));
    if (part.files == 0) continue;
    const auto of_part = [&](bool cut) {
      return std::ranges::find_if(files, [&](const plan::FileInfo& file) {
        return file.part == i && file.is_cut() == cut;
      });
    };
    if (const auto whole = of_part(false), cut = of_part(true);
        whole != files.end() && cut != files.end()) {
      return Error{ErrorCode::kConfig,
                   str("a source of a mix has compressed files (", whole->path, ") and others (",
                       cut->path, "), so the bytes of a record do not follow from its first file"),
                   "data.source", "compress all its files or none", "DP-2106"};
    }
    DP_TRY(part.record_bytes, mean_record_bytes(data, files, i));
  }
  return {};
}

namespace {

/// Returns how many bytes of the part's records correspond to `bytes` of the first part's: the same
/// number of records.
uint64_t bytes_in_part(const SourceSpec& source, uint32_t part, uint64_t bytes) {
  if (!source.is_mix()) return bytes;
  const auto length = [&](uint32_t p) {
    return std::max<uint64_t>(source.parts[p].record_bytes, 1);
  };
  const __uint128_t scaled = __uint128_t{bytes} * length(part) / length(0);
  return uint64_t(std::clamp<__uint128_t>(scaled, 1, UINT64_MAX));
}

/// Returns the offsets at which cut_shards() would cut the file.
std::vector<uint64_t> even_cuts(const plan::FileInfo& info, uint64_t bytes) {
  std::vector<uint64_t> cuts;
  for (const plan::ShardRange& range : plan::cut_shards({info}, bytes)) {
    if (range.begin > 0) cuts.push_back(range.begin);
  }
  return cuts;
}

}  // namespace

Result<std::optional<double>> compression_ratio(const std::string& path) {
  DP_TRY(File file, File::open(path));
  DP_TRY(const bool compressed, file.is_compressed());
  if (!compressed) return std::optional<double>();
  DP_TRY(const std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  std::vector<char> text(4 * kMiB);
  DP_TRY(const size_t bytes, source->read(text.data(), text.size()));
  return std::optional(double(std::max<size_t>(bytes, 1)) /
                       double(std::max<uint64_t>(source->consumed(), 1)));
}

Result<void> find_cuts(const DataSpec& data, const SourceSpec& source, uint64_t shard_bytes,
                       std::vector<plan::FileInfo>& files) {
  DP_TRY_VOID(plan::check_ranges(files, shard_bytes, {}));
  std::map<std::string, const plan::FileInfo*> found;  // a file may be listed several times
  uint64_t wanted = chosen_end(source);                // after this many records no cut is needed
  uint64_t cuts = 0;
  for (plan::FileInfo& info : files) {
    if (info.is_program()) continue;
    if (cuts > plan::kRangesMax) break;  // the check below rejects this many
    const uint64_t bytes = bytes_in_part(source, info.part, shard_bytes);
    const auto check = [&] {
      return plan::check_ranges({{.path = info.path, .bytes = info.bytes}}, bytes, {});
    };
    if (!data.boundaries_need_scan()) {
      if (!info.splittable || bytes == shard_bytes) continue;
      DP_TRY_VOID(check());
      info.cuts = even_cuts(info, bytes);
      cuts += info.cuts.size();
      continue;
    }
    if (info.bytes <= bytes || wanted == 0) continue;
    const auto [known, first] = found.try_emplace(str(info.path, '\n', bytes), &info);
    if (first) {
      DP_TRY(const File file, File::open(info.path));
      DP_TRY(const bool compressed, file.is_compressed());
      if (!compressed) {
        DP_TRY_VOID(check());
        DP_TRY(RecordCuts found_cuts, format_of(data.format).find_cuts(data, info, bytes, wanted));
        info.cuts = std::move(found_cuts.cuts);
        wanted -= found_cuts.records;
      }
    } else {
      info.cuts = known->second->cuts;
    }
    info.splittable = !info.cuts.empty();
    cuts += info.cuts.size();
  }
  return plan::check_ranges(files, shard_bytes, {});
}

}  // namespace downpour::data
