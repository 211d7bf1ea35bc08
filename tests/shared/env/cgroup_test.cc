#include "shared/env/cgroup.h"

#include <filesystem>

#include <catch2/catch.hpp>

#include "tests/support/scratch_dir.h"

namespace downpour {
namespace {

/// A root folder with the files of control groups.
struct Root {
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(dir / path).parent_path());
    dir.write(path, text);
  }
  CgroupLimits limits() const { return cgroup_limits(dir.path()); }
  testing::ScratchDir dir;
};

TEST_CASE("cgroup: the smallest limit of a group and of those around it counts", "[env]") {
  const Root root;
  CHECK_FALSE(root.limits().cpus);
  CHECK_FALSE(root.limits().memory_left);
  root.write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  const std::string mount = "sys/fs/cgroup/";
  root.write(mount + "slurm/job_7/cpu.max", "150000 100000\n");
  root.write(mount + "slurm/job_7/step_0/cpu.max", "max 100000\n");
  root.write(mount + "slurm/cpu.max", "400000 100000\n");
  root.write(mount + "slurm/job_7/memory.max", "1000\n");
  root.write(mount + "slurm/job_7/memory.current", "900\n");
  root.write(mount + "slurm/job_7/memory.stat", "anon 300\ninactive_file 400\nactive_file 100\n");
  root.write(mount + "slurm/memory.max", "max\n");
  root.write(mount + "slurm/memory.current", "5000\n");
  CHECK(root.limits().cpus == 1.5);
  CHECK(root.limits().memory_left == 600);  // of 1000, 900 without 500 of the page cache
}

TEST_CASE("cgroup: a container sees its own group as the root", "[env]") {
  const Root root;
  root.write("proc/self/cgroup", "0::/../../docker/abc\n");
  root.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  root.write("sys/fs/cgroup/memory.max", "1000\n");
  root.write("sys/fs/cgroup/memory.current", "1100\n");
  CHECK(root.limits().cpus == 0.5);
  CHECK(root.limits().memory_left == 0);
}

TEST_CASE("cgroup: version 1 has a hierarchy for each controller", "[env]") {
  const Root root;
  root.write("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n1:name=systemd:/init\n");
  root.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000\n");
  root.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "800\n");
  root.write("sys/fs/cgroup/memory/job/memory.stat",
             "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 50\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  CHECK(root.limits().cpus == 3);
  CHECK(root.limits().memory_left == 350);
}

}  // namespace
}  // namespace downpour
