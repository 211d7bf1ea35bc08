// GivenJob: what a worker or an input process derives from the chief's Welcome: the job, the layout
// of the model, and how to read shards.
#pragma once

#include <memory>
#include <string>

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/model/graph.h"
#include "shared/wire/member_messages.h"
#include "worker/runtime/shard_read.h"

namespace downpour::worker {

struct GivenJob {
  Job job;
  std::unique_ptr<model::Graph> graph;
  ReaderOptions readers;  // without limits

  /// Whether the data come from programs, or pass through one, that start in the reading process.
  bool starts_programs() const {
    return job.data.source.is_program() || job.eval.source.is_program() ||
           !job.data.program.empty();
  }
};

/// Derives the job from a Welcome. Errors: those of the job and of its model; kMalformed if the
/// files do not match the job.
Result<GivenJob> take_job(const wire::Welcome& welcome);

/// Returns why a process that reads by `job` cannot continue with the job of a new chief. Empty if
/// it can.
std::string why_other(const Job& job, const std::string& text, const std::string& base_dir);

/// Returns error kPermission, which asks for --allow-exec at this role.
Error exec_refused(const char* role);

}  // namespace downpour::worker
