// Paths of the files of a run. All paths inside a run folder are made here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/ids.h"
#include "shared/base/plain_name.h"
#include "shared/wire/member_messages.h"

namespace downpour::checkpoint {

std::string run_path(const std::string& run_dir);                  // <run_dir>/run
std::string job_path(const std::string& run_dir);                  // <run_dir>/job.toml
std::string checkpoints_dir(const std::string& run_dir);           // <run_dir>/checkpoints
std::string term_path(const std::string& run_dir, uint32_t term);  // <run_dir>/term-3
std::string manifest_path(const std::string& run_dir, ViewId id);  // .../manifest-3-17.dpm
/// Returns the manifest of checkpoint `id` in the folder of the manifest at `path`.
std::string sibling_manifest_path(const std::string& path, ViewId id);
std::string checkpoint_folder(const std::string& run_dir,
                              ViewId id);  // .../3-17, as in wire::Save::folder
/// Returns the path of an image: in `folder`, or in the neighbouring folder of the checkpoint that
/// the reference names.
std::string image_path(const std::string& folder, const wire::ImageRef& ref);
/// Returns the name of the file that a ps core writes. The incarnation prevents a paused
/// predecessor from writing to the same file.
std::string image_file_name(uint32_t index, uint32_t thread, Incarnation incarnation);

/// Returns <run_dir>/moves: images that move from one ps to another. They are useless after the
/// move.
std::string moves_dir(const std::string& run_dir);
/// Returns the name of the file of one move, from its ownership generation and its source.
std::string move_file_name(ViewId ownership_generation, uint32_t index, uint32_t thread,
                           Incarnation incarnation);

std::optional<uint32_t> parse_term_name(std::string_view name);      // "term-3"
std::optional<ViewId> parse_manifest_name(std::string_view name);    // "manifest-3-17.dpm"
std::optional<ViewId> parse_checkpoint_name(std::string_view name);  // "3-17"

}  // namespace downpour::checkpoint
