#include "chief/runtime/report_json.h"

#include <cmath>
#include <utility>

#include "chief/core/run/selection.h"
#include "chief/runtime/reliability_figures.h"
#include "chief/runtime/report_figures.h"
#include "chief/runtime/report_text.h"
#include "chief/runtime/slice_figures.h"
#include "shared/metrics/metrics.h"

namespace downpour::chief {
namespace {

Json processes_of(const JobSummary& s) {
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
  return processes;
}

Json quarantined_of(const JobSummary& s) {
  Json quarantined = Json::array();
  for (const QuarantinedBatch& one : s.quarantined) {
    quarantined.push_back({{"epoch", one.batch.epoch},
                           {"shard", one.batch.shard},
                           {"batch", one.batch.batch},
                           {"where", one.where},
                           {"why", one.why}});
  }
  return quarantined;
}

Json linear_of(const Job& job, const std::optional<LinearBaseline>& linear) {
  if (!linear) return nullptr;
  return {{loss_name(job.model.outputs[0]), linear->loss}, {"epochs", linear->epochs}};
}

}  // namespace

std::string json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const StartInfo& info, const std::string& job_name) {
  return Json{{"event", "start"},
              {"name", job_name},
              {"run_dir", info.run_dir},
              {"cluster", info.cluster},
              {"train_bytes", info.train_bytes},
              {"train_files", info.train_files},
              {"shards", info.shards},
              {"sharding", info.sharding},
              {"insecure", info.insecure},
              {"evaluation", info.evaluation},
              {"resumed", info.resumed},
              {"model", info.model}};
}

Json to_json(const wire::WorkTime& work) {
  const auto seconds = [](uint64_t ns) { return seconds_of(int64_t(ns)); };
  const auto fill = queue_fill(work);
  return {{"compute_seconds", seconds(work.compute_ns)},
          {"network_seconds", seconds(work.network_ns)},
          {"input_seconds", seconds(work.input_ns)},
          {"queue_fill", fill ? Json(*fill) : Json(nullptr)}};
}

Json to_json(const EpochAccount& a, const Job& job) {
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
          {"duplicate_parts", a.duplicate_parts},
          {"gaps", a.gaps},
          {"repeated_leases", a.attempts_repeated},
          {"seconds", seconds_of(a.wall_ns)}};
}

Json to_json(const Evaluation& evaluation, const Job& job) {
  Json out = Json::object();
  for (size_t o = 0; o < evaluation.outputs.size() && o < job.model.outputs.size(); ++o) {
    Json metrics = Json::object();
    for (const std::string& name : known_metrics(job, job.model.outputs[o])) {
      const double value = evaluated_metric(evaluation, o, name);
      metrics[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
    }
    out[job.model.outputs[o].name] = std::move(metrics);
  }
  Json json = {{"evaluation", evaluation.id},
               {"epochs_trained", evaluation.epochs_trained},
               {"records", evaluation.counts.applied},
               {"outputs", out}};
  if (const auto slices = slice_figures(job, evaluation); !slices.empty())
    json["slices"] = slices_json(slices);
  if (const auto reliability = reliability_figures(job, evaluation); !reliability.empty())
    json["reliability"] = reliability_json(reliability);
  return json;
}

Json to_json(const CheckpointDone& done) {
  return Json{
      {"event", "checkpoint"}, {"folder", done.folder}, {"whole", done.base == ViewId{}},
      {"rows", done.rows},     {"bytes", done.bytes},   {"sealed_epochs", done.sealed_epochs}};
}

Json to_json(const Finish& finish, const Job& job, const SummaryFacts& facts,
             const StartInfo& start) {
  const JobSummary& s = finish.summary;
  Json epochs = Json::array();
  for (const EpochAccount& account : s.epochs) epochs.push_back(to_json(account, job));
  Json evaluations = Json::array();
  for (const Evaluation& evaluation : s.evaluations)
    evaluations.push_back(to_json(evaluation, job));
  Json worse = Json::array();
  for (const size_t o : worse_than_constant(job, s)) worse.push_back(job.model.outputs[o].name);
  return {{"event", "finish"},
          {"code", finish.code},
          {"already_finished", s.already_finished},
          {"run_dir", facts.run_dir},
          {"insecure", start.insecure},
          {"epochs_sealed", s.epochs_sealed},
          {"epochs_wanted", s.epochs_wanted},
          {"steps", s.steps},
          {"steps_counted", s.steps_counted},
          {"steps_wanted", s.steps_wanted},
          {"records", s.records},
          {"train_seconds", seconds_of(s.train_ns)},
          {"wall_seconds", seconds_of(s.wall_ns)},
          {"pulled_bytes", s.pulled_bytes},
          {"pushed_bytes", s.pushed_bytes},
          {"read_bytes", s.read_bytes},
          {"sharding", start.sharding},
          {"workers_lost", s.workers_lost},
          {"ps_lost", s.ps_lost},
          {"restarts", s.restarts},
          {"duplicate_parts", s.duplicate_parts},
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
          {"linear_model", linear_of(job, facts.linear)},
          {"accounts", epochs},
          {"quarantined", quarantined_of(s)},
          {"evaluations", evaluations},
          {"processes", processes_of(s)}};
}

}  // namespace downpour::chief
