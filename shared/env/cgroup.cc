#include "shared/env/cgroup.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace downpour {
namespace {

/// Returns the number in a file. Returns nothing if there is no such file, or if it has no number
/// ("max").
std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// Returns the sum of lines "KEY NUMBER" with these keys.
uint64_t sum_in(const std::string& path, std::initializer_list<std::string_view> keys) {
  std::ifstream file(path);
  uint64_t sum = 0, number = 0;
  for (std::string key; file >> key >> number;)
    if (std::ranges::count(keys, key) > 0) sum += number;
  return sum;
}

template <typename T>
void lower(std::optional<T>& to, T value) {
  if (!to || value < *to) to = value;
}

void take_memory(const std::string& group, const char* limit_file, const char* used_file,
                 std::initializer_list<std::string_view> files, CgroupLimits& limits) {
  const auto limit = number_in(group + limit_file), used = number_in(group + used_file);
  if (!limit || !used) return;
  const uint64_t kept = *used - std::min(*used, sum_in(group + "/memory.stat", files));
  lower(limits.memory_left, *limit - std::min(*limit, kept));
}

/// Takes the limits of one group. A file that it does not have has no limit.
void take(const std::string& group, CgroupLimits& limits) {
  take_memory(group, "/memory.max", "/memory.current", {"inactive_file", "active_file"}, limits);
  take_memory(group, "/memory.limit_in_bytes", "/memory.usage_in_bytes",
              {"total_inactive_file", "total_active_file"}, limits);
  double quota = 0, period = 0;
  if (std::ifstream file(group + "/cpu.max"); file >> quota >> period && quota > 0 && period > 0)
    lower(limits.cpus, quota / period);
  std::ifstream quota_file(group + "/cpu.cfs_quota_us"), period_file(group + "/cpu.cfs_period_us");
  if (quota_file >> quota && period_file >> period && quota > 0 && period > 0)
    lower(limits.cpus, quota / period);
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  const std::string mount = root + "/sys/fs/cgroup";
  const auto take_all = [&](const std::string& base, std::string group) {
    // "..": outside of what is visible
    if (!group.starts_with('/') || group.find("..") != std::string::npos) group.clear();
    while (!group.empty() && group.back() == '/') group.pop_back();
    for (; !group.empty(); group.resize(group.rfind('/'))) take(base + group, limits);
    take(base, limits);
  };
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // ID:CONTROLLERS:/GROUP
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos || line.size() <= second + 1) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    take_all(controllers.empty() ? mount : mount + "/" + controllers, group);
    if (controllers.empty()) take_all(mount + "/unified", group);
  }
  // Where the lines above do not fit to the mounts.
  for (const char* base : {"", "/memory", "/cpu", "/cpu,cpuacct"}) take(mount + base, limits);
  return limits;
}

}  // namespace downpour
