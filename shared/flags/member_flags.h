// Flags that several of the programs downpour-chief, downpour-ps and downpour-worker have.
#pragma once

#include <cstdint>
#include <string>

#include "shared/flags/flags.h"

namespace downpour {

inline Flag chief_flag(std::string& chief) {
  return {.name = "--chief",
          .target = &chief,
          .help = "The chief's address: HOST:PORT, or a transport endpoint",
          .group = "Cluster",
          .required = true};
}

inline Flag connect_timeout_flag(int64_t& seconds) {
  return {.name = "--connect-timeout",
          .target = &seconds,
          .help = "Seconds to wait for the chief",
          .group = "Cluster"};
}

inline Flag keys_flag(std::string& keys) {
  return {.name = "--keys",
          .target = &keys,
          .help =
              "Folder with the keys of the job, or one key file. The chief creates "
              "RUN_DIR/keys; `downpour keys` creates other folders",
          .group = "Cluster"};
}

inline Flag insecure_flag(bool& insecure) {
  return {.name = "--insecure",
          .target = &insecure,
          .help =
              "Use no keys: connections are not encrypted, and any process can join. Set it "
              "for all processes of the job or for none",
          .group = "Cluster"};
}

inline Flag local_flag(bool& local) {
  return {.name = "--local",
          .target = &local,
          .help = "Set by downpour train: a signal to this process stops the whole job",
          .group = "Cluster"};
}

inline Flag cpu_parts_flag(uint32_t& parts) {
  return {.name = "--cpu-parts",
          .target = &parts,
          .help =
              "Set by downpour train: the process keeps to one of so many equal parts of the "
              "processors, by its index",
          .group = "Cluster"};
}

}  // namespace downpour
