#include "shared/checkpoint/manifest.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "shared/base/defence.h"
#include "shared/base/sizes.h"
#include "shared/checkpoint/framed_file.h"
#include "shared/checkpoint/image_check.h"
#include "shared/checkpoint/image_layout.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/paths.h"
#include "shared/checkpoint/run_file.h"
#include "shared/checkpoint/schema_codec.h"

namespace downpour::checkpoint {
namespace {

constexpr std::string_view kManifestMagic = "DPMANIF";
constexpr uint32_t kPartitionsMax = 65536;

Result<void> validate_image_refs(const Manifest& manifest) {
  if (manifest.images.size() != manifest.partitions) {
    return bad(str(manifest.images.size(), " images for ", manifest.partitions, " partitions"));
  }
  for (size_t i = 0; i < manifest.images.size(); ++i) {
    const wire::ImageRef& ref = manifest.images[i];
    if (raw(ref.partition) != i) {
      return bad(str("image ", i, " is of partition ", raw(ref.partition)));
    }
    if (ref.checkpoint != ViewId{}) return bad(str("image ", i, " is in another checkpoint"));
    DP_TRY_VOID(validate_image_ref(ref));
  }
  return {};
}

Result<void> validate_bases(const Manifest& manifest) {
  for (size_t i = 0; i < manifest.bases.size(); ++i) {
    const wire::ImageRef& ref = manifest.bases[i];
    if (raw(ref.partition) >= manifest.partitions ||
        (i > 0 && manifest.bases[i - 1].partition > ref.partition)) {
      return bad(str("base ", i, " is of partition ", raw(ref.partition)));
    }
    if (ref.checkpoint.term == 0 || ref.checkpoint >= manifest.id) {
      return bad(str("base ", i, " is in checkpoint ", ref.checkpoint));
    }
    DP_TRY_VOID(validate_image_ref(ref));
  }
  for (const auto& chain : chains_of(manifest)) DP_TRY_VOID(validate_chain(chain));
  return {};
}

/// Checks that the image files exist, are as long as the manifest requires, and contain only images
/// after that. Checksums of images are verified elsewhere.
Result<void> check_files(Storage& storage, const std::string& folder, const Manifest& manifest) {
  std::map<std::string, uint64_t> ends;
  for (const auto* refs : {&manifest.bases, &manifest.images}) {
    for (const wire::ImageRef& ref : *refs) {
      uint64_t& end = ends[image_path(folder, ref)];
      end = std::max(end, ref.offset + ref.bytes);
    }
  }
  for (const auto& [path, end] : ends) {
    DP_TRY(const uint64_t bytes, storage.file_bytes(path));
    if (bytes < end) {
      return Error{ErrorCode::kBadData, str("cut off: ", bytes, " of ", end, " bytes"), path};
    }
    DP_TRY_VOID(check_rest(storage, path, end, bytes));
  }
  return {};
}

uint64_t image_bytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const wire::ImageRef& ref : manifest.bases) bytes = saturating_add(bytes, ref.bytes);
  for (const wire::ImageRef& ref : manifest.images) bytes = saturating_add(bytes, ref.bytes);
  return bytes;
}

/// Verifies every byte of every image, or only the heads if the images have more than `bytes_max`
/// bytes together.
Result<void> check_images(Storage& storage, const std::string& folder, const Manifest& manifest,
                          uint64_t bytes_max) {
  const auto verify = image_bytes(manifest) <= bytes_max ? verify_image : verify_image_head;
  for (const auto* refs : {&manifest.bases, &manifest.images}) {
    for (const wire::ImageRef& ref : *refs) DP_TRY_VOID(verify(storage, folder, ref));
  }
  return {};
}

struct Found {
  ViewId id;
  std::string name;
};

/// Returns the manifests of a run by name, newest first.
Result<std::vector<Found>> find_manifests(Storage& storage, const std::string& run_dir) {
  std::vector<Found> found;
  auto names = storage.list(checkpoints_dir(run_dir));
  if (!names) {
    if (names.error().code == ErrorCode::kNoInput) return found;
    return std::move(names).error();
  }
  for (const std::string& name : *names) {
    if (const auto id = parse_manifest_name(name)) found.push_back({*id, name});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.id > b.id; });
  return found;
}

