// Plain structs <-> Cap'n Proto (schemas/checkpoint.capnp); the bytes stand inside framed files and
// image sections, whose checksums were checked before. Decoding still trusts nothing: no throw,
// memory bounded by the bytes given.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/image.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/run_file.h"

namespace downpour::checkpoint {

std::vector<uint8_t> encode_manifest_body(const Manifest& manifest);
Result<Manifest> decode_manifest_body(std::span<const uint8_t> bytes);

/// The same with bases.
std::vector<uint8_t> encode_chained_manifest_body(const Manifest& manifest);
Result<Manifest> decode_chained_manifest_body(std::span<const uint8_t> bytes);

/// The same, with bases or without, and with who held the partitions.
std::vector<uint8_t> encode_placed_manifest_body(const Manifest& manifest);
Result<Manifest> decode_placed_manifest_body(std::span<const uint8_t> bytes);

std::vector<uint8_t> encode_run_body(const RunFile& run);
Result<RunFile> decode_run_body(std::span<const uint8_t> bytes);

/// All of an image but its lines and its tables.
std::vector<uint8_t> encode_state(const PartitionImage& image);
Result<PartitionImage> decode_state(std::span<const uint8_t> bytes);

std::vector<uint8_t> encode_markers(const std::vector<wire::QuarantineMarker>& markers);
/// At least one, ascending.
Result<std::vector<wire::QuarantineMarker>> decode_markers(std::span<const uint8_t> bytes);

}  // namespace downpour::checkpoint
