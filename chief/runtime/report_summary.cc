#include "chief/runtime/report_summary.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "chief/core/run/selection.h"
#include "chief/runtime/report_figures.h"
#include "chief/runtime/report_text.h"
#include "shared/base/human.h"
#include "shared/metrics/metrics.h"

namespace downpour::chief {
namespace {

std::string part_of_data(uint64_t read_bytes, uint64_t train_bytes) {
  return train_bytes == 0 ? ""
                          : format(" (%.2f x the data)", double(read_bytes) / double(train_bytes));
}

/// Prints what input processes have read for the workers.
void print_inputs(const JobSummary& s, uint64_t train_bytes, size_t shown_max, std::FILE* out) {
  size_t count = 0;
  for (const ProcessPeak& p : s.processes) {
    if (p.role != wire::Role::kInput || ++count > shown_max) continue;
    std::fprintf(out, "        input %u: read %s%s, sent %s, CPU time %s, memory %s\n", p.index,
                 human_bytes(p.read_bytes).c_str(), part_of_data(p.read_bytes, train_bytes).c_str(),
                 human_bytes(p.pushed_bytes).c_str(),
                 human_time(seconds_of(int64_t(p.cpu_ns))).c_str(),
                 human_bytes(p.rss_bytes_max).c_str());
  }
  if (count > shown_max)
    std::fprintf(out, "        and %zu more: --log-format json\n", count - shown_max);
}

/// Prints how the workers spent their time, and what each has read.
void print_work(const JobSummary& s, uint64_t train_bytes, std::FILE* out) {
  constexpr size_t kShownMax = 8;
  wire::WorkTime all;
  std::vector<const ProcessPeak*> workers;
  for (const ProcessPeak& p : s.processes) {
    if (p.role != wire::Role::kWorker) continue;
    all += p.work;
    workers.push_back(&p);
  }
  if (all.sum() == 0) return;
  const auto share = [&](uint64_t ns) { return 100.0 * double(ns) / double(all.sum()); };
  const auto fill = queue_fill(all);
  std::fprintf(
      out,
      "time    workers spent %.0f %% computing, %.0f %% waiting for ps and %.0f %% waiting for "
      "input%s\n",
      share(all.compute_ns), share(all.network_ns), share(all.input_ns),
      fill ? format("; their queues of batches were %.0f %% full", *fill * 100).c_str() : "");
  print_inputs(s, train_bytes, kShownMax, out);
  if (workers.size() < 2) return;
  for (size_t i = 0; i < std::min(workers.size(), kShownMax); ++i) {
    const ProcessPeak& p = *workers[i];
    const std::string part = part_of_data(p.read_bytes, train_bytes);
    std::fprintf(out, "        worker %u: %s examples, read %s%s, waited %s for input, %s for ps\n",
                 p.index, human_count(double(p.records)).c_str(), human_bytes(p.read_bytes).c_str(),
                 part.c_str(), human_time(seconds_of(int64_t(p.work.input_ns))).c_str(),
                 human_time(seconds_of(int64_t(p.work.network_ns))).c_str());
  }
  if (workers.size() > kShownMax)
    std::fprintf(out, "        and %zu more: --log-format json\n", workers.size() - kShownMax);
}

/// Prints which epoch is kept, why training ended before its last epoch, and whether the model is
/// worse than a constant.
void print_verdict(const Job& job, const JobSummary& s, std::FILE* out) {
  if (s.stopped_early) {
    std::fprintf(out,
                 "stopped after epoch %zu: the evaluation loss has not improved for %u epochs%s "
                 "(eval.early_stop.patience)\n",
                 s.epochs.size(), job.eval.early_stop.patience,
                 plateau_schedule(job) != nullptr ? " at the smallest learning rate" : "");
  }
  if (s.best_checkpoint != ViewId{} && s.best_epochs > 0 && s.best_epochs != s.epochs.size()) {
    std::fprintf(out,
                 "best    epoch %u has %s: eval and predict use its "
                 "checkpoint, %s\n",
                 s.best_epochs, best_text(job).c_str(), str(s.best_checkpoint).c_str());
  }
  for (const size_t o : worse_than_constant(job, s)) {
    const Evaluation& kept = *kept_evaluation(s);
    std::fprintf(
        out,
        "warning: output %s predicts worse than a constant: its %s is %s, that of the best "
        "constant is %s; try a lower optimizer.learning_rate, or check the data with "
        "downpour data stats\n",
        job.model.outputs[o].name.c_str(), loss_name(job.model.outputs[o]),
        number(compute_metric(loss_name(job.model.outputs[o]), kept.outputs[o]).value).c_str(),
        number(shown_constant(job, o, kept)).c_str());
  }
}

/// Returns how much of the job is done: "2 of 3 epochs", "500 of 1000 steps".
std::string wanted_text(const JobSummary& s) {
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  const std::string steps =
      s.steps_wanted > 0
          ? format("%llu of %llu steps", number(s.steps_counted), number(s.steps_wanted))
          : "";
  if (s.epochs_wanted == kEpochsMax) return steps;
  return format("%u of %u epochs", s.epochs_sealed, s.epochs_wanted) +
         (steps.empty() ? "" : ", " + steps);
}

/// Prints the quarantined batches, with reasons.
void print_quarantined(const JobSummary& s, std::FILE* out) {
  constexpr size_t kShownMax = 5;
  if (s.quarantined.empty()) return;
  const size_t count = s.quarantined.size();
  std::fprintf(out, "left out %zu batch%s, whose records count as quarantined:\n", count,
               count == 1 ? "" : "es");
  for (size_t i = 0; i < std::min(count, kShownMax); ++i) {
    const QuarantinedBatch& one = s.quarantined[i];
    std::fprintf(out, "        epoch %u, batch %u of shard %u, %s%s%s\n", one.batch.epoch + 1,
                 one.batch.batch, one.batch.shard, one.where.c_str(), one.why.empty() ? "" : ": ",
                 one.why.c_str());
  }
  if (count > kShownMax)
    std::fprintf(out, "        and %zu more: see events.jsonl (\"quarantined\")\n",
                 count - kShownMax);
}

/// Prints a row for each epoch; of an evaluation job a line for each evaluation.
void print_epochs(const Job& job, const JobSummary& s, std::FILE* out) {
  if (!s.epochs.empty()) {
    std::fprintf(out, "epoch   examples  %7s   metrics on the evaluation data\n",
                 shown_loss(job, NAN).name);
    for (const EpochAccount& account : s.epochs) {
      std::string evaluated;
      for (const Evaluation& evaluation : s.evaluations) {
        if (evaluation.epochs_trained == account.epoch + 1)
          evaluated = evaluation_text(job, evaluation);
      }
      if (s.best_checkpoint != ViewId{} && s.epochs.size() > 1 &&
          s.best_epochs == account.epoch + 1)
        evaluated += "  best";
      std::fprintf(out, "%5u %10llu  %7s   %s\n", account.epoch + 1,
                   static_cast<unsigned long long>(account.counts.applied),
                   shown_loss(job, mean_loss(trained_metrics(account), job)).value.c_str(),
                   evaluated.c_str());
    }
  } else if (s.mode == wire::Purpose::kEval) {
    for (const Evaluation& evaluation : s.evaluations) {
      std::fprintf(out, "eval    %llu examples  %s\n",
                   static_cast<unsigned long long>(evaluation.counts.applied),
                   evaluation_text(job, evaluation).c_str());
    }
  }
}

void print_account(const JobSummary& s, const std::string& sharding, std::FILE* out) {
  wire::ShardCounts total;
  for (const EpochAccount& account : s.epochs) total += account.counts;
  if (!s.epochs.empty()) {
    std::fprintf(out,
                 "account %s; balanced and identical at every partition (duplicate parts: %llu, "
                 "gaps: %llu, repeated leases: %u)\n",
                 counts_text(total).c_str(), static_cast<unsigned long long>(s.duplicate_parts),
                 static_cast<unsigned long long>(s.gaps), s.attempts_repeated);
  }
  if (!s.epochs.empty() && !sharding.empty()) std::fprintf(out, "reading %s\n", sharding.c_str());
}

/// Prints how far `train.steps` was reached.
void print_steps(const JobSummary& s, std::FILE* out) {
  const uint64_t beyond = s.steps_counted - std::min(s.steps_counted, s.steps_wanted);
  std::fprintf(out, "steps   %llu of %llu", static_cast<unsigned long long>(s.steps_counted),
               static_cast<unsigned long long>(s.steps_wanted));
  if (beyond > 0)
    std::fprintf(out,
                 ", %llu more than requested, because shards in progress are read to their end",
                 static_cast<unsigned long long>(beyond));
  if (!s.epochs.empty() && s.epochs.back().is_partial())
    std::fprintf(out, "; of epoch %u%s", s.epochs.back().epoch + 1,
                 partial_text(s.epochs.back()).c_str());
  std::fputc('\n', out);
}

/// Prints moves of partitions and lost processes.
void print_events(const JobSummary& s, std::FILE* out) {
  if (s.partitions_moved > 0) {
    std::fprintf(out,
                 "moves   %u partitions moved to another ps during training, %u of them from "
                 "overloaded ps; the longest pause was %.1f ms\n",
                 s.partitions_moved, s.partitions_offloaded,
                 seconds_of(s.move_pause_ns_max) * 1000);
  }
  if (s.workers_lost + s.ps_lost + s.restarts > 0) {
    std::fprintf(out, "lost    %u worker%s, %u ps; local processes were restarted %u time%s\n",
                 s.workers_lost, s.workers_lost == 1 ? "" : "s", s.ps_lost, s.restarts,
                 s.restarts == 1 ? "" : "s");
  }
}

void print_speed(const JobSummary& s, std::FILE* out) {
  // Applied in this run. If no epoch was completed, the last hints of the workers.
  uint64_t records = 0;
  for (size_t e = s.epochs_resumed; e < s.epochs.size(); ++e) records += s.epochs[e].counts.applied;
  if (records == 0) records = s.records;
  if (records > 0) {
    const double train_s = seconds_of(s.train_ns);
    std::fprintf(out, "speed   %s examples in %s: %s examples/s; read %s, pulled %s, pushed %s\n",
                 human_count(double(records)).c_str(), human_time(train_s).c_str(),
                 human_count(double(records) / std::max(train_s, 1e-9)).c_str(),
                 human_bytes(s.read_bytes).c_str(), human_bytes(s.pulled_bytes).c_str(),
                 human_bytes(s.pushed_bytes).c_str());
  }
}

void print_memory(const JobSummary& s, std::FILE* out) {
  uint64_t ps_bytes = 0;
  uint64_t ps_rss = 0;
  uint64_t worker_rss = 0;
  uint64_t rows = 0;
  for (const ProcessPeak& p : s.processes) {
    if (p.role == wire::Role::kPs) {
      ps_rss = std::max(ps_rss, p.rss_bytes_max);
      ps_bytes += p.table_bytes;
      rows += p.rows;
    } else if (p.role == wire::Role::kWorker) {
      worker_rss = std::max(worker_rss, p.rss_bytes_max);
    }
  }
  if (!s.processes.empty() && s.mode == wire::Purpose::kTrain) {
    std::fprintf(out, "memory  peak: ps %s (tables %s, %s rows), worker %s\n",
                 human_bytes(ps_rss).c_str(), human_bytes(ps_bytes).c_str(),
                 human_count(double(rows)).c_str(), human_bytes(worker_rss).c_str());
  }
}

/// Prints the next command to type.
void print_next(const Finish& finish, const Job& job, const std::string& run_dir,
                const std::string& job_argument, std::FILE* out) {
  const JobSummary& s = finish.summary;
  if (s.mode == wire::Purpose::kTrain && finish.code == 0 && s.epochs_wanted == kEpochsMax) {
    std::fprintf(out,
                 "next    evaluate: downpour eval %s --data FILE; or train for more steps: "
                 "downpour train %s --steps %llu\n",
                 run_dir.c_str(), job_argument.c_str(),
                 static_cast<unsigned long long>(s.steps_wanted * 2));
  } else if (s.mode == wire::Purpose::kTrain && finish.code == 0 && s.stopped_early) {
    std::fprintf(out,
                 "next    evaluate: downpour eval %s --data FILE; or continue training: downpour "
                 "train %s --set eval.early_stop.patience=%u\n",
                 run_dir.c_str(), job_argument.c_str(), job.eval.early_stop.patience + 3);
  } else if (s.mode == wire::Purpose::kTrain && finish.code == 0) {
    std::fprintf(out,
                 "next    evaluate: downpour eval %s --data FILE; or train %u more %s: "
                 "downpour train %s --epochs %u\n",
                 run_dir.c_str(), s.epochs_wanted, s.epochs_wanted == 1 ? "epoch" : "epochs",
                 job_argument.c_str(), s.epochs_wanted * 2);
  } else if (s.mode == wire::Purpose::kTrain && !s.checkpoint_folder.empty()) {
    std::fprintf(out, "next    resume with the same command: downpour train %s\n",
                 job_argument.c_str());
  }
}

}  // namespace

void print_summary(const Finish& finish, const Job& job, const StartInfo& start,
                   const std::string& run_dir, const std::string& job_argument, std::FILE* out) {
  const JobSummary& s = finish.summary;
  if (s.already_finished) {
    std::fprintf(out, "already finished: %s are trained and saved in %s\n", wanted_text(s).c_str(),
                 run_dir.c_str());
  }
  print_epochs(job, s, out);
  print_verdict(job, s, out);
  print_account(s, start.sharding, out);
  if (s.steps_wanted > 0 && finish.code == 0) print_steps(s, out);
  print_quarantined(s, out);
  print_events(s, out);
  print_speed(s, out);
  if (s.mode == wire::Purpose::kTrain) print_work(s, start.train_bytes, out);
  print_memory(s, out);
  if (start.insecure) {
    std::fprintf(out,
                 "keys    none (--insecure): any process that could reach the ports could read and "
                 "change the variables\n");
  }
  if (s.mode == wire::Purpose::kTrain && !s.checkpoint_folder.empty())
    std::fprintf(out, "model   %s\n", run_dir.c_str());
  print_next(finish, job, run_dir, job_argument, out);
}

}  // namespace downpour::chief
