// Manifest: the file that publishes a checkpoint. It names the image of every partition, and
// contains everything that a chief needs to resume.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/checkpoint/contents.h"
#include "shared/env/storage.h"
#include "shared/wire/member_messages.h"

namespace downpour::checkpoint {

constexpr uint32_t kManifestFormat = 1;
constexpr uint32_t kChainedManifestFormat = 2;  // with bases
constexpr uint32_t kPlacedManifestFormat = 3;   // with the ownership generations of the partitions
constexpr uint64_t kManifestBytesMax = 64 * 1024 * 1024;
// Bytes of a checkpoint that are verified before it is used. This takes a few seconds.
constexpr uint64_t kVerifyBytesMax = uint64_t{4} << 30;

/// Returns the chain of images of each partition: the full image, then those that build on it.
/// `checkpoint` of each reference is set, also for images of this checkpoint.
std::vector<std::vector<wire::ImageRef>> chains_of(const Manifest& manifest);

/// Checks that ids are set, P is a power of two, every partition appears exactly once, file names
/// are plain, and the sizes of tables are within limits. publish() and decode_manifest() use it.
Result<void> validate_manifest(const Manifest& manifest);

std::vector<uint8_t> encode_manifest(const Manifest& manifest);
/// Decodes a manifest. `path` is for messages. Errors: kBadData for any flipped bit or truncation,
/// kUnsupported for a later format.
Result<Manifest> decode_manifest(std::span<const uint8_t> bytes, const std::string& path);

/// Loads one manifest file. Its name must agree with its content.
Result<Manifest> load_manifest(Storage& storage, const std::string& path);

/// Returns the number of a run's newest manifest, taken from the file names. {0, 0}: there is none.
Result<ViewId> newest_manifest(Storage& storage, const std::string& run_dir);

/// Returns the highest intact manifest of a run below `below` whose image files exist and are long
/// enough. The reasons for rejecting higher ones are appended to `skipped` (may be null).
///
/// If `verify_bytes_max` > 0, also verifies images: all their bytes, if the images have at most
/// that many in total; otherwise only their heads. Errors: kNoInput if there is no manifest,
/// kBadData if none is intact.
Result<Manifest> load_latest(Storage& storage, const std::string& run_dir,
                             std::vector<std::string>* skipped, uint64_t verify_bytes_max = 0,
                             ViewId below = {UINT32_MAX, UINT32_MAX});

/// Returns the checkpoint that `newest` names as the best one, verified like in load_latest(), or
/// `newest` itself if it names none. Errors: kBadData or kNoInput if the best one is damaged or
/// missing.
Result<Manifest> load_best(Storage& storage, const std::string& run_dir, const Manifest& newest,
                           uint64_t verify_bytes_max = 0);

/// Returns what load_latest() returns, after checking that it belongs to the run of the folder.
/// Errors: kNoInput if `run_dir` is not a run folder; those of load_latest(); kBadData if the
/// checkpoint is of another run.
Result<Manifest> load_newest(Storage& storage, const std::string& run_dir,
                             std::vector<std::string>* skipped);
/// Returns the checkpoint that predictions use: the one that `newest` names as the best, verified
/// up to kVerifyBytesMax, or `newest` if it names none. If the best one is damaged or missing,
/// appends the reason to `skipped` (may be null) and returns `newest`.
Manifest load_used(Storage& storage, const std::string& run_dir, const Manifest& newest,
                   std::vector<std::string>* skipped);
/// Returns load_used() of load_newest(). Later accesses to the folder do not follow symbolic links.
/// Errors: those of load_newest().
Result<Manifest> load_model(Storage& storage, const std::string& run_dir,
                            std::vector<std::string>* skipped);

/// Returns the result of `read`, which reads checkpoints of the run. While it fails and the run has
/// published a newer checkpoint in the meantime, calls it again, because a run that trains removes
/// old checkpoints.
template <typename Read>
auto read_beside_training(Storage& storage, const std::string& run_dir, Read&& read)
    -> decltype(read()) {
  for (;;) {
    const auto before = newest_manifest(storage, run_dir);
    auto result = read();
    if (result || !before) return result;
    const auto after = newest_manifest(storage, run_dir);
    if (!after || *after <= *before) return result;
  }
}

/// Publishes a checkpoint atomically and durably; all its image files must exist. Error:
/// kCannotCreate if a manifest with this (term, n) exists, because manifests are never overwritten.
Result<void> publish(Storage& storage, const std::string& run_dir, const Manifest& manifest);

/// Keeps the newest `keep` (at least 1) intact checkpoints and those that they name as the best.
/// Removes older checkpoints, except images that the kept ones build on. Also removes folders of
/// unpublished checkpoints and temporary files that are older than the newest manifest. It may be
/// interrupted at any point. Only one chief at a time may run it.
Result<void> remove_old(Storage& storage, const std::string& run_dir, uint32_t keep);

}  // namespace downpour::checkpoint
