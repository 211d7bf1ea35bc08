#include "chief/runtime/console.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "shared/base/error_text.h"
#include "shared/base/human.h"
#include "shared/base/units.h"
#include "shared/data/dataset.h"
#include "shared/job/field_output.h"
#include "shared/metrics/auc.h"
#include "shared/metrics/metrics.h"

namespace downpour::chief {
namespace {

using Json = nlohmann::ordered_json;

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* pattern, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

std::string human_count(double n) {
  if (n >= 1e9) return format("%.2f G", n / 1e9);
  if (n >= 1e6) return format("%.2f M", n / 1e6);
  if (n >= 1e4) return format("%.0f k", n / 1e3);
  return format("%.0f", n);
}

std::string human_time(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds < 1) return format("%.0f ms", seconds * 1e3);
  if (seconds < 60) return format("%.1f s", seconds);
  const auto whole = uint64_t(seconds);
  if (whole < 3600)
    return format("%llu:%02llu", static_cast<unsigned long long>(whole / 60),
                  static_cast<unsigned long long>(whole % 60));
  return format("%llu:%02llu:%02llu", static_cast<unsigned long long>(whole / 3600),
                static_cast<unsigned long long>(whole / 60 % 60),
                static_cast<unsigned long long>(whole % 60));
}

double seconds_of(int64_t ns) { return double(ns) / double(kSecond); }

std::string number(double value) { return std::isfinite(value) ? format("%.4f", value) : "-"; }

// Returns the smallest bucket b such that 99 % of the parts have a staleness of at most b.
std::optional<size_t> staleness_p99(const std::vector<uint64_t>& histogram) {
  uint64_t total = 0;
  for (const uint64_t n : histogram) total += n;
  if (total == 0) return std::nullopt;
  uint64_t seen = 0;
  for (size_t b = 0; b < histogram.size(); ++b) {
    seen += histogram[b];
    if (double(seen) >= 0.99 * double(total)) return b;
  }
  return histogram.size() - 1;
}

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::kGathering:
      return "waiting for ps";
    case Phase::kAdopting:
      return "placing partitions";
    case Phase::kReconciling:
      return "asking what is done";
    case Phase::kTraining:
      return "training";
    case Phase::kCompleting:
      return "completing";
    case Phase::kEvaluating:
      return "evaluating";
    case Phase::kPredicting:
      return "predicting";
    case Phase::kSaving:
      return "saving";
    case Phase::kStopping:
      return "stopping";
    case Phase::kFinished:
      return "done";
  }
  return "";
}

/// Returns the fill level of the queues of read batches, from 0 to 1; none if nothing was read.
std::optional<double> queue_fill(const wire::WorkTime& work) {
  if (work.queue_ns == 0) return std::nullopt;
  return std::min(1.0, double(work.queued_ns) / double(work.queue_ns));
}

