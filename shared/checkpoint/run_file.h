// Run file: the durable state of the chief. The file `run` describes what the run trains. Each file
// `term-N` is created by exactly one chief.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/contents.h"
#include "shared/env/storage.h"

namespace downpour::checkpoint {

constexpr uint32_t kRunFormat = 1;

std::vector<uint8_t> encode_run(const RunFile& run);
Result<RunFile> decode_run(std::span<const uint8_t> bytes, const std::string& path);

/// Creates the run folder and writes `run`. Error: kCannotCreate if it exists, because a run starts
/// only once.
Result<void> write_run(Storage& storage, const std::string& run_dir, const RunFile& run);
/// Replaces `run` atomically, when a run whose epochs are all sealed continues with other data.
Result<void> replace_run(Storage& storage, const std::string& run_dir, const RunFile& run);
/// Reads `run`. Error: kNoInput if `run_dir` is not a run folder.
Result<RunFile> read_run(Storage& storage, const std::string& run_dir);

/// Returns the highest term that a chief has taken; 0: none. A chief that finds a higher term than
/// its own ends.
Result<uint32_t> highest_term(Storage& storage, const std::string& run_dir);
/// Takes the next term. No two chiefs get the same one.
Result<uint32_t> take_term(Storage& storage, const std::string& run_dir);

/// Removes the images of moves that were under way when an earlier chief ended. A process that
/// still writes or reads such an image fails, and its move is cancelled.
Result<void> remove_moves(Storage& storage, const std::string& run_dir);

}  // namespace downpour::checkpoint
