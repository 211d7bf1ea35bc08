// bench-read: reads the training data of a job several times, and prints one line of JSON for the
// best round. tools/verify compares it with other readers of the same files.
#include <cstdio>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "chief/runtime/job_setup.h"
#include "tools/bench/input.h"

int main(int argc, char** argv) {
  using namespace downpour;
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench-read JOB_OR_DATA_FILE [ROUNDS]\n");
    return 64;
  }
  const auto fail = [](const Error& error) {
    std::fprintf(stderr, "error: %s\nwhere: %s\nhint: %s\n", error.what.c_str(),
                 error.where.c_str(), error.hint.c_str());
    return exit_code(error.code);
  };
  const auto given = chief::load_given_job(argv[1], {});
  if (!given) return fail(given.error());
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 3;
  tools::ReadTiming best;
  for (int round = 0; round < rounds; ++round) {
    const auto timing = tools::time_reading(given->loaded.job);
    if (!timing) return fail(timing.error());
    if (round == 0 || timing->wall_s < best.wall_s) best = *timing;
  }
  const nlohmann::ordered_json line = {{"records", best.records},
                                       {"bytes", best.bytes},
                                       {"wall_seconds", best.wall_s},
                                       {"cpu_seconds", best.cpu_s}};
  std::printf("%s\n", line.dump().c_str());
  return 0;
}
