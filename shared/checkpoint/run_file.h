// The chief's durable state: the file `run`, which says what the run trains, and the files
// `term-N`, each created by one chief only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/env/storage.h"

namespace downpour::checkpoint {

constexpr uint32_t kRunFormat = 1;

/// A data file as the plan saw it.
struct RunDataFile {
  std::string path;
  uint64_t bytes = 0;
  uint64_t fingerprint = 0;
  bool operator==(const RunDataFile&) const = default;
};

constexpr size_t kRunDataFilesMax = 4096;  // the first ones; an error names no other one

struct RunFile {
  uint64_t id = 0;  // random, not 0
  uint64_t plan_hash = 0;
  uint64_t fingerprint = 0;  // of the data set
  std::string job;           // effective as the run began, TOML
  std::string build;         // information only, as is the next
  int64_t created_unix_s = 0;
  std::vector<RunDataFile> files = {};  // of the plan; empty in runs of earlier builds
  bool operator==(const RunFile&) const = default;
};

std::vector<uint8_t> encode_run(const RunFile& run);
Result<RunFile> decode_run(std::span<const uint8_t> bytes, const std::string& path);

/// Makes the run folder and writes `run`. kCannotCreate where there is one: a run is begun once.
Result<void> write_run(Storage& storage, const std::string& run_dir, const RunFile& run);
/// Replaces `run`, atomically: a run whose epochs are all sealed continues with other data.
Result<void> replace_run(Storage& storage, const std::string& run_dir, const RunFile& run);
/// kNoInput where `run_dir` is no run folder.
Result<RunFile> read_run(Storage& storage, const std::string& run_dir);

/// The highest term any chief has taken; 0: none. A chief that sees one above its own stops.
Result<uint32_t> highest_term(Storage& storage, const std::string& run_dir);
/// Takes the next term; no two chiefs ever get the same.
Result<uint32_t> take_term(Storage& storage, const std::string& run_dir);

/// Removes images that were on their way between ps when an earlier chief ended. Whoever still
/// writes or reads one finds it missing, which calls that move off; nobody needs it.
Result<void> remove_moves(Storage& storage, const std::string& run_dir);

}  // namespace downpour::checkpoint
