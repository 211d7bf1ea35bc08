// The console's lines and summary as JSON, for programs.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "chief/core/events.h"
#include "chief/runtime/report_summary.h"
#include "chief/runtime/start_info.h"
#include "shared/job/job.h"

namespace downpour::chief {

using Json = nlohmann::ordered_json;

/// Returns one line of JSON; bytes that are not UTF-8 are replaced.
std::string json_line(const Json& json);

Json to_json(const StartInfo& info, const std::string& job_name);
Json to_json(const wire::WorkTime& work);
Json to_json(const EpochAccount& account, const Job& job);
Json to_json(const Evaluation& evaluation, const Job& job);
Json to_json(const CheckpointDone& done);
/// The summary of a job. `start` has the sharding and whether the job ran without keys.
Json to_json(const Finish& finish, const Job& job, const SummaryFacts& facts,
             const StartInfo& start);

}  // namespace downpour::chief
