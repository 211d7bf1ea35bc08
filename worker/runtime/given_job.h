// What a worker and an input process make of the job that the chief gives them: the model's layout
// and how shards are read.
#pragma once

#include <memory>
#include <string>

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/model/graph.h"
#include "shared/wire/messages.h"
#include "worker/runtime/shard_read.h"

namespace downpour::worker {

struct GivenJob {
  Job job;
  std::unique_ptr<model::Graph> graph;
  ReaderOptions readers;  // without limits

  /// Its data come from programs, or go through one, that are started where they are read.
  bool starts_programs() const {
    return job.data.source.is_program() || job.eval.source.is_program() ||
           !job.data.program.empty();
  }
};

/// Errors: of the job, of its model; kMalformed where the files are not the job's.
Result<GivenJob> take_job(const wire::Welcome& welcome);

/// Why a process that reads by `job` can't go on with the job that a new chief brings, or nothing.
std::string why_other(const Job& job, const std::string& text, const std::string& base_dir);

/// kPermission, naming the program that wants --allow-exec.
Error exec_refused(const char* role);

}  // namespace downpour::worker
