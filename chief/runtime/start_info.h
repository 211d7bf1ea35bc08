// StartInfo: what the first lines of a run say, for the console and the summary.
#pragma once

#include <cstdint>
#include <string>

namespace downpour::chief {

/// Content of the first lines.
struct StartInfo {
  std::string run_dir;
  std::string cluster;  // "one process: 1 ps, 1 worker, 2 compute threads", "2 ps + 2 workers over
                        // ipc, ..."
  std::string data;     // amount of training data, in words
  uint64_t train_bytes = 0;
  uint32_t train_files = 0;
  uint32_t shards = 0;
  bool insecure = false;   // --insecure: connections have no keys
  std::string sharding;    // how the data are divided among the readers
  std::string evaluation;  // "a9a.t", "5 % held out"; "": none
  bool predicts = false;   // `evaluation` is the data to predict
  std::string resumed;     // "continues from checkpoint 1-3, after epoch 3 of 5"; "": a new run
  std::string
      model;  // eval, predict: "checkpoint 1-1, after epoch 1: the best of 3"; "": the newest
};

}  // namespace downpour::chief
