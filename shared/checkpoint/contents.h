// The contents of a manifest and of the file `run` as plain structs. manifest.h and run_file.h read
// and write the files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/tensor/variables.h"
#include "shared/wire/lease_messages.h"
#include "shared/wire/member_messages.h"

namespace downpour::checkpoint {

/// A complete epoch as the chief knows it.
struct EpochRecord {
  uint32_t epoch = 0;
  uint32_t shards = 0;
  wire::ShardCounts counts;  // the same at every partition
  std::string summary;       // JSON of the chief; opaque here
  bool operator==(const EpochRecord&) const = default;
};

struct Manifest {
  ViewId id;         // (term, n)
  uint64_t run = 0;  // RunFile::id
  uint64_t plan_hash = 0;
  std::string job;          // effective job, TOML
  uint32_t partitions = 0;  // P
  std::vector<TableSpec> tables;
  std::vector<wire::ImageRef> images;  // exactly P, by partition, in this checkpoint's folder
  // The images that incremental ones build on, in the folders of other checkpoints: by partition,
  // the full image first.
  std::vector<wire::ImageRef> bases;
  // By partition: the ownership generation under which the image was written. A copy under the same
  // generation is not older than the image. Empty: not known.
  std::vector<ViewId> ownership_generations;
  // If ownership_generations is known: the highest generation that was assigned when the manifest
  // was written. A copy under a higher generation comes from this checkpoint or a later state.
  ViewId given;
  // The checkpoint with the best evaluation of the run: this one or an earlier one. {0, 0}: none is
  // kept.
  ViewId best;
  uint32_t completed_epochs = 0;
  uint32_t sealed_epochs = 0;  // sealed by this manifest
  std::vector<EpochRecord> epochs;
  uint64_t rows = 0;  // total number of embedding rows
  std::string build;  // for information only, like the next
  int64_t created_unix_s = 0;
  bool operator==(const Manifest&) const = default;
};

/// A data file as the plan saw it.
struct RunDataFile {
  std::string path;
  uint64_t bytes = 0;
  uint64_t fingerprint = 0;
  bool operator==(const RunDataFile&) const = default;
};

constexpr size_t kRunDataFilesMax = 4096;  // only the first ones; an error can name no others

struct RunFile {
  uint64_t id = 0;  // random, not 0
  uint64_t plan_hash = 0;
  uint64_t fingerprint = 0;  // of the data set
  std::string job;           // effective job at the start of the run, TOML
  std::string build;         // for information only, like the next
  int64_t created_unix_s = 0;
  std::vector<RunDataFile> files = {};  // of the plan; empty in runs of earlier builds
  bool operator==(const RunFile&) const = default;
};

}  // namespace downpour::checkpoint
