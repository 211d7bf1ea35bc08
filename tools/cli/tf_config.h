// TF_CONFIG: the description of a cluster that TensorFlow's launchers, such as Kubeflow's TFJob,
// give to each process (https://www.tensorflow.org/guide/distributed_training#TF_CONFIG).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "shared/base/result.h"
#include "shared/wire/member_messages.h"

namespace downpour::tools {

/// Addresses (HOST:PORT) by index. A list of n addresses has the indices 0 to n - 1; an object, as
/// dynamic workers have, lists only some indices.
using Addresses = std::map<uint32_t, std::string>;

struct TfConfig {
  std::string chief;  // "chief" or "master"; empty: none
  Addresses ps, workers;
  bool sparse = false;  // "sparseCluster": a process sees only its own address and those of the ps
  enum class Task : uint8_t { kChief, kPs, kWorker, kEvaluator };
  Task task = Task::kWorker;
  uint32_t index = 0;
};

/// Parses the JSON text. Evaluators in the cluster are ignored. Errors: kConfig, which quotes the
/// part that is wrong: no JSON, an unknown type of task, an address without port or given twice, an
/// index that is not in the cluster.
Result<TfConfig> parse_tf_config(std::string_view text);

/// What one process of the cluster runs.
struct NodePlan {
  wire::Role role = wire::Role::kWorker;
  uint32_t index = 0;
  bool with_chief = false;       // worker 0 of a cluster without a chief also runs the chief
  bool ps_in_workers = false;    // a cluster without ps: each worker also runs the ps of its index
  std::string chief;             // address of the chief
  std::string bind;              // address at which a chief, or a ps of the cluster, listens
  std::string ps_bind;           // ps_in_workers: the address of its ps, with any port
  std::string host;              // host name that others use for it
  uint32_t ps = 0, workers = 0;  // of the job; 0: this process does not see them
};

/// Returns what the process runs. `chief_address` is the value of DOWNPOUR_CHIEF; empty: not set.
/// `everywhere` is the interface that stands for all of the machine.
/// A cluster without ps has one in each worker, as MultiWorkerMirroredStrategy places variables.
/// Errors: kConfig if the address of the chief is not known or not HOST:PORT, or if the chief sees
/// neither ps nor workers.
Result<NodePlan> plan_node(const TfConfig& config, const std::string& chief_address,
                           const std::string& everywhere);

}  // namespace downpour::tools
