// Publishing a checkpoint as the chief of a term, which another chief may have taken over from.
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/result.h"
#include "shared/checkpoint/manifest.h"
#include "shared/env/storage.h"

namespace downpour::chief {

/// Publishes the checkpoint of `manifest` and removes the checkpoints beyond the newest `keep`.
/// `removed` becomes the outcome of the removal, which no checkpoint depends on. Errors: as
/// checkpoint::publish(); kUnavailable where a newer chief has taken a term.
Result<void> publish_checkpoint(Storage& storage, const std::string& run_dir,
                                const checkpoint::Manifest& manifest, uint32_t keep,
                                Result<void>& removed);

}  // namespace downpour::chief
