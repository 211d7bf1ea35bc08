#include "chief/runtime/report_summary.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "chief/core/run/selection.h"
#include "chief/core/work/evaluation.h"
#include "chief/runtime/report_figures.h"
#include "chief/runtime/report_text.h"
#include "chief/runtime/slice_figures.h"
#include "shared/base/human.h"
#include "shared/base/str.h"
#include "shared/metrics/metrics.h"

namespace downpour::chief {
namespace {

constexpr size_t kIndent = 8;  // width of the labels

/// Where the summary goes: lines of a label and a text.
class Page {
 public:
  explicit Page(const SummaryOptions& options) : options_(options) {}

  /// Prints a label of at most 7 characters and a text. A text that is wider than the terminal goes
  /// on in further lines.
  void line(const char* label, const std::string& text, const char* color = "") {
    std::string rest = format("%-*s", int(kIndent), label) + text;
    size_t width = options_.columns;
    while (width > 2 * kIndent && rest.size() > width) {
      const size_t space = rest.rfind(' ', width);
      if (space == std::string::npos || space < kIndent) break;
      row(rest.substr(0, space), color);
      rest = std::string(kIndent, ' ') + rest.substr(space + 1);
    }
    row(rest, color);
  }
  void row(const std::string& text, const char* color = "") {
    const bool colored = options_.color && *color != '\0';
    std::fprintf(options_.out, "%s%s%s\n", colored ? color : "", text.c_str(),
                 colored ? "\033[0m" : "");
  }
  bool verbose() const { return options_.verbose; }

