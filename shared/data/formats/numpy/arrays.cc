#include "shared/data/formats/numpy/arrays.h"

#include <algorithm>
#include <filesystem>

#include "shared/base/hash.h"
#include "shared/base/object_scheme.h"
#include "shared/data/bytes/file.h"

namespace downpour::data {
namespace {

namespace fs = std::filesystem;

/// Reads the header of an array that starts at `offset` and has `bytes` bytes.
Result<NpyArray> read_head(const File& file, uint64_t offset, uint64_t bytes,
                           const std::string& where) {
  std::string head(size_t(std::min<uint64_t>(bytes, kNpyHeadBytesMax)), '\0');
  DP_TRY(const size_t n, file.read_at(offset, head.data(), head.size()));
  DP_TRY(NpyArray array, parse_npy({head.data(), n}, bytes, where));
  array.data_offset += offset;
  return array;
}

Result<SourceArray> open_npy(const std::string& path, std::string name) {
  DP_TRY(File file, File::open(path));
  SourceArray out{.name = std::move(name), .where = path};
  out.file = std::make_shared<const File>(std::move(file));
  DP_TRY(out.array, read_head(*out.file, 0, out.file->bytes(), path));
  return out;
}

Result<std::vector<SourceArray>> open_npz(const std::string& path) {
  DP_TRY(File opened, File::open(path));
  const auto file = std::make_shared<const File>(std::move(opened));
  DP_TRY(const std::vector<ZipMember> members, list_zip(*file));
  std::vector<SourceArray> arrays;
  for (const ZipMember& member : members) {
    if (!member.name.ends_with(kNpyEnding)) continue;
    SourceArray& out = arrays.emplace_back();
    out.name = member.name.substr(0, member.name.size() - kNpyEnding.size());
    out.where = str(path, ":", member.name);
    out.file = file;
    out.member = member;
    if (!member.deflated) {
      DP_TRY(out.array, read_head(*file, member.data_offset, member.bytes, out.where));
      continue;
    }
    InflatedMember inflated(file, member);
    std::string head(size_t(std::min<uint64_t>(member.bytes, kNpyHeadBytesMax)), '\0');
    DP_TRY_VOID(inflated.read(head.data(), head.size()));
    DP_TRY(out.array, parse_npy(head, member.bytes, out.where));
  }
  return arrays;
}

std::vector<std::string> npy_names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(kNpyEnding)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_archive(const DataSpec& data, const std::string& path) {
  return path.ends_with(".npz") || (data.format == DataFormat::kNpz && !is_folder(path));
}

/// Returns whether a field reads the array of this name. Without fields all arrays are wanted.
bool is_wanted(const DataSpec& data, const std::string& path, const std::string& name) {
  return data.fields.empty() ||
         std::any_of(data.fields.begin(), data.fields.end(), [&](const FieldSpec& field) {
           return array_name_of(data, path, field) == name;
         });
}

Error none_there(const DataSpec& data, const std::string& path,
                 const std::vector<std::string>& there) {
  std::string wanted, names;
  for (const FieldSpec& field : data.fields)
    wanted += (wanted.empty() ? "" : ", ") + array_name_of(data, path, field);
  for (const std::string& name : there) names += (names.empty() ? "" : ", ") + name;
  return Error{ErrorCode::kNoInput,
               data.fields.empty()
                   ? str("contains no arrays: ", path)
                   : str("contains none of the arrays that the fields need (", wanted, "): ", path),
               path,
               names.empty() ? "write them with np.save or np.savez" : str("it contains: ", names)};
}

}  // namespace

std::string array_name_of(const DataSpec& data, const std::string& path, const FieldSpec& field) {
  std::string name = field.path.empty() ? field.name : field.path;
  const bool ended = name.ends_with(kNpyEnding);
  const bool archive = is_archive(data, path);
  if (archive && ended) name.resize(name.size() - kNpyEnding.size());
  if (!archive && !ended) name += kNpyEnding;
  return name;
}

bool names_arrays(const DataSpec& data, const std::string& path) {
  if (data.format == DataFormat::kNpy || data.format == DataFormat::kNpz) return true;
  if (data.format != DataFormat::kAuto) return false;
  if (is_folder(path)) return !npy_names_in(path).empty();
  return path.ends_with(kNpyEnding) || path.ends_with(".npz");
}

Result<std::vector<SourceArray>> open_arrays(const DataSpec& data, const std::string& path) {
  std::vector<SourceArray> arrays;
  std::vector<std::string> there;
  if (is_object_path(path) && path.ends_with('/')) {
    return Error{ErrorCode::kUnsupported,
                 str("a folder of arrays in an object store is not supported: ", path), path,
                 "copy the folder to a disk, or use single .npy or .npz objects"};
  }
  if (is_folder(path)) {
    there = npy_names_in(path);
    // Fields may read arrays in subfolders, which are not listed.
    std::vector<std::string> wanted = there;
    for (const FieldSpec& field : data.fields) {
      const std::string name = array_name_of(data, path, field);
      if (std::find(wanted.begin(), wanted.end(), name) == wanted.end()) wanted.push_back(name);
    }
    for (const std::string& name : wanted) {
      const std::string file = (fs::path(path) / name).string();
      std::error_code error;
      if (!is_wanted(data, path, name) || !fs::exists(file, error)) continue;
      DP_TRY(SourceArray array, open_npy(file, name));
      arrays.push_back(std::move(array));
    }
  } else if (is_archive(data, path)) {
    DP_TRY(std::vector<SourceArray> all, open_npz(path));
    for (SourceArray& array : all) {
      there.push_back(array.name);
      if (is_wanted(data, path, array.name)) arrays.push_back(std::move(array));
    }
  } else {
    DP_TRY(SourceArray array, open_npy(path, ""));
    arrays.push_back(std::move(array));
  }
  if (arrays.empty()) return none_there(data, path, there);
  for (const SourceArray& other : arrays) {
    const SourceArray& first = arrays.front();
    if (other.array.rows == first.array.rows) continue;
    return Error{ErrorCode::kBadData,
                 str("the arrays have different numbers of rows: ", first.where, " has ",
                     first.array.rows, ", ", other.where, " has ", other.array.rows),
                 path, "row i of every array is record i: save them with the same number of rows"};
  }
  return arrays;
}

Result<std::vector<std::unique_ptr<InflatedMember>>> inflated_members(
    const std::vector<SourceArray>& arrays) {
  std::vector<std::unique_ptr<InflatedMember>> members(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!arrays[i].member.deflated) continue;
    members[i] = std::make_unique<InflatedMember>(arrays[i].file, arrays[i].member);
    std::string head(size_t(arrays[i].array.data_offset), '\0');
    DP_TRY_VOID(members[i]->read(head.data(), head.size()));
  }
  return members;
}

