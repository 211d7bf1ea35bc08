// Flags that several of the programs downpour-chief, downpour-ps and downpour-worker have.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "shared/flags/flags.h"

namespace downpour {

/// Returns a flag of the heading "Cluster" in --help.
inline Flag cluster_flag(std::string name, Flag::Target target, std::string help) {
  return {.name = std::move(name), .target = target, .help = std::move(help), .group = "Cluster"};
}

/// Returns a flag of the heading "Resources" in --help.
inline Flag resource_flag(std::string name, Flag::Target target, std::string help) {
  return {.name = std::move(name), .target = target, .help = std::move(help), .group = "Resources"};
}

inline Flag chief_flag(std::string& chief) {
  return {.name = "--chief",
          .target = &chief,
          .help = "The chief's address: HOST:PORT, or a transport endpoint",
          .group = "Cluster",
          .required = true};
}

inline Flag connect_timeout_flag(int64_t& seconds) {
  return cluster_flag("--connect-timeout", &seconds, "Seconds to wait for the chief");
}

inline Flag keys_flag(std::string& keys) {
  return cluster_flag("--keys", &keys,
                      "Folder with the keys of the job, or one key file. The chief creates "
                      "RUN_DIR/keys; `downpour keys` creates other folders");
}

inline Flag insecure_flag(bool& insecure) {
  return cluster_flag(
      "--insecure", &insecure,
      "Use no keys: connections are not encrypted, and any process can join. Set it "
      "for all processes of the job or for none");
}

inline Flag local_flag(bool& local) {
  return cluster_flag("--local", &local,
                      "Set by downpour train: a signal to this process stops the whole job");
}

inline Flag cpu_parts_flag(uint32_t& parts) {
  return cluster_flag(
      "--cpu-parts", &parts,
      "Set by downpour train: the process keeps to one of so many equal parts of the "
      "processors, by its index");
}

}  // namespace downpour
