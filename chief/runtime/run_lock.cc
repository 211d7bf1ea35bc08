#include "chief/runtime/run_lock.h"

#include "shared/base/str.h"
#include "shared/env/process.h"

namespace downpour::chief {

Result<FileLock> lock_run(Storage& storage, const std::string& run_dir, bool takeover) {
  DP_TRY_VOID(storage.make_dirs(run_dir));
  const std::string path = run_dir + "/lock";
  const std::string text = str("host ", host_name(), ", pid ", process_id());
  auto lock = FileLock::take(path, text);
  if (lock || lock.error().code != ErrorCode::kUnavailable) return lock;
  if (takeover) {
    // The other chief keeps its lock on the removed file. A new file takes its place.
    DP_TRY_VOID(storage.remove(path));
    return FileLock::take(path, text);
  }
  return Error{
      ErrorCode::kUnavailable,
      str("another chief runs the job in this folder",
          lock.error().what.empty() ? "" : str(" (", lock.error().what, ")")),
      run_dir,
      "wait for it, stop it, or give this job its own run_dir; if that chief hangs, use --takeover",
      "DP-4003"};
}

}  // namespace downpour::chief
