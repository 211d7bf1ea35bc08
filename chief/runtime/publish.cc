#include "chief/runtime/publish.h"

#include "shared/base/defence.h"
#include "shared/checkpoint/run_file.h"

namespace downpour::chief {

Result<void> publish_checkpoint(Storage& storage, const std::string& run_dir,
                                const checkpoint::Manifest& manifest, uint32_t keep,
                                Result<void>& removed) {
  storage.refresh(run_dir);
  DP_TRY(const uint32_t highest, checkpoint::highest_term(storage, run_dir));
  if (highest > manifest.id.term) {
    defended(Defence::kFileTermTaken);
    return Error{ErrorCode::kUnavailable, "another chief has taken over this run", run_dir,
                 "wait for the newer chief, or give this job its own run_dir", ""};
  }
  DP_TRY_VOID(checkpoint::publish(storage, run_dir, manifest));
  // A newer chief restores from the checkpoint that is the newest after it took its term. If the
  // term is not taken yet, that is this one or a later one, and older ones may go.
  storage.refresh(run_dir);
  const auto now = checkpoint::highest_term(storage, run_dir);
  if (now && *now <= manifest.id.term) removed = checkpoint::remove_old(storage, run_dir, keep);
  return {};
}

}  // namespace downpour::chief
