// SavePace: limits how fast a core copies its partitions for a checkpoint while other work needs
// the processor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "shared/base/units.h"
#include "shared/wire/member_messages.h"

namespace downpour::ps {

/// A checkpoint takes .43 s of CPU time per GB for copying and writing. The limit is 300 MB/s per
/// processor of the machine, shared by the ps cores on it. At that rate a checkpoint takes an
/// eighth of the processors. Without requests it is written as fast as the disk allows.
class SavePace {
 public:
  static constexpr uint64_t kBytesPerCpuSecond = 300'000'000;
  static constexpr int64_t kIdleNs = 20 * kMillisecond;  // time without a request

  /// `cores`: ps cores on this machine.
  static uint64_t bytes_per_s(uint32_t cpus, uint32_t cores) {
    return std::max<uint64_t>(1, kBytesPerCpuSecond * cpus / std::max(cores, 1U));
  }
  void served(int64_t now_ns) { served_ns_ = now_ns; }
  void copied(int64_t now_ns, uint64_t bytes, uint64_t bytes_per_s) {
    due_ns_ =
        std::max(due_ns_, now_ns - kIdleNs) + int64_t(bytes * uint64_t(kSecond) / bytes_per_s);
  }
  /// When the next partition may be copied. A request in the meantime may delay it.
  int64_t due_ns() const { return std::min(due_ns_, served_ns_ + kIdleNs); }

 private:
  int64_t due_ns_ = 0;
  int64_t served_ns_ = 0;
};

/// Number of cores of the view on the machine of this endpoint.
inline uint32_t cores_beside(const wire::View& view, const std::string& endpoint) {
  const auto machine = [](const std::string& text) {
    return text.starts_with("tcp://") ? text.substr(0, text.rfind(':')) : std::string();
  };
  return uint32_t(std::count_if(view.owners.begin(), view.owners.end(), [&](const auto& owner) {
    return machine(owner.endpoint) == machine(endpoint);
  }));
}

}  // namespace downpour::ps
