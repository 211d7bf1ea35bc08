#include "tools/cli/restart_policy.h"

#include <algorithm>
#include <array>
#include <sys/wait.h>

#include "shared/base/result.h"
#include "shared/base/units.h"

namespace downpour::tools {
namespace {

constexpr int64_t kMinuteNs = 60 * kSecond;
constexpr int64_t kPauseNs = 250 * kMillisecond;  // before the second restart in a minute; doubles
constexpr int64_t kPauseMaxNs = 8 * kSecond;
constexpr int kExecFailed = 127;

}  // namespace

std::optional<int64_t> RestartPolicy::on_ended(int64_t now_ns, uint64_t progress) {
  if (progress > progress_) in_a_row_ = 0;
  progress_ = progress;
  if (in_a_row_ >= in_a_row_max_) return std::nullopt;
  ++in_a_row_;
  while (!ends_.empty() && now_ns - ends_.front() >= kMinuteNs) ends_.pop_front();
  const size_t before = ends_.size();
  ends_.push_back(now_ns);
  if (before == 0) return now_ns;
  return now_ns + std::min(kPauseMaxNs, kPauseNs << std::min<size_t>(before - 1, 16));
}

std::optional<ErrorCode> permanent_error(int wait_status) {
  if (!WIFEXITED(wait_status)) return std::nullopt;
  constexpr std::array kPermanent = {
      ErrorCode::kUsage, ErrorCode::kBadData,    ErrorCode::kNoInput, ErrorCode::kCannotCreate,
      ErrorCode::kIo,    ErrorCode::kPermission, ErrorCode::kConfig};
  const auto found = std::find_if(kPermanent.begin(), kPermanent.end(), [&](ErrorCode code) {
    return exit_code(code) == WEXITSTATUS(wait_status);
  });
  return found == kPermanent.end() ? std::nullopt : std::optional(*found);
}

bool restart_mends(int wait_status) {
  if (!WIFEXITED(wait_status)) return true;
  const int status = WEXITSTATUS(wait_status);
  if (status == 0 || status == kExecFailed) return false;  // 0: the process was asked to leave
  return !permanent_error(wait_status);
}

}  // namespace downpour::tools
