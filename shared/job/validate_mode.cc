#include "shared/job/validate_mode.h"

#include <algorithm>

#include "shared/job/validate_support.h"

namespace downpour {
namespace {

/// The batches of a step are known only if each replica reads shards of its own, in order. Applies
/// to all modes with replicas.
Result<void> check_sync(const Job& job) {
  const TrainSpec& train = job.train;
  if (*train.replicas == 0 && job.cluster.workers == 0) {
    return wrong("`workers = 0` needs the number of replicas", "train.replicas",
                 "for example train.replicas = 4; with workers, the default is their number");
  }
  if (*train.replicas == 0) {
    return wrong("a step needs at least one replica", "train.replicas",
                 "set it to 1 or more; the default is cluster.workers");
  }
  if (train.backups >= *train.replicas) {
    return wrong(str("a step needs at least one batch, but ", train.backups, " of ",
                     *train.replicas, " replicas may be left out"),
                 "train.backups", "set it below train.replicas");
  }
  if ((train.quarantine || train.on_nan == "skip") && traits_of(train.mode).has_groups) {
    return wrong(str("mode \"", traits_of(train.mode).name,
                     "\" applies the gradients of sparse tables before a batch can be left out"),
                 train.quarantine ? "train.quarantine" : "train.on_nan",
                 "leave it out, or set train.mode = \"sync\"");
  }
  if (train.quarantine && train.backups > 0) {
    return wrong(
        "with backups a step does not wait for the batch that may have ended a worker, so that "
        "this batch is never known",
        "train.quarantine", "leave it out, or set train.backups = 0");
  }
  if (job.data.sharding != Sharding::kAuto && train.backups > 0) {
    return wrong(
        "with backups a replica has no stream of its own: it takes its next shard when it "
        "needs one",
        "data.sharding", "leave it out, or set train.backups = 0");
  }
  if (job.data.streams > 0 && job.data.streams != *train.replicas &&
      job.data.sharding != Sharding::kAuto) {
    return wrong(str("each replica reads one stream, but there are ", *train.replicas,
                     " replicas and ", job.data.streams, " streams"),
                 "data.streams", str("leave it out, or set it to ", *train.replicas));
  }
  return {};
}

/// The sum of a step is divided once, by the weight of all of its records. So this weight must be
/// the same for every output.
Result<void> check_divisor(const Job& job) {
  const TrainSpec& train = job.train;
  const std::vector<OutputSpec>& outputs = job.model.outputs;
  if (!train.replicas || train.sync_every || train.reduction != "mean") return {};
  const auto other = std::ranges::find_if(
      outputs, [&](const OutputSpec& output) { return output.weights != outputs.front().weights; });
  if (other == outputs.end()) return {};
  const auto weights = [](const OutputSpec& output) {
    return output.weights.empty() ? std::string("no `weights`")
                                  : str("the weights `", output.weights, "`");
  };
  return wrong(str("output `", outputs.front().name, "` has ", weights(outputs.front()),
                   ", but output `", other->name, "` has ", weights(*other),
                   ": a synchronous step is divided once, by the weight of its records"),
               str("model.outputs[", other - outputs.begin(), "].weights"),
               "use the same field for all outputs, or set train.reduction = \"sum\"");
}

/// Checks the rounds of replicas that train alone.
Result<void> check_rounds(const Job& job) {
  const TrainSpec& train = job.train;
  if (!train.sync_every) return {};
  const std::string mode = str("mode \"", traits_of(train.mode).name, "\"");
  if (train.whole_epochs() && job.data.shard_records > 0) {
    return wrong(
        str("sync_every = \"epoch\" divides the data into one shard for each replica, but ",
            "`shard_records` is ", job.data.shard_records),
        "data.shard_records", "leave it out, or set train.sync_every to a number of batches");
  }
  if (train.whole_epochs() && job.data.source.is_mix()) {
    return wrong("sync_every = \"epoch\" does not support sources with weights", "train.sync_every",
                 "set a number of batches, or list the paths without `weight`");
  }
  if (*train.sync_every * train.batch_size > kBatchSizeMax) {
    return wrong(str("a round of ", *train.sync_every, " batches of ", train.batch_size,
                     " records has more than ", kBatchSizeMax, " records"),
                 "train.sync_every", "lower it, or lower train.batch_size");
  }
  if (train.drop_remainder || train.steps_per_epoch > 0) {
    return wrong(str(mode, " trains all batches of a shard in this version"),
                 train.drop_remainder ? "train.drop_remainder" : "train.steps_per_epoch",
                 "leave it out, or set train.mode = \"sync\"");
  }
  if (train.outer.type != OptimizerType::kSgd && train.outer.type != OptimizerType::kMomentum) {
    return wrong(str("`outer` can't be ", name_of(train.outer.type), " in this version"),
                 "train.outer.type", "use sgd or momentum");
  }
  const bool ftrl = job.optimizer.type == OptimizerType::kFtrl ||
                    std::ranges::any_of(job.optimizer_rules, [](const OptimizerRule& rule) {
                      return rule.optimizer.type == OptimizerType::kFtrl;
                    });
  if (ftrl && train.outer != outer_defaults(OptimizerType::kSgd)) {
    return wrong("`outer` would change the weights that ftrl has set to 0", "train.outer",
                 "leave it out, or choose another optimizer, for example optimizer.type = "
                 "\"adagrad\"");
  }
  return {};
}

/// Checks that the job has no key of another mode.
Result<void> check_keys_of_mode(const TrainSpec& train) {
  const ModeTraits& traits = traits_of(train.mode);
  const std::string mode = str("mode \"", traits.name, "\" has no ");
  if (train.replicas && !traits.has_replicas) {
    return wrong(mode + "replicas", "train.replicas", "set train.mode = \"sync\", or leave it out");
  }
  if (train.backups > 0 && !traits.has_backups) {
    return wrong(mode + "backups", "train.backups", "set train.mode = \"sync\", or leave it out");
  }
  const bool outer = train.outer != outer_defaults(OptimizerType::kSgd);
  const bool average = train.average != "all";
  if ((train.sync_every || average || outer) && !traits.has_rounds) {
    return wrong(mode + "rounds of replicas that train alone",
                 train.sync_every ? "train.sync_every"
                 : average        ? "train.average"
                                  : "train.outer",
                 "set train.mode = \"local\", or leave it out");
  }
  return {};
}

/// Checks a job that applies the gradients of sparse tables when they arrive.
Result<void> check_groups(const Job& job) {
  const std::string mode = str("mode \"", traits_of(job.train.mode).name, "\"");
  const bool norm = job.clip.norm > 0;
  if (norm || job.clip.global_norm > 0) {
    return wrong(mode +
                     " clips gradients only by value, because no process has the gradient of a "
                     "whole step",
                 norm ? "optimizer.clip.norm" : "optimizer.clip.global_norm",
                 "set optimizer.clip.value instead, or set train.mode = \"async\"");
  }
  return {};
}

}  // namespace

Result<void> validate_mode(const Job& job) {
  const TrainSpec& train = job.train;
  DP_TRY_VOID(check_keys_of_mode(train));
  if (traits_of(train.mode).has_groups) DP_TRY_VOID(check_groups(job));
  if (traits_of(train.mode).has_replicas) {
    DP_TRY_VOID(check_sync(job));
    if ((job.clip.norm > 0 || job.clip.global_norm > 0) && train.backups > 0)
      return wrong("with backups the gradients of a step are clipped only by value",
                   job.clip.norm > 0 ? "optimizer.clip.norm" : "optimizer.clip.global_norm",
                   "set optimizer.clip.value instead, or set train.backups = 0");
  }
  DP_TRY_VOID(validate_mode_of_preset(job));
  if (!train.staleness || traits_of(train.mode).has_staleness) return {};
  return wrong(str("mode \"", traits_of(train.mode).name, "\" does not limit the staleness"),
               "train.staleness", "set train.mode = \"bounded\", or leave it out");
}

Result<void> validate_mode_of_preset(const Job& job) {
  DP_TRY_VOID(check_rounds(job));
  return check_divisor(job);
}

}  // namespace downpour
