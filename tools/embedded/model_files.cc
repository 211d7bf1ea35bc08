#include <algorithm>
#include <cstring>
#include <set>

#include "chief/runtime/history_file.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/paths.h"
#include "tools/embedded/model.h"

namespace downpour::tools {
namespace {

constexpr uint64_t kFileBytesMax = uint64_t{1} << 40;
constexpr char kMagic[] = {'D', 'P', 'M', 'O', 'D', 'E', 'L', '1'};

/// The files that predictions need, with paths relative to the run folder.
std::set<std::string> needed_files(const std::string& run_dir,
                                   const checkpoint::Manifest& manifest) {
  std::set<std::string> paths = {checkpoint::run_path(run_dir), checkpoint::job_path(run_dir),
                                 chief::history_path(run_dir),
                                 checkpoint::manifest_path(run_dir, manifest.id)};
  const std::string folder = checkpoint::checkpoint_folder(run_dir, manifest.id);
  for (const std::vector<wire::ImageRef>& chain : checkpoint::chains_of(manifest))
    for (const wire::ImageRef& image : chain) paths.insert(checkpoint::image_path(folder, image));
  return paths;
}

/// Returns the path without the run folder and with no step upwards; empty if there is one.
std::string below(const std::string& path, const std::string& folder) {
  std::string rest = path.starts_with(folder + "/") ? path.substr(folder.size() + 1) : "";
  return rest.starts_with('/') || rest.find("..") != std::string::npos ? "" : rest;
}

Result<void> copy_file(Storage& from, const std::string& path, Storage& to,
                       const std::string& new_path) {
  DP_TRY(const Bytes bytes, from.read_file(path, kFileBytesMax));
  DP_TRY_VOID(to.make_dirs(new_path.substr(0, new_path.rfind('/'))));
  return to.write_file_atomic(new_path, bytes.span());
}

void append_number(std::vector<uint8_t>& to, uint64_t number) {
  for (int i = 0; i < 8; ++i) to.push_back(uint8_t(number >> (8 * i)));
}

/// Takes pieces from the front of the bytes of a model.
struct Pieces {
  std::span<const uint8_t> left;

  /// Returns `size` bytes; nothing if there are not as many.
  std::optional<std::span<const uint8_t>> take(uint64_t size) {
    if (size > left.size()) return std::nullopt;
    const auto piece = left.first(size_t(size));
    left = left.subspan(size_t(size));
    return piece;
  }
  std::optional<uint64_t> number() {
    const auto piece = take(8);
    if (!piece) return std::nullopt;
    uint64_t value = 0;
    for (size_t i = 8; i-- > 0;) value = value << 8 | (*piece)[i];
    return value;
  }
};

}  // namespace

const std::string ModelFiles::kFolder = "/memory/run";

ModelFiles::ModelFiles() : storage_(std::make_shared<MemoryStorage>()) {}

Result<ModelFiles> ModelFiles::of_run(Storage& storage, const std::string& run_dir) {
  return checkpoint::read_beside_training(storage, run_dir, [&]() -> Result<ModelFiles> {
    ModelFiles files;
    DP_TRY(const checkpoint::Manifest manifest, checkpoint::load_model(storage, run_dir, nullptr));
    for (const std::string& path : needed_files(run_dir, manifest)) {
      DP_TRY(const bool there, storage.exists(path));
      if (!there) continue;  // images may share a file, and only the manifest must exist
      DP_TRY_VOID(
          copy_file(storage, path, *files.storage_, str(kFolder, path.substr(run_dir.size()))));
    }
    return files;
  });
}

Result<ModelFiles> ModelFiles::of_bytes(std::span<const uint8_t> bytes) {
  const Error damaged{ErrorCode::kBadData, "these bytes are not a model, or a part is missing", "",
                      "give all the bytes that were made from a model"};
  ModelFiles files;
  Pieces pieces{bytes};
  const auto magic = pieces.take(sizeof kMagic);
  if (!magic || std::memcmp(magic->data(), kMagic, sizeof kMagic) != 0) return damaged;
  while (!pieces.left.empty()) {
    const auto name_bytes = pieces.number();
    const auto name = name_bytes ? pieces.take(*name_bytes) : std::nullopt;
    const auto file_bytes = name ? pieces.number() : std::nullopt;
    const auto file = file_bytes ? pieces.take(*file_bytes) : std::nullopt;
    if (!file) return damaged;
    const std::string path = str(
        kFolder, "/", std::string_view(reinterpret_cast<const char*>(name->data()), name->size()));
    if (below(path, kFolder).empty()) return damaged;
    DP_TRY_VOID(files.storage_->make_dirs(path.substr(0, path.rfind('/'))));
    DP_TRY_VOID(files.storage_->write_file_atomic(path, *file));
  }
  if (!checkpoint::load_model(*files.storage_, kFolder, nullptr)) return damaged;
  return files;
}

std::vector<uint8_t> ModelFiles::bytes() const {
  std::vector<uint8_t> out(std::begin(kMagic), std::end(kMagic));
  for (const std::string& path : storage_->files_below(kFolder)) {
    const Bytes file = *storage_->read_file(path, kFileBytesMax);
    const std::string name = below(path, kFolder);
    append_number(out, name.size());
    out.insert(out.end(), name.begin(), name.end());
    append_number(out, file.size());
    out.insert(out.end(), file.data(), file.data() + file.size());
  }
  return out;
}

Result<void> ModelFiles::save(Storage& to, const std::string& run_dir) const {
  DP_TRY(const bool taken, to.exists(checkpoint::run_path(run_dir)));
  if (taken) {
    return Error{ErrorCode::kCannotCreate, "the folder has a run already", run_dir,
                 "name another folder, or remove this one"};
  }
  // The manifest comes after the files of its checkpoint, and the file of the run is the last one,
  // so that a save that failed can be repeated.
  std::vector<std::string> paths = storage_->files_below(kFolder);
  std::ranges::stable_sort(paths, {}, [](const std::string& path) {
    return path == checkpoint::run_path(kFolder) ? 2 : path.ends_with(".dpm") ? 1 : 0;
  });
  for (const std::string& path : paths)
    DP_TRY_VOID(copy_file(*storage_, path, to, str(run_dir, path.substr(kFolder.size()))));
  return {};
}

std::string ModelFiles::history() const {
  const auto text = storage_->read_file(chief::history_path(kFolder), kFileBytesMax);
  if (!text) return "";
  return {reinterpret_cast<const char*>(text->data()), text->size()};
}

}  // namespace downpour::tools
