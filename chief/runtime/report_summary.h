// The summary that ends a run on a terminal.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "chief/core/events.h"
#include "chief/runtime/start_info.h"
#include "shared/job/job.h"

namespace downpour::chief {

/// The command that started the run, without the flags that say how long to train.
struct GivenCommand {
  std::string text;    // "downpour train job.toml --ps 2"
  std::string length;  // " --epochs 3", or empty
};

/// The lowest evaluation loss of a linear model of the same data.
struct LinearBaseline {
  double loss = 0;      // in the unit of loss_name()
  uint32_t epochs = 0;  // epochs trained
};

/// What the summary shows besides the job and its end.
struct SummaryFacts {
  std::string run_dir;
  GivenCommand command;
  std::optional<LinearBaseline> linear;
};

struct SummaryOptions {
  std::FILE* out = stdout;
  uint32_t columns = 0;  // width of the terminal, where texts are wrapped; 0: they are not
  bool color = false;
  bool verbose = false;  // also how the workers spent their time, and moves of partitions
};

/// Prints the result next to that of the best constant, the place of the model and the next command
/// to type; then metrics per epoch, the account, throughput, bytes, and memory per role.
void print_summary(const Finish& finish, const Job& job, const StartInfo& start,
                   const SummaryFacts& facts, const SummaryOptions& options);

}  // namespace downpour::chief