Result<Manifest> load_whole(Storage& storage, const std::string& run_dir, ViewId id) {
  DP_TRY(Manifest manifest, load_manifest(storage, manifest_path(run_dir, id)));
  DP_TRY_VOID(check_files(storage, checkpoint_folder(run_dir, id), manifest));
  return manifest;
}

Result<Manifest> load_verified(Storage& storage, const std::string& run_dir, ViewId id,
                               uint64_t verify_bytes_max) {
  DP_TRY(Manifest manifest, load_whole(storage, run_dir, id));
  if (verify_bytes_max > 0) {
    const std::string folder = checkpoint_folder(run_dir, id);
    DP_TRY_VOID(check_images(storage, folder, manifest, verify_bytes_max));
  }
  return manifest;
}

/// Parses ".manifest-3-17.dpm.tmp-...", a file left by a chief that died while publishing.
std::optional<ViewId> parse_temporary_name(std::string_view name) {
  const size_t end = name.find(".tmp-");
  if (!name.starts_with('.') || end == std::string_view::npos) return {};
  return parse_manifest_name(name.substr(1, end - 1));
}

Result<void> remove_folder(Storage& storage, const std::string& folder) {
  auto names = storage.list(folder);
  if (!names)
    return names.error().code == ErrorCode::kNoInput ? Result<void>{} : std::move(names).error();
  for (const std::string& name : *names) DP_TRY_VOID(storage.remove(folder + "/" + name));
  return storage.remove(folder);
}

/// Removes everything that belongs to no manifest and is older than the newest one: folders of
/// checkpoints that were never published or are not kept, and temporary files.
Result<void> sweep(Storage& storage, const std::string& run_dir, const std::set<ViewId>& kept,
                   ViewId newest) {
  DP_TRY(const std::vector<std::string> names, storage.list(checkpoints_dir(run_dir)));
  for (const std::string& name : names) {
    const std::string path = checkpoints_dir(run_dir) + "/" + name;
    if (const auto id = parse_temporary_name(name); id && *id < newest) {
      DP_TRY_VOID(storage.remove(path));
    }
    const auto id = parse_checkpoint_name(name);
    if (!id || *id > newest) continue;
    if (!kept.contains(*id)) {
      DP_TRY_VOID(remove_folder(storage, path));
      continue;
    }
    DP_TRY(const std::vector<std::string> files, storage.list(path));
    for (const std::string& file : files) {
      const bool temporary = file.starts_with('.') && file.find(".tmp-") != std::string::npos;
      if (temporary) DP_TRY_VOID(storage.remove(path + "/" + file));
    }
  }
  return {};
}

}  // namespace

Result<void> validate_manifest(const Manifest& manifest) {
  if (manifest.id.term == 0) return bad("the term is missing");
  if (manifest.run == 0) return bad("the run's id is missing");
  if (manifest.partitions < 2 || manifest.partitions > kPartitionsMax ||
      !std::has_single_bit(manifest.partitions)) {
    return bad(
        str(manifest.partitions, " partitions: not a power of two from 2 to ", kPartitionsMax));
  }
  if (manifest.sealed_epochs > manifest.completed_epochs) {
    return bad(
        str(manifest.sealed_epochs, " epochs sealed of ", manifest.completed_epochs, " complete"));
  }
  if (!manifest.ownership_generations.empty() &&
      manifest.ownership_generations.size() != manifest.partitions) {
    return bad(str(manifest.ownership_generations.size(), " ownership generations for ",
                   manifest.partitions, " partitions"));
  }
  for (const ViewId ownership_generation : manifest.ownership_generations) {
    if (ownership_generation > manifest.given)
      return bad(
          str("view ", ownership_generation, " is newer than the manifest's ", manifest.given));
  }
  if (manifest.best > manifest.id) {
    return bad(str("names checkpoint ", manifest.best,
                   " as the best one, but that checkpoint is newer than this one"));
  }
  for (const TableSpec& table : manifest.tables) DP_TRY_VOID(validate_table(table));
  DP_TRY_VOID(validate_image_refs(manifest));
  return validate_bases(manifest);
}

