// Schema codec: converts plain structs to and from Cap'n Proto (schemas/checkpoint.capnp). The
// bytes come from framed files and image sections whose checksums have been verified. Even so,
// decoding accepts any bytes: it does not throw, and its memory is bounded by their number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/contents.h"
#include "shared/checkpoint/image.h"

namespace downpour::checkpoint {

std::vector<uint8_t> encode_manifest_body(const Manifest& manifest);
Result<Manifest> decode_manifest_body(std::span<const uint8_t> bytes);

/// Manifests with bases.
std::vector<uint8_t> encode_chained_manifest_body(const Manifest& manifest);
Result<Manifest> decode_chained_manifest_body(std::span<const uint8_t> bytes);

/// Manifests with ownership generations, with or without bases.
std::vector<uint8_t> encode_placed_manifest_body(const Manifest& manifest);
Result<Manifest> decode_placed_manifest_body(std::span<const uint8_t> bytes);

std::vector<uint8_t> encode_run_body(const RunFile& run);
Result<RunFile> decode_run_body(std::span<const uint8_t> bytes);

/// The state of an image: everything except markers and tables.
std::vector<uint8_t> encode_state(const PartitionImage& image);
Result<PartitionImage> decode_state(std::span<const uint8_t> bytes);

std::vector<uint8_t> encode_markers(const std::vector<wire::QuarantineMarker>& markers);
/// Requires at least one marker, and ascending order.
Result<std::vector<wire::QuarantineMarker>> decode_markers(std::span<const uint8_t> bytes);

}  // namespace downpour::checkpoint
