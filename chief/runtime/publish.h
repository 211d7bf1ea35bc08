// Publishes a checkpoint for the chief of a term. Another chief may have taken over meanwhile.
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/result.h"
#include "shared/checkpoint/manifest.h"
#include "shared/env/storage.h"

namespace downpour::chief {

/// Publishes the checkpoint of `manifest`, then removes the checkpoints except the newest `keep`.
/// `removed` receives the result of the removal, which does not affect any checkpoint. Errors:
/// those of checkpoint::publish(); kUnavailable if a newer chief has taken a term.
Result<void> publish_checkpoint(Storage& storage, const std::string& run_dir,
                                const checkpoint::Manifest& manifest, uint32_t keep,
                                Result<void>& removed);

}  // namespace downpour::chief