 private:
  const SummaryOptions& options_;
};

constexpr const char* kBold = "\033[1m";
constexpr const char* kGreen = "\033[32m";
constexpr const char* kYellow = "\033[33m";

std::string part_of_data(uint64_t read_bytes, uint64_t train_bytes) {
  return train_bytes == 0 ? ""
                          : format(" (%.2f x the data)", double(read_bytes) / double(train_bytes));
}

/// Prints what input processes have read for the workers.
void print_inputs(const JobSummary& s, uint64_t train_bytes, size_t shown_max, Page& page) {
  size_t count = 0;
  for (const ProcessPeak& p : s.processes) {
    if (p.role != wire::Role::kInput || ++count > shown_max) continue;
    page.line("",
              str("input ", p.index, ": read ", human_bytes(p.read_bytes),
                  part_of_data(p.read_bytes, train_bytes), ", sent ", human_bytes(p.pushed_bytes),
                  ", CPU time ", human_time(seconds_of(int64_t(p.cpu_ns))), ", memory ",
                  human_bytes(p.rss_bytes_max)));
  }
  if (count > shown_max) page.line("", str("and ", count - shown_max, " more: --log-format json"));
}

/// Prints how the workers spent their time, and what each has read.
void print_work(const JobSummary& s, uint64_t train_bytes, Page& page) {
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
  page.line(
      "time",
      format(
          "workers spent %.0f %% computing, %.0f %% waiting for ps and %.0f %% waiting for "
          "input%s",
          share(all.compute_ns), share(all.network_ns), share(all.input_ns),
          fill ? format("; their queues of batches were %.0f %% full", *fill * 100).c_str() : ""));
  print_inputs(s, train_bytes, kShownMax, page);
  if (workers.size() < 2) return;
  for (size_t i = 0; i < std::min(workers.size(), kShownMax); ++i) {
    const ProcessPeak& p = *workers[i];
    page.line("", str("worker ", p.index, ": ", human_count(double(p.records)), " examples, read ",
                      human_bytes(p.read_bytes), part_of_data(p.read_bytes, train_bytes),
                      ", waited ", human_time(seconds_of(int64_t(p.work.input_ns))), " for input, ",
                      human_time(seconds_of(int64_t(p.work.network_ns))), " for ps"));
  }
  if (workers.size() > kShownMax)
    page.line("", str("and ", workers.size() - kShownMax, " more: --log-format json"));
}

/// Returns "epoch 3 of 8".
std::string epoch_text(uint32_t epoch, size_t epochs) {
  return epochs > epoch ? str("epoch ", epoch, " of ", epochs) : str("epoch ", epoch);
}

std::string no_record(const Evaluation& evaluation) {
  return str("warning: the evaluation data have no record (", counts_text(evaluation.counts),
             "), so nothing is known about other data");
}

/// Returns true if no evaluation is better than that of the best checkpoint. A better epoch may not
/// be kept, for example because the rule has changed since.
bool is_best_of_all(const Job& job, const JobSummary& s) {
  return best_epochs(job, s.evaluations) == s.best_epochs;
}

/// Warns of weights whose unit decides how much a step changes.
void warn_of_weights(const Job& job, const JobSummary& s, Page& page) {
  if (s.epochs.empty() || job.train.reduction != "sum") return;
  const EpochAccount& last = s.epochs.back();
  for (size_t o = 0; o < last.metrics.size(); ++o) {
    const OutputSpec& output = job.model.outputs[o];
    const double mean = last.metrics[o].weight / double(std::max<uint64_t>(last.counts.applied, 1));
    if (output.weights.empty() || mean == 0 || (mean >= 0.1 && mean <= 10)) continue;
    page.row(str("warning: the mean of `", output.weights, "` is ", number(mean),
                 ", and with reduction = \"sum\" it scales every update: divide the weights by "
                 "their mean, or set train.reduction = \"mean\""),
             kYellow);
  }
}

/// Warns of outputs that learn nothing, that are measured by nothing or that are worse than a
/// constant.
void print_output_warnings(const Job& job, const JobSummary& s, Page& page) {
  const Evaluation* const kept = kept_evaluation(s);
  Evaluation trained;
  if (!s.epochs.empty()) trained.outputs = trained_metrics(s.epochs.back());
  for (size_t o = 0; o < trained.outputs.size(); ++o) {
    const OutputSpec& output = job.model.outputs[o];
    const bool learns = trained.outputs[o].sums.weight > 0;
    if (output.weights.empty() || (learns && (kept == nullptr || kept->outputs[o].sums.weight > 0)))
      continue;
    page.row(str("warning: no record of the ", learns ? "evaluation" : "training", " data has a `",
                 output.weights, "` above 0, so output ", output.name,
                 learns ? " has no metrics" : " has learned nothing"),
             kYellow);
  }
  const Evaluation& judged = kept != nullptr ? *kept : trained;
  for (size_t o = 0; o < judged.outputs.size(); ++o) {
    if (shown_constant(job, o, judged) != 0) continue;
    const std::string& target = job.model.outputs[o].target;
    page.row(
        str("warning: all ", kept != nullptr ? "evaluation" : "training", " data have the same `",
            target, "`, so the ", kept != nullptr ? "metrics say" : "model can learn",
            " nothing: is it the target (--target NAME), and is data.fields.", target,
            ".positive right, if it is given? Numbers are compared as 32-bit floats: if they "
            "differ, "
            "subtract a constant from them"),
        kYellow);
  }
  for (const size_t o : worse_than_constant(job, s)) {
    const OutputSpec& output = job.model.outputs[o];
    if (shown_constant(job, o, *kept) == 0) continue;
    page.row(str("warning: output ", output.name, " predicts worse than a constant: its ",
                 loss_name(output), " is ",
                 number(compute_metric(loss_name(output), kept->outputs[o]).value),
                 ", that of the best constant is ", number(shown_constant(job, o, *kept)),
                 "; try a lower optimizer.learning_rate, or check the data with downpour data ",
                 "stats"),
             kYellow);
  }
}

/// Prints what the training has reached: the metrics of the model that eval and predict use, why
/// training ended before its last epoch, and whether the model is worse than a constant or a linear
/// model.
void print_result(const Job& job, const JobSummary& s, const std::optional<LinearBaseline>& linear,
                  Page& page) {
  const Evaluation* kept = kept_evaluation(s);
  if (kept != nullptr) {
    page.line("result", evaluation_text(job, *kept), kBold);
    const bool best = s.best_checkpoint != ViewId{} && s.best_epochs == kept->epochs_trained;
    page.line("", str("on ", kept->counts.applied, " records of the evaluation data, after ",
                      epoch_text(kept->epochs_trained, s.epochs.size()),
                      !best                    ? ""
                      : is_best_of_all(job, s) ? str(", which has ", best_text(job))
                                               : ", the best of the kept epochs"));
    if (best && s.best_epochs != s.epochs.size())
      page.line("", str("eval and predict use its checkpoint, ", s.best_checkpoint));
  } else if (!s.epochs.empty()) {
    const ShownLoss trained = shown_loss(job, mean_loss(trained_metrics(s.epochs.back()), job));
    page.line("result",
              str(trained.name, " ", trained.value, " on the training data; ",
                  job.eval.holdout > 0 || !job.eval.source.paths.empty()
                      ? "no evaluation was completed"
                      : "there are no evaluation data (eval.holdout, eval.source)"),
              kBold);
  }
  if (kept == nullptr && !s.evaluations.empty()) page.row(no_record(s.evaluations.back()), kYellow);
  if (kept != nullptr && kept->trained_on)
    page.row(
        "warning: earlier epochs, or the run of the warm start, have trained on some of the "
        "evaluation data, so these metrics are better than those on other data",
        kYellow);
  constexpr uint64_t kFewRecords = 100;
  if (kept != nullptr && kept->counts.applied < kFewRecords)
    page.row(str("warning: the evaluation data have only ", kept->counts.applied,
                 " records, so these metrics say little about other data"),
             kYellow);
  if (kept != nullptr && linear) {
    const char* const name = loss_name(job.model.outputs[0]);
    const double loss = compute_metric(name, kept->outputs[0]).value;
    const std::string text = str("a linear model has ", name, " ", number(linear->loss), " after ",
                                 linear->epochs, linear->epochs == 1 ? " epoch" : " epochs");
    const bool useful = !(linear->loss >= shown_constant(job, 0, *kept));  // or there is none
    if (linear->loss < loss && useful)
      page.row(
          str("warning: ", text, ", which is better: use it, --set model.preset=",
              job.model.outputs[0].loss == "squared" ? "linear_regression" : "logistic_regression"),
          kYellow);
    else
      page.line("", text);
  }
  if (s.stopped_early) {
    const EarlyStopSpec& stop = job.eval.early_stop;
    page.line("", str("stopped after epoch ", s.epochs.size(), ": ", judged_text(job),
                      " has not improved", stop.min_delta > 0 ? str(" by ", stop.min_delta) : "",
                      " for ", stop.patience, stop.patience == 1 ? " epoch" : " epochs",
                      plateau_schedule(job) != nullptr ? " at the smallest learning rate" : "",
                      " (eval.early_stop.patience)"));
  }
  print_output_warnings(job, s, page);
  warn_of_weights(job, s, page);
}

/// Returns how much of the job is done: "2 of 3 epochs", "500 of 1000 steps".
std::string wanted_text(const JobSummary& s) {
  const std::string steps =
      s.steps_wanted > 0 ? str(s.steps_counted, " of ", s.steps_wanted, " steps") : "";
  if (s.epochs_wanted == kEpochsMax) return steps;
  const std::string epochs = s.epochs_sealed > s.epochs_wanted
                                 ? str(s.epochs_sealed, " epochs (", s.epochs_wanted, " wanted)")
                                 : str(s.epochs_sealed, " of ", s.epochs_wanted, " epochs");
  return str(epochs, steps.empty() ? "" : ", ", steps);
}

/// Prints the quarantined batches, with reasons.
void print_quarantined(const JobSummary& s, Page& page) {
  constexpr size_t kShownMax = 5;
  if (s.quarantined.empty()) return;
  const size_t count = s.quarantined.size();
  page.row(str("left out ", count, " batch", count == 1 ? "" : "es",
               ", whose records count as quarantined:"),
           kYellow);
  for (size_t i = 0; i < std::min(count, kShownMax); ++i) {
    const QuarantinedBatch& one = s.quarantined[i];
    page.line("", str("epoch ", one.batch.epoch + 1, ", batch ", one.batch.batch, " of shard ",
                      one.batch.shard, ", ", one.where, one.why.empty() ? "" : ": ", one.why));
  }
  if (count > kShownMax)
    page.line("", str("and ", count - kShownMax, " more: see events.jsonl (\"quarantined\")"));
}

/// Prints a row for each epoch; of an evaluation job a line for each evaluation.
void print_epochs(const Job& job, const JobSummary& s, Page& page) {
  if (!s.epochs.empty()) {
    page.row(format("epoch   examples  %7s   metrics on the evaluation data",
                    shown_loss(job, NAN).name));
    for (const EpochAccount& account : s.epochs) {
      std::string evaluated;
      for (const Evaluation& evaluation : s.evaluations) {
        if (evaluation.epochs_trained == account.epoch + 1)
          evaluated = evaluation_text(job, evaluation);
      }
      const bool best = s.best_checkpoint != ViewId{} && s.epochs.size() > 1 &&
                        s.best_epochs == account.epoch + 1;
      page.row(format("%5u %10llu  %7s   ", account.epoch + 1,
                      static_cast<unsigned long long>(account.counts.applied),
                      shown_loss(job, mean_loss(trained_metrics(account), job)).value.c_str()) +
                   evaluated + (best ? "  best" : ""),
               best ? kGreen : "");
    }
  } else if (s.mode == wire::Purpose::kEval) {
    for (const Evaluation& evaluation : s.evaluations) {
      page.line("eval",
                str(evaluation.counts.applied, " examples  ", evaluation_text(job, evaluation)));
      if (evaluation.counts.applied == 0) page.row(no_record(evaluation), kYellow);
    }
  }
}

/// Prints the slices of the model that eval and predict use, and why it has no metrics of groups.
void print_slices(const Job& job, const JobSummary& s, Page& page) {
  const Evaluation* const kept = kept_evaluation(s);
  if (kept == nullptr) return;
  const std::vector<std::string> lines = slice_tables(job, *kept);
  if (!lines.empty()) page.row("");
  for (const std::string& line : lines) page.row(line);
  if (kept->groups_dropped)
    page.row(str("warning: the evaluation data have more than ", kGroupRecordsMax,
                 " records times outputs, so gauc and ndcg have no value"),
             kYellow);
}

void print_account(const JobSummary& s, Page& page) {
  wire::ShardCounts total;
  for (const EpochAccount& account : s.epochs) total += account.counts;
  if (s.epochs.empty()) return;
  page.line("account", str(counts_text(total), "; balanced and identical at every partition ",
                           "(duplicate parts: ", s.duplicate_parts, ", gaps: ", s.gaps,
                           ", repeated leases: ", s.attempts_repeated, ")"));
}

/// Prints how far `train.steps` was reached.
void print_steps(const JobSummary& s, Page& page) {
  const uint64_t beyond = s.steps_counted - std::min(s.steps_counted, s.steps_wanted);
  std::string text = str(s.steps_counted, " of ", s.steps_wanted);
  if (beyond > 0) {
    text += str(", ", beyond, " more than requested",
                s.already_finished ? "" : ", because shards in progress are read to their end");
  }
  if (!s.epochs.empty() && s.epochs.back().is_partial())
    text += str("; of epoch ", s.epochs.back().epoch + 1, partial_text(s.epochs.back()));
  page.line("steps", text);
}

/// Prints lost processes, and moves of partitions.
void print_events(const JobSummary& s, Page& page) {
  if (s.workers_lost + s.ps_lost + s.restarts > 0) {
    page.line("lost", str(s.workers_lost, " worker", s.workers_lost == 1 ? "" : "s", ", ",
                          s.ps_lost, " ps; local processes were restarted ", s.restarts, " time",
                          s.restarts == 1 ? "" : "s"));
  }
  if (s.partitions_moved > 0 && page.verbose()) {
    page.line("moves",
              str(s.partitions_moved, " partitions moved to another ps during training, ",
                  s.partitions_offloaded, " of them from overloaded ps; the longest pause ", "was ",
                  format("%.1f ms", seconds_of(s.move_pause_ns_max) * 1000)));
  }
}

void print_speed(const JobSummary& s, Page& page) {
  // Applied in the epochs that ended since this start. If it began inside an epoch, the workers
  // have trained fewer records. If no epoch has ended, the last hints of the workers count.
  uint64_t records = 0;
  for (size_t e = s.epochs_resumed; e < s.epochs.size(); ++e) records += s.epochs[e].counts.applied;
  if (records == 0 || (s.records > 0 && s.workers_lost == 0))
    records = records == 0 ? s.records : std::min(records, s.records);
  if (records == 0) return;
  const double train_s = seconds_of(s.train_ns);
  page.line("speed", str(human_count(double(records)), " examples in ", human_time(train_s), ": ",
                         human_count(double(records) / std::max(train_s, 1e-9)),
                         " examples/s; read ", human_bytes(s.read_bytes), ", pulled ",
                         human_bytes(s.pulled_bytes), ", pushed ", human_bytes(s.pushed_bytes)));
}

void print_memory(const JobSummary& s, Page& page) {
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
    page.line("memory",
              str("peak: ps ", human_bytes(ps_rss), " (tables ", human_bytes(ps_bytes), ", ",
                  human_count(double(rows)), " rows), worker ", human_bytes(worker_rss)));
  }
}

/// Prints the next command to type. A command is not wrapped, so that it can be copied.
void print_next(const Finish& finish, const Job& job, const std::string& run_dir,
                const GivenCommand& command, Page& page) {
  const JobSummary& s = finish.summary;
  if (s.mode != wire::Purpose::kTrain) return;
  if (finish.code != 0) {
    if (!s.checkpoint_folder.empty())
      page.row(str("next    resume with the same command: ", command.text, command.length));
    return;
  }
  std::string further;
  if (s.epochs_wanted == kEpochsMax) {
    further = str("train for more steps: ", command.text, " --steps ",
                  std::max(s.steps_wanted, s.steps_counted) * 2);
  } else if (s.stopped_early) {
    further = str("continue training: ", command.text, command.length,
                  " --set eval.early_stop.patience=", job.eval.early_stop.patience + 3);
  } else {
    const uint32_t trained = std::max(s.epochs_wanted, s.epochs_sealed);
    further = str("train ", trained, " more ", trained == 1 ? "epoch" : "epochs", ": ",
                  command.text, " --epochs ", trained * 2);
  }
  page.row(job.model.is_custom()
               ? str("next    export the variables: downpour export ", run_dir, " --out FILE.npz")
               : str("next    evaluate: downpour eval ", run_dir, " --data FILE"));
  page.row(str("        or ", further));
}

}  // namespace

