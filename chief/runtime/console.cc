#include "chief/runtime/console.h"

#include <algorithm>
#include <cmath>

#include "chief/runtime/report_figures.h"
#include "chief/runtime/report_json.h"
#include "chief/runtime/report_text.h"
#include "shared/base/error_text.h"
#include "shared/base/human.h"
#include "shared/metrics/metrics.h"

namespace downpour::chief {

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

void Console::json(const nlohmann::ordered_json& line) {
  std::fprintf(options_.err, "%s\n", json_line(line).c_str());
  std::fflush(options_.err);
}

void Console::start(const StartInfo& info) {
  start_ = info;
  if (options_.quiet) return;
  if (options_.format == LogFormat::kJson) {
    nlohmann::ordered_json line = to_json(info, job_.name);
    line["clients"] = job_.model.is_custom();  // an event with their address follows
    return json(line);
  }
  if (info.train_files > 0) {
    row(format("data      %s, %s of at most %u-record batches", info.data.c_str(),
               shards_text(info.shards).c_str(), job_.train.batch_size));
    row("reading   " + info.sharding);
  }
  if (!info.evaluation.empty())
    row((info.predicts ? "predict   " : "eval      ") + info.evaluation);
  row("cluster   " + info.cluster);
  if (info.insecure)
    row("keys      none (--insecure): any process that reaches the ports can read and change the "
        "variables");
  row("run       " + info.run_dir);
  if (!info.resumed.empty()) row("resume    " + info.resumed);
  if (!info.model.empty()) row("model     " + info.model);
}

void Console::accepts_clients(const std::string& endpoint, const std::string& keys) {
  if (options_.format == LogFormat::kJson)
    return json({{"event", "clients"}, {"chief", endpoint}, {"keys", keys}});
  if (options_.quiet) return;
  row("clients   downpour.Client(\"" + endpoint + "\"" +
      (keys.empty() ? "" : ", keys=\"" + keys + "\"") + ")");
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
  const double done_share =
      p.steps_wanted == 0
          ? epochs_share
          : std::max(epochs_share, double(p.steps_counted) / double(p.steps_wanted));
  const bool training = p.phase == Phase::kTraining || p.phase == Phase::kCompleting;
  const double eta =
      training && done_share > 0 ? seconds_of(p.elapsed_ns) * (1 - done_share) / done_share : NAN;
  const auto stale = staleness_p99(p.staleness);
  const std::string stale_text = stale ? std::to_string(*stale) : "-";
  const double loss = mean_loss(window_, job_);
  const ShownLoss shown = shown_loss(job_, loss);
  const double auc = first_auc(window_);
  std::string members = format("%u/%u", p.workers_live, p.ps_live);
  if (p.inputs_live > 0) members += format("+%u", p.inputs_live);
  const wire::WorkTime work = work_between(last_work_, p.work);

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
    json(line);
  } else if (options_.terminal) {
    std::string line = p.epochs == kEpochsMax
                           ? format("epoch %u", p.epoch + 1)
                           : format("epoch %u/%u", p.epoch + 1, std::max(p.epochs, 1U));
    line += format(" %5s %%  %s ex/s  %s/s read  %s %s", percent_text.c_str(),
                   human_count(records_.per_second).c_str(),
                   human_bytes(uint64_t(read_bytes_.per_second)).c_str(), shown.name,
                   shown.value.c_str());
    if (std::isfinite(auc)) line += "  auc " + number(auc);
    const std::string inputs = p.inputs_live > 0 ? format(" %u input", p.inputs_live) : "";
    line += format("  staleness %s  eta %s  %u worker%s %u ps%s  %s", stale_text.c_str(),
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
      row(
          format("epoch      %%    examples       ex/s      read/s  %7s      auc  stale      eta  "
                 "workers/ps  bound by",
                 shown.name));
    header_shown_ = true;
    row(format("%5u  %5s  %10llu  %9s  %10s  %7s  %7s  %5s  %7s  %10s  %s", p.epoch + 1,
               percent_text.c_str(), static_cast<unsigned long long>(p.records),
               human_count(records_.per_second).c_str(),
               human_bytes(uint64_t(read_bytes_.per_second)).c_str(), shown.value.c_str(),
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
    return json({{"event", "epoch"}, {"account", to_json(done.account, job_)}});
  const ShownLoss shown = shown_loss(job_, mean_loss(trained_metrics(done.account), job_));
  row(format(
      "epoch %u  trained  %s %s  %s; identical at every partition  %s%s", done.account.epoch + 1,
      shown.name, shown.value.c_str(), counts_text(done.account.counts).c_str(),
      human_time(seconds_of(done.account.wall_ns)).c_str(), partial_text(done.account).c_str()));
}

void Console::show(const EvalDone& done) {
  if (options_.quiet) return;
  if (options_.format == LogFormat::kJson) {
    Json line = to_json(done.evaluation, job_);
    line["event"] = "eval";
    return json(line);
  }
  row(format("epoch %u  eval     %s", done.evaluation.epochs_trained,
             evaluation_text(job_, done.evaluation).c_str()));
}

void Console::show(const CheckpointDone& done) {
  if (options_.quiet || options_.format != LogFormat::kJson) return;
  json(to_json(done));
}

void Console::show(const Notice& notice) {
  if (options_.quiet && notice.level == NoticeLevel::kInfo) return;
  const char* const level = notice.level == NoticeLevel::kInfo      ? "note"
                            : notice.level == NoticeLevel::kWarning ? "warning"
                                                                    : "error";
  if (options_.format == LogFormat::kJson) {
    return json({{"event", "notice"}, {"level", level}, {"text", notice.text}});
  }
  row(format("%s: ", level) + printable(notice.text));
}

void Console::finish(const Finish& finish, const SummaryFacts& facts) {
  clear_live();
  if (options_.messages != nullptr) options_.messages->drain();
  if (finish.summary.mode == wire::Purpose::kPredict) return;
  if (options_.format == LogFormat::kJson) {
    std::fprintf(options_.out, "%s\n", json_line(to_json(finish, job_, facts, start_)).c_str());
  } else {
    print_summary(finish, job_, start_, facts,
                  {.out = options_.out,
                   .columns = options_.out_columns,
                   .color = options_.out_color,
                   .verbose = options_.verbose});
  }
  std::fflush(options_.out);
}

}  // namespace downpour::chief