std::vector<std::vector<wire::ImageRef>> chains_of(const Manifest& manifest) {
  std::vector<std::vector<wire::ImageRef>> chains(manifest.images.size());
  for (const wire::ImageRef& ref : manifest.bases) {
    if (raw(ref.partition) < chains.size()) chains[raw(ref.partition)].push_back(ref);
  }
  for (size_t p = 0; p < chains.size(); ++p) {
    chains[p].push_back(manifest.images[p]);
    chains[p].back().checkpoint = manifest.id;
  }
  return chains;
}

std::vector<uint8_t> encode_manifest(const Manifest& manifest) {
  if (!manifest.ownership_generations.empty()) {
    return frame(kManifestMagic, kPlacedManifestFormat, encode_placed_manifest_body(manifest));
  }
  if (manifest.bases.empty())
    return frame(kManifestMagic, kManifestFormat, encode_manifest_body(manifest));
  return frame(kManifestMagic, kChainedManifestFormat, encode_chained_manifest_body(manifest));
}

Result<Manifest> decode_manifest(std::span<const uint8_t> bytes, const std::string& path) {
  uint32_t format = 0;
  DP_TRY(const auto body, unframe(bytes, kManifestMagic, kPlacedManifestFormat, path, &format));
  auto manifest = format == kManifestFormat          ? decode_manifest_body(body)
                  : format == kChainedManifestFormat ? decode_chained_manifest_body(body)
                                                     : decode_placed_manifest_body(body);
  if (manifest) {
    auto valid = validate_manifest(*manifest);
    if (valid) return manifest;
    manifest = std::move(valid).error();
  }
  manifest.error().where = str(path, ':', kFrameHeaderBytes);
  return manifest;
}

Result<Manifest> load_manifest(Storage& storage, const std::string& path) {
  const auto id = parse_manifest_name(std::string_view(path).substr(path.find_last_of('/') + 1));
  if (!id) {
    return Error{ErrorCode::kNoInput, "not a manifest: its name is not manifest-TERM-N.dpm", path};
  }
  DP_TRY(const Bytes bytes, storage.read_file(path, kManifestBytesMax));
  DP_TRY(Manifest manifest, decode_manifest(bytes.span(), path));
  if (manifest.id != *id) {
    return Error{ErrorCode::kBadData,
                 str("holds checkpoint ", manifest.id, ", which differs from its file name"), path};
  }
  return manifest;
}

Result<ViewId> newest_manifest(Storage& storage, const std::string& run_dir) {
  DP_TRY(const std::vector<Found> found, find_manifests(storage, run_dir));
  return found.empty() ? ViewId{} : found.front().id;
}

Result<Manifest> load_latest(Storage& storage, const std::string& run_dir,
                             std::vector<std::string>* skipped, uint64_t verify_bytes_max,
                             ViewId below) {
  DP_TRY(std::vector<Found> found, find_manifests(storage, run_dir));
  std::erase_if(found, [&](const Found& candidate) { return candidate.id >= below; });
  Error newest;
  for (const Found& candidate : found) {
    auto manifest = load_verified(storage, run_dir, candidate.id, verify_bytes_max);
    if (manifest) return manifest;
    defended(Defence::kFileManifestSkipped);
    if (&candidate == &found.front()) newest = manifest.error();
    if (skipped != nullptr) {
      skipped->push_back(
          str(candidate.name, ": ", manifest.error().what, " (", manifest.error().where, ")"));
    }
  }
  if (found.empty()) {
    return Error{ErrorCode::kNoInput, "there is no checkpoint yet", checkpoints_dir(run_dir)};
  }
  newest.code = ErrorCode::kBadData;
  newest.hint = "no checkpoint can be used; restore the folder, or start a new run with --fresh";
  return std::move(newest).with_context("no complete checkpoint among ", found.size(),
                                        ", the newest");
}