void print_summary(const Finish& finish, const Job& job, const StartInfo& start,
                   const SummaryFacts& facts, const SummaryOptions& options) {
  const JobSummary& s = finish.summary;
  const std::string& run_dir = facts.run_dir;
  Page page(options);
  const bool trains = s.mode == wire::Purpose::kTrain;
  if (s.already_finished) {
    page.row(str("already finished: ", wanted_text(s), " are trained and saved in ", run_dir));
  }
  if (trains) print_result(job, s, facts.linear, page);
  if (trains && !s.checkpoint_folder.empty()) page.line("model", run_dir);
  print_next(finish, job, run_dir, facts.command, page);
  if (trains && !s.epochs.empty()) page.row("");
  print_epochs(job, s, page);
  print_slices(job, s, page);
  if (trains && !s.epochs.empty()) page.row("");
  print_account(s, page);
  if (s.steps_wanted > 0 && finish.code == 0) print_steps(s, page);
  print_quarantined(s, page);
  print_events(s, page);
  print_speed(s, page);
  if (trains && page.verbose()) print_work(s, start.train_bytes, page);
  print_memory(s, page);
  if (start.insecure) {
    page.line("keys",
              "none (--insecure): any process that could reach the ports could read and change the "
              "variables");
  }
}

}  // namespace downpour::chief