/// Returns where the workers spent most of their time, and the fill level of their queues: "input
/// 63 %, queue 4 %".
std::string bound_text(const wire::WorkTime& work) {
  if (work.sum() == 0) return "-";
  const std::pair<uint64_t, const char*> shares[] = {
      {work.compute_ns, "compute"}, {work.network_ns, "network"}, {work.input_ns, "input"}};
  const auto& most =
      *std::max_element(std::begin(shares), std::end(shares),
                        [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto fill = queue_fill(work);
  return format("%s %.0f %%", most.second, 100.0 * double(most.first) / double(work.sum())) +
         (fill ? format(", queue %.0f %%", *fill * 100) : "");
}

/// Returns the work time since `before`.
wire::WorkTime ownership_generation(const wire::WorkTime& before, const wire::WorkTime& now) {
  const auto less = [](uint64_t a, uint64_t b) { return a > b ? a - b : 0; };
  return {.compute_ns = less(now.compute_ns, before.compute_ns),
          .network_ns = less(now.network_ns, before.network_ns),
          .input_ns = less(now.input_ns, before.input_ns),
          .queued_ns = less(now.queued_ns, before.queued_ns),
          .queue_ns = less(now.queue_ns, before.queue_ns)};
}

Json to_json(const wire::WorkTime& work) {
  const auto seconds = [](uint64_t ns) { return seconds_of(int64_t(ns)); };
  const auto fill = queue_fill(work);
  return {{"compute_seconds", seconds(work.compute_ns)},
          {"network_seconds", seconds(work.network_ns)},
          {"input_seconds", seconds(work.input_ns)},
          {"queue_fill", fill ? Json(*fill) : Json(nullptr)}};
}

std::string part_of_data(uint64_t read_bytes, uint64_t train_bytes) {
  return train_bytes == 0 ? ""
                          : format(" (%.2f of the data)", double(read_bytes) / double(train_bytes));
}

/// Prints what input processes have read for the workers.
void print_inputs(const JobSummary& s, uint64_t train_bytes, size_t shown_max, std::FILE* out) {
  size_t count = 0;
  for (const ProcessPeak& p : s.processes) {
    if (p.role != wire::Role::kInput || ++count > shown_max) continue;
    std::fprintf(
        out, "        input %u: read %s%s, sent %s, %s of processor time, memory %s\n", p.index,
        human_bytes(p.read_bytes).c_str(), part_of_data(p.read_bytes, train_bytes).c_str(),
        human_bytes(p.pushed_bytes).c_str(), human_time(seconds_of(int64_t(p.cpu_ns))).c_str(),
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
      "time    workers computed for %.0f %% of it, waited for ps for %.0f %% and for input for "
      "%.0f %%%s\n",
      share(all.compute_ns), share(all.network_ns), share(all.input_ns),
      fill ? format("; their queues of read batches were %.0f %% full", *fill * 100).c_str() : "");
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

std::vector<std::string> metrics_of(const Job& job, const OutputSpec& output) {
  std::vector<std::string> names = !job.eval.metrics.empty() ? job.eval.metrics : output.metrics;
  const std::vector<std::string>& known = supported_metrics(output.loss);
  std::erase_if(names, [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) == known.end();
  });
  return names.empty() ? default_metrics(output.loss) : names;
}

OutputMetrics with_sums(const OutputSums& sums) {
  OutputMetrics metrics;
  metrics.sums = sums;
  return metrics;
}

double mean_loss(const std::vector<OutputMetrics>& outputs, const Job& job) {
  double loss = 0;
  for (size_t o = 0; o < outputs.size() && o < job.model.outputs.size(); ++o) {
    loss += double(job.model.outputs[o].weight) * outputs[o].sums.loss /
            std::max(outputs[o].sums.weight, 1e-300);
  }
  return outputs.empty() || outputs[0].sums.weight == 0 ? NAN : loss;
}

double first_auc(const std::vector<OutputMetrics>& outputs) {
  return outputs.empty() || outputs[0].auc.empty() ? NAN : auc_value(outputs[0].auc);
}

/// Returns the loss of the best constant on the evaluated records; none if the sums do not
/// determine it.
std::optional<double> constant_loss(const Job& job, size_t output, const Evaluation& evaluation) {
  const OutputSpec& spec = job.model.outputs[output];
  uint32_t width = 1;
  if (const FieldSpec* target = job.data.find_field(spec.target)) {
    for (const int64_t n : number_shape(*target)) width = n == 1 ? width : 2;
  }
  return best_constant_loss(spec.loss, width, evaluation.outputs[output]);
}

/// Returns the evaluation of the model that eval and predict use: of the best epoch if its
/// checkpoint is kept, otherwise of the newest epoch. Null without evaluations.
const Evaluation* kept_evaluation(const JobSummary& s) {
  if (s.evaluations.empty()) return nullptr;
  if (s.best_checkpoint == ViewId{}) return &s.evaluations.back();
  for (const Evaluation& evaluation : s.evaluations) {
    if (evaluation.epochs_trained == s.best_epochs) return &evaluation;
  }
  return &s.evaluations.back();
}

/// Returns the indices of the outputs whose loss is above that of the best constant.
std::vector<size_t> worse_than_constant(const Job& job, const JobSummary& s) {
  std::vector<size_t> worse;
  const Evaluation* kept = kept_evaluation(s);
  for (size_t o = 0;
       kept != nullptr && o < std::min(kept->outputs.size(), job.model.outputs.size()); ++o) {
    const auto constant = constant_loss(job, o, *kept);
    if (constant && !(compute_metric("loss", kept->outputs[o]).value <= *constant))
      worse.push_back(o);
  }
  return worse;
}

/// Prints which epoch is kept, why training ended before its last epoch, and whether the model is
/// worse than a constant.
void print_verdict(const Job& job, const JobSummary& s, std::FILE* out) {
  if (s.stopped_early) {
    std::fprintf(out,
                 "stopped after epoch %zu: the evaluation loss has not improved for %u epochs "
                 "(eval.early_stop.patience)\n",
                 s.epochs.size(), job.eval.early_stop.patience);
  }
  if (s.best_checkpoint != ViewId{} && s.best_epochs > 0 && s.best_epochs != s.epochs.size()) {
    std::fprintf(out,
                 "best    epoch %u has the lowest evaluation loss: eval and predict use its "
                 "checkpoint, %s\n",
                 s.best_epochs, str(s.best_checkpoint).c_str());
  }
  for (const size_t o : worse_than_constant(job, s)) {
    const Evaluation& kept = *kept_evaluation(s);
    std::fprintf(
        out,
        "warning: output %s predicts worse than a constant: loss %s, the best constant's %s; try a "
        "lower optimizer.learning_rate, or look at the data with downpour data stats\n",
        job.model.outputs[o].name.c_str(),
        number(compute_metric("loss", kept.outputs[o]).value).c_str(),
        number(*constant_loss(job, o, kept)).c_str());
  }
}

// Returns "auc 0.9023 logloss 0.3241 (best constant 0.5512)" for every output.
std::string describe(const Job& job, const Evaluation& evaluation) {
  std::string text;
  for (size_t o = 0; o < evaluation.outputs.size() && o < job.model.outputs.size(); ++o) {
    const OutputSpec& output = job.model.outputs[o];
    if (o > 0) text += "; ";
    if (job.model.outputs.size() > 1) text += output.name + " ";
    bool first = true;
    for (const std::string& name : metrics_of(job, output)) {
      double value = compute_metric(name, evaluation.outputs[o]).value;
      if (name == "auc" && o < evaluation.auc.size()) value = evaluation.auc[o];
      text += format("%s%s %s", first ? "" : "  ", name.c_str(), number(value).c_str());
      first = false;
    }
    if (const auto best = constant_loss(job, o, evaluation)) {
      text += format("  (loss %s, best constant %s)",
                     number(compute_metric("loss", evaluation.outputs[o]).value).c_str(),
                     number(*best).c_str());
    }
  }
  return text;
}

Json to_json(const Job& job, const Evaluation& evaluation) {
  Json out = Json::object();
  for (size_t o = 0; o < evaluation.outputs.size() && o < job.model.outputs.size(); ++o) {
    Json metrics = Json::object();
    for (const std::string& name : supported_metrics(job.model.outputs[o].loss)) {
      double value = compute_metric(name, evaluation.outputs[o]).value;
      if (name == "auc" && o < evaluation.auc.size()) value = evaluation.auc[o];
      metrics[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
    }
    out[job.model.outputs[o].name] = std::move(metrics);
  }
  return {{"evaluation", evaluation.id},
          {"epochs_trained", evaluation.epochs_trained},
          {"records", evaluation.counts.applied},
          {"outputs", out}};
}

std::string account_text(const wire::ShardCounts& c) {
  std::string text = format(
      "read %llu = applied %llu + filtered %llu + skipped %llu + dropped %llu",
      static_cast<unsigned long long>(c.read), static_cast<unsigned long long>(c.applied),
      static_cast<unsigned long long>(c.filtered), static_cast<unsigned long long>(c.skipped),
      static_cast<unsigned long long>(c.dropped));
  if (c.quarantined > 0)
    text += format(" + quarantined %llu", static_cast<unsigned long long>(c.quarantined));
  return text;
}

std::vector<OutputMetrics> trained_metrics(const EpochAccount& account) {
  std::vector<OutputMetrics> trained;
  for (const OutputSums& sums : account.metrics) trained.push_back(with_sums(sums));
  return trained;
}

Json account_json(const EpochAccount& a, const Job& job) {
  const double loss = mean_loss(trained_metrics(a), job);
  return {{"epoch", a.epoch},
          {"batches", a.counts.batches},
          {"loss", std::isfinite(loss) ? Json(loss) : Json(nullptr)},
          {"read", a.counts.read},
          {"applied", a.counts.applied},
          {"filtered", a.counts.filtered},
          {"skipped", a.counts.skipped},
          {"dropped", a.counts.dropped},
          {"quarantined", a.counts.quarantined},
          {"shards", a.shards},
          {"shards_left", a.shards_left},
          {"unread_bytes", a.unread_bytes},
          {"bytes", a.input_bytes},
          {"repeated_parts", a.duplicate_parts},
          {"gaps", a.gaps},
          {"repeated_leases", a.attempts_repeated},
          {"seconds", seconds_of(a.wall_ns)}};
}

/// Describes an account that ends inside its epoch, or before the end of all sources; otherwise
/// empty.
std::string part_text(const EpochAccount& a) {
  std::string unread;
  for (size_t i = 0; i < a.unread_bytes.size(); ++i) {
    if (a.unread_bytes[i] > 0)
      unread += format("%s%s of source %zu", unread.empty() ? "  (unread: " : ", ",
                       human_bytes(a.unread_bytes[i]).c_str(), i + 1);
  }
  if (!unread.empty()) unread += ")";
  return unread + (a.is_partial()
                       ? format("  (a part: %u of %u shards)", a.shards, a.shards + a.shards_left)
                       : "");
}

/// Returns how much of the job is done: "2 of 3 epochs", "500 of 1000 steps".
std::string wanted_text(const JobSummary& s) {
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  const std::string steps =
      s.steps_wanted > 0 ? format("%llu of %llu steps", number(s.steps), number(s.steps_wanted))
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

}  // namespace

Console::Console(ConsoleOptions options, const Job& job) : options_(options), job_(job) {}

void Console::clear_live() {
  if (!live_shown_) return;
  std::fputs("\r\033[2K", options_.err);
  live_shown_ = false;
}

void Console::row(const std::string& text) {
  clear_live();
  std::fprintf(options_.err, "%s\n", text.c_str());
  std::fflush(options_.err);
}

void Console::Rate::add(uint64_t now, double elapsed_s) {
  if (now > last && elapsed_s > 0) {
    const double rate = double(now - last) / elapsed_s;
    per_second = per_second == 0 ? rate : 0.7 * per_second + 0.3 * rate;
  }
  last = now;
}

void Console::json(const std::string& line) {
  std::fprintf(options_.err, "%s\n", line.c_str());
  std::fflush(options_.err);
}

std::string shards_text(uint32_t shards) {
  return shards == 0 ? "shards" : format("%u shard%s", shards, shards == 1 ? "" : "s");
}

void Console::start(const StartInfo& info) {
  train_bytes_ = info.train_bytes;
  sharding_ = info.sharding;
  insecure_ = info.insecure;
  if (options_.quiet) return;
  if (options_.format == LogFormat::kJson) {
    return json(Json{{"event", "start"},
                     {"name", job_.name},
                     {"run_dir", info.run_dir},
                     {"cluster", info.cluster},
                     {"train_bytes", info.train_bytes},
                     {"train_files", info.train_files},
                     {"shards", info.shards},
                     {"sharding", info.sharding},
                     {"insecure", info.insecure},
                     {"evaluation", info.evaluation},
                     {"resumed", info.resumed},
                     {"model", info.model}}
                    .dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  if (info.train_files > 0) {
    row(format("data      %s, %s of at most %u-record batches", info.data.c_str(),
               shards_text(info.shards).c_str(), job_.train.batch_size));
    row("reading   " + info.sharding);
  }
  if (!info.evaluation.empty()) row("eval      " + info.evaluation);
  row("cluster   " + info.cluster);
  if (info.insecure)
    row("keys      none (--insecure): any process that reaches the ports can read and change the "
        "variables");
  row("run       " + info.run_dir);
  if (!info.resumed.empty()) row("resume    " + info.resumed);
  if (!info.model.empty()) row("model     " + info.model);
}

void Console::show(const ProgressSnapshot& p) {
  if (options_.quiet) return;
  if (window_.size() < p.recent.size()) window_.resize(p.recent.size());
  for (size_t o = 0; o < p.recent.size(); ++o) merge(window_[o], p.recent[o]);
  const double elapsed = seconds_of(p.elapsed_ns - last_elapsed_ns_);
  const bool due_row = p.records >= next_row_records_ && p.records > records_.last;
  const bool due_live = options_.terminal && elapsed >= 0.1;
  if (!due_row && !due_live) return;
  records_.add(p.records, elapsed);
  read_bytes_.add(p.read_bytes, elapsed);
  // A source of unknown length has no percentage.
  const double percent =
      p.bytes_total == 0 ? NAN : 100.0 * double(p.bytes_done) / double(p.bytes_total);
  const std::string percent_text = std::isfinite(percent) ? format("%.1f", percent) : "-";
  const double epochs_share = p.epochs == 0 || p.bytes_total == 0
                                  ? 0
                                  : (double(p.epoch) + percent / 100) / double(p.epochs);
  const double done_share = p.steps_wanted == 0
                                ? epochs_share
                                : std::max(epochs_share, double(p.steps) / double(p.steps_wanted));
  const bool training = p.phase == Phase::kTraining || p.phase == Phase::kCompleting;
  const double eta =
      training && done_share > 0 ? seconds_of(p.elapsed_ns) * (1 - done_share) / done_share : NAN;
  const auto stale = staleness_p99(p.staleness);
  const std::string stale_text = stale ? std::to_string(*stale) : "-";
  const double loss = mean_loss(window_, job_);
  const double auc = first_auc(window_);
  std::string members = format("%u/%u", p.workers_live, p.ps_live);
  if (p.inputs_live > 0) members += format("+%u", p.inputs_live);
  const wire::WorkTime work = ownership_generation(last_work_, p.work);

  if (options_.format == LogFormat::kJson) {
    if (!due_row) return;
    Json line = {{"event", "progress"},
                 {"phase", phase_name(p.phase)},
                 {"epoch", p.epoch + 1},
                 {"percent", std::isfinite(percent) ? Json(percent) : Json(nullptr)},
                 {"steps", p.steps},
                 {"records", p.records},
                 {"records_per_second", records_.per_second},
                 {"read_bytes", p.read_bytes},
                 {"read_bytes_per_second", read_bytes_.per_second},
                 {"loss", std::isfinite(loss) ? Json(loss) : Json(nullptr)},
                 {"auc", std::isfinite(auc) ? Json(auc) : Json(nullptr)},
                 {"staleness_p99", stale ? Json(*stale) : Json(nullptr)},
                 {"eta_seconds", std::isfinite(eta) ? Json(eta) : Json(nullptr)},
                 {"workers", p.workers_live},
                 {"ps", p.ps_live},
                 {"inputs", p.inputs_live},
                 {"work", to_json(work)}};
    json(line.dump());
  } else if (options_.terminal) {
    std::string line = p.epochs == kEpochsMax
                           ? format("epoch %u", p.epoch + 1)
                           : format("epoch %u/%u", p.epoch + 1, std::max(p.epochs, 1U));
    line += format(" %5s %%  %s ex/s  %s/s read  loss %s", percent_text.c_str(),
                   human_count(records_.per_second).c_str(),
                   human_bytes(uint64_t(read_bytes_.per_second)).c_str(), number(loss).c_str());
    if (std::isfinite(auc)) line += "  auc " + number(auc);
    const std::string inputs = p.inputs_live > 0 ? format(" %u input", p.inputs_live) : "";
    line += format("  stale %s  eta %s  %u worker%s %u ps%s  %s", stale_text.c_str(),
                   human_time(eta).c_str(), p.workers_live, p.workers_live == 1 ? "" : "s",
                   p.ps_live, inputs.c_str(), bound_text(work).c_str());
    if (p.phase != Phase::kTraining) line += format("  %s", phase_name(p.phase));
    if (line.size() >= options_.columns) line.resize(options_.columns - 1);
    std::fprintf(options_.err, "\r\033[2K%s%s%s", options_.color ? "\033[36m" : "", line.c_str(),
                 options_.color ? "\033[0m" : "");
    std::fflush(options_.err);
    live_shown_ = true;
  } else {
    if (!header_shown_)
      row("epoch      %    examples       ex/s      read/s     loss      auc  stale      eta  "
          "workers/ps  bound by");
    header_shown_ = true;
    row(format("%5u  %5s  %10llu  %9s  %10s  %7s  %7s  %5s  %7s  %10s  %s", p.epoch + 1,
               percent_text.c_str(), static_cast<unsigned long long>(p.records),
               human_count(records_.per_second).c_str(),
               human_bytes(uint64_t(read_bytes_.per_second)).c_str(), number(loss).c_str(),
               number(auc).c_str(), stale_text.c_str(), human_time(eta).c_str(), members.c_str(),
               bound_text(work).c_str()));
  }
  next_row_records_ = std::max(p.records * 2, uint64_t{1});
  last_elapsed_ns_ = p.elapsed_ns;
  last_work_ = p.work;
  window_.clear();
}

void Console::show(const EpochDone& done) {
  if (options_.quiet) return;
  if (options_.format == LogFormat::kJson)
    return json(Json{{"event", "epoch"}, {"account", account_json(done.account, job_)}}.dump());
  row(format("epoch %u  trained  loss %s  %s; the same at every partition  %s%s",
             done.account.epoch + 1, number(mean_loss(trained_metrics(done.account), job_)).c_str(),
             account_text(done.account.counts).c_str(),
             human_time(seconds_of(done.account.wall_ns)).c_str(),
             part_text(done.account).c_str()));
}

void Console::show(const EvalDone& done) {
  if (options_.quiet) return;
  if (options_.format == LogFormat::kJson) {
    Json line = to_json(job_, done.evaluation);
    line["event"] = "eval";
    return json(line.dump());
  }
  row(format("epoch %u  eval     %s", done.evaluation.epochs_trained,
             describe(job_, done.evaluation).c_str()));
}

void Console::show(const CheckpointDone& done) {
  if (options_.quiet || options_.format != LogFormat::kJson) return;
  json(Json{{"event", "checkpoint"},
            {"folder", done.folder},
            {"whole", done.base == ViewId{}},
            {"rows", done.rows},
            {"bytes", done.bytes},
            {"sealed_epochs", done.sealed_epochs}}
           .dump());
}

void Console::show(const Notice& notice) {
  if (options_.quiet && notice.level == NoticeLevel::kInfo) return;
  const char* const level = notice.level == NoticeLevel::kInfo      ? "note"
                            : notice.level == NoticeLevel::kWarning ? "warning"
                                                                    : "error";
  if (options_.format == LogFormat::kJson) {
    return json(Json{{"event", "notice"}, {"level", level}, {"text", notice.text}}.dump(
        -1, ' ', false, Json::error_handler_t::replace));
  }
  row(format("%s: ", level) + printable(notice.text));
}

void Console::finish(const Finish& finish, const std::string& run_dir,
                     const std::string& job_argument) {
  clear_live();
  const JobSummary& s = finish.summary;
  std::FILE* out = options_.out;
  if (s.mode == wire::Purpose::kPredict) return;
  if (options_.format == LogFormat::kJson) {
    Json epochs = Json::array();
    for (const EpochAccount& account : s.epochs) epochs.push_back(account_json(account, job_));
    Json evaluations = Json::array();
    for (const Evaluation& evaluation : s.evaluations)
      evaluations.push_back(to_json(job_, evaluation));
    Json processes = Json::array();
    for (const ProcessPeak& p : s.processes) {
      processes.push_back({{"role", p.role == wire::Role::kPs      ? "ps"
                                    : p.role == wire::Role::kInput ? "input"
                                                                   : "worker"},
                           {"index", p.index},
                           {"rss_bytes_max", p.rss_bytes_max},
                           {"cpu_seconds", seconds_of(int64_t(p.cpu_ns))},
                           {"rows", p.rows},
                           {"table_bytes", p.table_bytes},
                           {"records", p.records},
                           {"read_bytes", p.read_bytes},
                           {"sent_bytes", p.pushed_bytes},
                           {"work", to_json(p.work)}});
    }
    Json quarantined = Json::array();
    for (const QuarantinedBatch& one : s.quarantined) {
      quarantined.push_back({{"epoch", one.batch.epoch},
                             {"shard", one.batch.shard},
                             {"batch", one.batch.batch},
                             {"where", one.where},
                             {"why", one.why}});
    }
    Json worse = Json::array();
    for (const size_t o : worse_than_constant(job_, s)) worse.push_back(job_.model.outputs[o].name);
    const Json all = {
        {"event", "finish"},
        {"code", finish.code},
        {"already_finished", s.already_finished},
        {"run_dir", run_dir},
        {"insecure", insecure_},
        {"epochs_sealed", s.epochs_sealed},
        {"epochs_wanted", s.epochs_wanted},
        {"steps", s.steps},
        {"steps_wanted", s.steps_wanted},
        {"records", s.records},
        {"train_seconds", seconds_of(s.train_ns)},
        {"wall_seconds", seconds_of(s.wall_ns)},
        {"pulled_bytes", s.pulled_bytes},
        {"pushed_bytes", s.pushed_bytes},
        {"read_bytes", s.read_bytes},
        {"sharding", sharding_},
        {"workers_lost", s.workers_lost},
        {"ps_lost", s.ps_lost},
        {"restarts", s.restarts},
        {"repeated_parts", s.duplicate_parts},
        {"gaps", s.gaps},
        {"repeated_leases", s.attempts_repeated},
        {"second_leases", s.backups},
        {"partitions_moved", s.partitions_moved},
        {"partitions_moved_by_load", s.partitions_offloaded},
        {"move_pause_seconds_max", seconds_of(s.move_pause_ns_max)},
        {"staleness", s.staleness},
        {"checkpoint", s.checkpoint_folder},
        {"stopped_early", s.stopped_early},
        {"best_epoch", s.best_epochs},
        {"best_checkpoint",
         s.best_checkpoint == ViewId{} ? Json(nullptr) : Json(str(s.best_checkpoint))},
        {"worse_than_constant", worse},
        {"accounts", epochs},
        {"quarantined", quarantined},
        {"evaluations", evaluations},
        {"processes", processes}};
    std::fprintf(out, "%s\n", all.dump().c_str());
    std::fflush(out);
    return;
  }
  if (s.already_finished) {
    std::fprintf(out, "finished already: %s are trained and saved in %s\n", wanted_text(s).c_str(),
                 run_dir.c_str());
  }
  if (!s.epochs.empty()) {
    std::fprintf(out, "epoch   examples     loss   metrics on the evaluation data\n");
    for (const EpochAccount& account : s.epochs) {
      std::string evaluated;
      for (const Evaluation& evaluation : s.evaluations) {
        if (evaluation.epochs_trained == account.epoch + 1) evaluated = describe(job_, evaluation);
      }
      if (s.best_checkpoint != ViewId{} && s.epochs.size() > 1 &&
          s.best_epochs == account.epoch + 1)
        evaluated += "  best";
      std::fprintf(out, "%5u %10llu  %7s   %s\n", account.epoch + 1,
                   static_cast<unsigned long long>(account.counts.applied),
                   number(mean_loss(trained_metrics(account), job_)).c_str(), evaluated.c_str());
    }
  } else if (s.mode == wire::Purpose::kEval) {
    for (const Evaluation& evaluation : s.evaluations) {
      std::fprintf(out, "eval    %llu examples  %s\n",
                   static_cast<unsigned long long>(evaluation.counts.applied),
                   describe(job_, evaluation).c_str());
    }
  }
  print_verdict(job_, s, out);
  wire::ShardCounts total;
  for (const EpochAccount& account : s.epochs) total += account.counts;
  if (!s.epochs.empty()) {
    std::fprintf(out,
                 "account %s; balanced, the same at every partition (also: %llu parts "
                 "repeated, %llu gaps, %u leases repeated)\n",
                 account_text(total).c_str(), static_cast<unsigned long long>(s.duplicate_parts),
                 static_cast<unsigned long long>(s.gaps), s.attempts_repeated);
  }
  if (!s.epochs.empty() && !sharding_.empty()) std::fprintf(out, "reading %s\n", sharding_.c_str());
  if (s.steps_wanted > 0 && finish.code == 0) {
    const uint64_t beyond = s.steps - std::min(s.steps, s.steps_wanted);
    std::fprintf(out, "steps   %llu of %llu", static_cast<unsigned long long>(s.steps),
                 static_cast<unsigned long long>(s.steps_wanted));
    if (beyond > 0)
      std::fprintf(out, ", %llu more than asked for: the shards in flight were read to their end",
                   static_cast<unsigned long long>(beyond));
    if (!s.epochs.empty() && s.epochs.back().is_partial())
      std::fprintf(out, "; of epoch %u%s", s.epochs.back().epoch + 1,
                   part_text(s.epochs.back()).c_str());
    std::fputc('\n', out);
  }
  print_quarantined(s, out);
  if (s.partitions_moved > 0) {
    std::fprintf(out,
                 "moves   %u partitions moved to another ps while training went on, %u from hot "
                 "ones; the longest pause of one was %.1f ms\n",
                 s.partitions_moved, s.partitions_offloaded,
                 seconds_of(s.move_pause_ns_max) * 1000);
  }
  if (s.workers_lost + s.ps_lost + s.restarts > 0) {
    std::fprintf(out, "lost    %u worker%s, %u ps; local processes were started again %u time%s\n",
                 s.workers_lost, s.workers_lost == 1 ? "" : "s", s.ps_lost, s.restarts,
                 s.restarts == 1 ? "" : "s");
  }
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
  if (s.mode == wire::Purpose::kTrain) print_work(s, train_bytes_, out);
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
    std::fprintf(out, "memory  ps %s (tables %s, %s rows), worker %s, at most\n",
                 human_bytes(ps_rss).c_str(), human_bytes(ps_bytes).c_str(),
                 human_count(double(rows)).c_str(), human_bytes(worker_rss).c_str());
  }
  if (insecure_) {
    std::fprintf(out,
                 "keys    none (--insecure): any process that reached the ports could read and "
                 "change the variables\n");
  }
  if (s.mode == wire::Purpose::kTrain && !s.checkpoint_folder.empty())
    std::fprintf(out, "model   %s\n", run_dir.c_str());
  if (s.mode == wire::Purpose::kTrain && finish.code == 0 && s.epochs_wanted == kEpochsMax) {
    std::fprintf(out,
                 "next    downpour eval %s --data FILE, or as many more steps: downpour train %s "
                 "--steps %llu\n",
                 run_dir.c_str(), job_argument.c_str(),
                 static_cast<unsigned long long>(s.steps_wanted * 2));
  } else if (s.mode == wire::Purpose::kTrain && finish.code == 0 && s.stopped_early) {
    std::fprintf(out,
                 "next    downpour eval %s --data FILE, or train on: downpour train %s --set "
                 "eval.early_stop.patience=%u\n",
                 run_dir.c_str(), job_argument.c_str(), job_.eval.early_stop.patience + 3);
  } else if (s.mode == wire::Purpose::kTrain && finish.code == 0) {
    std::fprintf(
        out,
        "next    downpour eval %s --data FILE, or %u more epochs: downpour train %s --epochs %u\n",
        run_dir.c_str(), s.epochs_wanted, job_argument.c_str(), s.epochs_wanted * 2);
  } else if (s.mode == wire::Purpose::kTrain && !s.checkpoint_folder.empty()) {
    std::fprintf(out, "next    the same command goes on from here: downpour train %s\n",
                 job_argument.c_str());
  }
  std::fflush(out);
}

}  // namespace downpour::chief