Result<void> check_arrays(const DataSpec& data, const std::string& path) {
  DP_TRY(const std::vector<SourceArray> arrays, open_arrays(data, path));
  for (const SourceArray& array : arrays) {
    const bool stored = !array.member.name.empty() && !array.member.deflated;
    if (!stored) continue;
    DP_TRY_VOID(check_stored(*array.file, array.member));
  }
  return {};
}

Result<plan::FileInfo> look_at_arrays(const std::string& path,
                                      const std::vector<SourceArray>& arrays) {
  plan::FileInfo info{.path = path};
  uint64_t row_bytes = 0;
  for (const SourceArray& array : arrays) {
    row_bytes += array.array.row_bytes();
    info.splittable = info.splittable && !array.member.deflated;
    DP_TRY(const uint64_t fingerprint, array.file->fingerprint());
    info.fingerprint = hash_combine(hash_combine(info.fingerprint, hash_string(array.name)),
                                    hash_combine(fingerprint, array.array.rows));
  }
  const uint64_t rows = arrays.front().array.rows;
  if (rows == 0) {
    return Error{ErrorCode::kBadData, str("the arrays have no rows: ", path), path,
                 "remove the path from data.source, or save the arrays again"};
  }
  if (row_bytes > UINT64_MAX / 2 / rows)
    return Error{ErrorCode::kBadData, str("the arrays are too large: ", path), path};
  info.bytes = rows * row_bytes;
  return info;
}

}  // namespace downpour::data