Result<Manifest> load_best(Storage& storage, const std::string& run_dir, const Manifest& newest,
                           uint64_t verify_bytes_max) {
  if (newest.best == ViewId{} || newest.best == newest.id) return newest;
  DP_TRY(Manifest best, load_verified(storage, run_dir, newest.best, verify_bytes_max));
  if (best.run != newest.run) {
    return Error{ErrorCode::kBadData, "the best checkpoint belongs to another run",
                 manifest_path(run_dir, best.id)};
  }
  return best;
}

Result<Manifest> load_newest(Storage& storage, const std::string& run_dir,
                             std::vector<std::string>* skipped) {
  DP_TRY(const RunFile run, read_run(storage, run_dir));
  DP_TRY(Manifest newest, load_latest(storage, run_dir, skipped));
  if (newest.run == run.id) return newest;
  return Error{ErrorCode::kBadData,
               "the checkpoint does not belong to the run that the file `run` names",
               manifest_path(run_dir, newest.id), "give the run folder of the run itself"};
}

Manifest load_used(Storage& storage, const std::string& run_dir, const Manifest& newest,
                   std::vector<std::string>* skipped) {
  auto best = load_best(storage, run_dir, newest, kVerifyBytesMax);
  if (best) return *std::move(best);
  if (skipped != nullptr) {
    skipped->push_back(str("the best checkpoint, ", newest.best,
                           ", can't be read: ", best.error().what, " (", best.error().where,
                           "); the newest one, ", newest.id, ", is used instead"));
  }
  return newest;
}

Result<Manifest> load_model(Storage& storage, const std::string& run_dir,
                            std::vector<std::string>* skipped) {
  storage.guard(run_dir);
  DP_TRY(const Manifest newest, load_newest(storage, run_dir, skipped));
  return load_used(storage, run_dir, newest, skipped);
}

Result<void> publish(Storage& storage, const std::string& run_dir, const Manifest& manifest) {
  const std::string path = manifest_path(run_dir, manifest.id);
  if (auto valid = validate_manifest(manifest); !valid) {
    valid.error().where = path;
    return std::move(valid).context("not published");
  }
  const std::string folder = checkpoint_folder(run_dir, manifest.id);
  DP_TRY_VOID(check_files(storage, folder, manifest).context("not published"));
  // A process that created a folder can have died before its name was durable.
  DP_TRY_VOID(storage.make_dirs(folder));
  const std::vector<uint8_t> bytes = encode_manifest(manifest);
  if (bytes.size() > kManifestBytesMax) {
    return Error{ErrorCode::kCannotCreate,
                 str("a manifest of ", bytes.size(), " bytes is too large"), path};
  }
  DP_TRY(const bool created, storage.create_exclusive(path, bytes));
  if (created) return {};
  return Error{ErrorCode::kCannotCreate, "a checkpoint with this number is already published",
               path};
}

Result<void> remove_old(Storage& storage, const std::string& run_dir, uint32_t keep) {
  DP_CHECK(keep > 0);
  DP_TRY(const std::vector<Found> found, find_manifests(storage, run_dir));
  // checkpoints whose manifest stays, intact or not, and those that the intact ones build on
  std::set<ViewId> kept;
  // best checkpoints as named by the intact manifests that are kept
  std::set<ViewId> best;
  uint32_t whole = 0;
  for (const Found& candidate : found) {
    if (whole < keep || best.contains(candidate.id)) {
      kept.insert(candidate.id);
      const auto manifest = load_whole(storage, run_dir, candidate.id);
      if (!manifest) continue;
      if (whole < keep) best.insert(manifest->best);
      ++whole;
      for (const wire::ImageRef& base : manifest->bases) kept.insert(base.checkpoint);
    } else {
      // Remove the manifest first, so that no reader looks for the images afterwards.
      DP_TRY_VOID(storage.remove(manifest_path(run_dir, candidate.id)));
    }
  }
  return found.empty() ? Result<void>{} : sweep(storage, run_dir, kept, found.front().id);
}

}  // namespace downpour::checkpoint
