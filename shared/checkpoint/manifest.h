// Manifest: the file whose creation publishes a checkpoint. It names every partition's image and
// all that a chief needs to go on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/env/storage.h"
#include "shared/tensor/variables.h"
#include "shared/wire/messages.h"

namespace downpour::checkpoint {

constexpr uint32_t kManifestFormat = 1;
constexpr uint32_t kChainedManifestFormat = 2;  // of one with bases
constexpr uint32_t kPlacedManifestFormat = 3;   // of one that says who held the partitions
constexpr uint64_t kManifestBytesMax = 64 * 1024 * 1024;

/// What the chief knows of an epoch that is complete.
struct EpochRecord {
  uint32_t epoch = 0;
  uint32_t shards = 0;
  wire::ShardCounts counts;  // the same at every partition
  std::string summary;       // JSON, the chief's; opaque here
  bool operator==(const EpochRecord&) const = default;
};

struct Manifest {
  ViewId id;         // (term, n)
  uint64_t run = 0;  // RunFile::id
  uint64_t plan_hash = 0;
  std::string job;          // effective, TOML
  uint32_t partitions = 0;  // P
  std::vector<TableSpec> tables;
  std::vector<wire::ImageRef> images;  // exactly P, by partition, in this checkpoint's folder
  // What those that are not whole build on, in other checkpoints' folders: by partition, the whole
  // image first.
  std::vector<wire::ImageRef> bases;
  // By partition: the view since which the ps that wrote its image held it. What it holds since
  // that very view is no older than the image. Empty: not known.
  std::vector<ViewId> ownership_generations;
  // Where `sinces` is known: the highest view that had been given to any ps when this was written.
  // What is held since a later one came from this checkpoint, or after it.
  ViewId given;
  // The checkpoint of the run's best evaluation: this one or an earlier one. {0, 0}: none is kept.
  ViewId best;
  uint32_t completed_epochs = 0;
  uint32_t sealed_epochs = 0;  // sealed by this manifest
  std::vector<EpochRecord> epochs;
  uint64_t rows = 0;  // embedding rows in all
  std::string build;  // information only, as is the next
  int64_t created_unix_s = 0;
  bool operator==(const Manifest&) const = default;
};

/// Every partition's images: the whole one, then what builds on it. Those of this checkpoint name
/// it, too, so that they can be told apart from the others.
std::vector<std::vector<wire::ImageRef>> chains_of(const Manifest& manifest);

/// What a manifest must be: ids set, P a power of two, every partition exactly once, plain file
/// names, tables whose sizes can be computed with. publish() and the reader both ask.
Result<void> validate_manifest(const Manifest& manifest);

std::vector<uint8_t> encode_manifest(const Manifest& manifest);
/// `path` is for messages. kBadData for any flipped bit or truncation, kUnsupported for a later
/// format.
Result<Manifest> decode_manifest(std::span<const uint8_t> bytes, const std::string& path);

/// One manifest file; its name must agree with its content.
Result<Manifest> load_manifest(Storage& storage, const std::string& path);

/// The highest manifest of a run by its name, whole or not; {0, 0}: there is none.
Result<ViewId> newest_manifest(Storage& storage, const std::string& run_dir);

/// The highest whole manifest of a run whose image files are there and long enough; why higher ones
/// were passed over goes to `skipped` (may be null). Images of at most `verify_bytes_max` bytes in
/// all are read, and must be as they were written; of more than that, if it is not 0, their heads.
/// kNoInput where there is no manifest at all, kBadData where none is whole. Only those below
/// `below` are looked at.
Result<Manifest> load_latest(Storage& storage, const std::string& run_dir,
                             std::vector<std::string>* skipped, uint64_t verify_bytes_max = 0,
                             ViewId below = {UINT32_MAX, UINT32_MAX});

/// The checkpoint that `newest` names as the best one, whole, its images verified as by
/// load_latest(); `newest` itself where it names none. kBadData or kNoInput where the best one is
/// damaged or gone.
Result<Manifest> load_best(Storage& storage, const std::string& run_dir, const Manifest& newest,
                           uint64_t verify_bytes_max = 0);

/// Publishes a checkpoint, atomically and durably, after all its image files are. kCannotCreate
/// where one of that (term, n) exists: manifests are never overwritten.
Result<void> publish(Storage& storage, const std::string& run_dir, const Manifest& manifest);

/// Keeps the newest `keep` (at least 1) whole checkpoints, and those that they name as the best.
/// Removes what is older, and what belongs
/// to no manifest and is older than the newest: folders of checkpoints never published, files that
/// were being written. Safe to stop anywhere; run by one chief at a time.
Result<void> remove_old(Storage& storage, const std::string& run_dir, uint32_t keep);

}  // namespace downpour::checkpoint
