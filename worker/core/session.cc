#include "worker/core/session.h"

#include <algorithm>
#include <utility>

#include "shared/base/defence.h"
#include "shared/metrics/merge_outputs.h"
#include "worker/core/output_metrics.h"

namespace downpour::worker {

void Session::send(Incarnation to, wire::Body body, RequestId request, WorkerEffects& fx,
                   Bytes keys, Bytes values) {
  wire::Message message;
  message.envelope.run = run_;
  if (placements_) message.envelope.view = placements_->view.id;
  message.envelope.request = request;
  message.body = std::move(body);
  message.keys = std::move(keys);
  message.values = std::move(values);
  fx.sends.push_back({to, std::move(message)});
}

void Session::exit(int32_t code, std::string reason, WorkerEffects& fx) {
  stopping_ = true;
  fx.exits.push_back({code, std::move(reason)});
}

void Session::start(int64_t now_ns, WorkerEffects& fx) {
  started_ns_ = now_ns;
  chief_heard_ns_ = now_ns;
  hello(now_ns, fx);
}

void Session::hello(int64_t now_ns, WorkerEffects& fx) {
  hello_at_ns_ = now_ns + 500 * kMillisecond;
  report(wire::Hello{.role = config_.role,
                     .index = welcomed_ ? welcome_.index : config_.index,
                     .incarnation = config_.incarnation,
                     .build = config_.build,
                     .host = config_.host,
                     .pid = config_.pid,
                     .threads = config_.threads,
                     .endpoint = config_.endpoint},
         fx);
}

void Session::configure(int64_t chief_silence_ns) {
  DP_CHECK(welcomed_ && !configured_);
  chief_silence_ns_ = chief_silence_ns;
  configured_ = true;
}

void Session::add_metrics(const std::vector<OutputMetrics>& metrics) {
  merge_outputs(recent_, metrics);
}

bool Session::is_of_this_run(const wire::Envelope& envelope) const {
  return run_ == 0 || envelope.run == run_ || envelope.run == 0;
}

bool Session::hear_chief(int64_t now_ns, const wire::Envelope& envelope) {
  if (envelope.view.term < term_) {
    defended(Defence::kWorkerOldTerm);
    return false;
  }
  term_ = envelope.view.term;
  chief_heard_ns_ = now_ns;
  return true;
}

void Session::on_welcome(int64_t now_ns, uint64_t run, wire::Welcome&& welcome, WorkerEffects& fx) {
  if (!welcomed_) {
    welcomed_ = true;
    welcome_ = std::move(welcome);
    run_ = run;
    heartbeat_at_ns_ = now_ns + welcome_.heartbeat_ns;
    fx.welcomed = true;
    return;
  }
  // A restarted chief. This worker continues if both still make the same batches of the same
  // records. The worker's index, the intervals and the paths of the run may change.
  const bool same_data =
      welcome.plan_hash == welcome_.plan_hash && welcome.shard_bytes == welcome_.shard_bytes &&
      welcome.train_files == welcome_.train_files && welcome.eval_files == welcome_.eval_files;
  if (!same_data) return on_other_job("other data", fx);
  if (welcome.job != welcome_.job || welcome.base_dir != welcome_.base_dir)
    fx.other_job = {welcome.job, welcome.base_dir};
  welcome_ = std::move(welcome);
}

void Session::on_reject(int64_t now_ns, WorkerEffects& fx) {
  if (now_ns >= hello_at_ns_) hello(now_ns, fx);
}

void Session::on_refused(const wire::Refused& refused, WorkerEffects& fx) {
  exit(exit_code(refused.code),
       refused.hint.empty() ? refused.what : str(refused.what, " (", refused.hint, ")"), fx);
}

bool Session::accept_view(wire::View&& view, WorkerEffects& fx) {
  // The preceding Welcome was lost. The chief answers the next Hello with both messages.
  if (!welcomed_) return defended(Defence::kWorkerViewEarly), false;
  if (placements_ && view.id <= placements_->view.id)
    return defended(Defence::kWorkerViewOld), false;
  // The Welcome of a chief with other data may have been lost. Its view must not be used for
  // batches of the old data.
  if (view.plan_hash != 0 && view.plan_hash != welcome_.plan_hash)
    return on_other_job("other data", fx), false;
  auto placements = Placements::of(std::move(view));
  if (!placements) return false;
  placements_ = std::move(placements);
  fx.placements = placements_;
  return true;
}

void Session::on_stop(int64_t now_ns, RequestId request, const wire::Stop& stop,
                      WorkerEffects& fx) {
  goodbye(now_ns, fx);
  fx.sends.back().message.envelope.request = request;
  exit(stop.code, stop.reason, fx);
}

void Session::on_fatal(const Error& error, WorkerEffects& fx) {
  wire::ShardFailed failed;  // concerns no shard
  failed.code = error.code;
  failed.what = error.what;
  failed.where = error.where;
  failed.hint = error.hint;
  failed.id = error.id;
  report(std::move(failed), fx);
  exit(exit_code(error.code), error.what, fx);
}

void Session::on_unsuitable(const Error& error, WorkerEffects& fx) {
  exit(exit_code(error.code), str(error.what, "; ", error.hint), fx);
}

void Session::on_other_job(const std::string& what, WorkerEffects& fx) {
  defended(Defence::kWorkerOtherData);
  exit(exit_code(ErrorCode::kConfig),
       str("the chief restarted with ", what, ": restart this process"), fx);
}

bool Session::on_signal(int signal, WorkerEffects& fx) {
  leave_signal_ = signal;
  if (welcomed_) report_signal(fx);
  if (!config_.local) return true;
  // The chief stops the job and then this worker. Without a chief, the launcher reads the exit
  // status.
  if (!welcomed_) exit(128 + signal, "stopped by a signal", fx);
  return false;
}

void Session::leave(int64_t now_ns, WorkerEffects& fx) {
  if (welcomed_) goodbye(now_ns, fx);
  exit(0, "left the job on request", fx);
}

void Session::report_signal(WorkerEffects& fx) {
  report(wire::Leave{.incarnation = config_.incarnation, .signal = uint32_t(leave_signal_)}, fx);
}

void Session::heartbeat(int64_t now_ns, WorkerEffects& fx) {
  limit_buckets(recent_);
  heartbeat_at_ns_ = now_ns + std::max<int64_t>(welcome_.heartbeat_ns, kMillisecond);
  if (policy_.is_bounded()) report(policy_.report(now_ns), fx);
  report(wire::Heartbeat{.incarnation = config_.incarnation,
                         .rss_bytes_max = stats_.rss_bytes_max,
                         .cpu_ns = stats_.cpu_ns,
                         .pulled_bytes = stats_.pulled_bytes,
                         .pushed_bytes = stats_.pushed_bytes,
                         .records = records_,
                         .read_bytes = stats_.read_bytes,
                         .recent = std::exchange(recent_, {}),
                         .work = stats_.work},
         fx);
}

/// Sends the last heartbeat in a Goodbye.
void Session::goodbye(int64_t now_ns, WorkerEffects& fx) {
  heartbeat(now_ns, fx);
  wire::Goodbye goodbye{std::get<wire::Heartbeat>(fx.sends.back().message.body)};
  fx.sends.back().message.body = std::move(goodbye);
}

bool Session::on_tick(int64_t now_ns, WorkerEffects& fx) {
  if (stopping_) return false;
  if (!welcomed_) {
    if (now_ns - started_ns_ > config_.connect_timeout_ns) {
      exit(exit_code(ErrorCode::kUnavailable), "the chief does not answer", fx);
    } else if (now_ns >= hello_at_ns_) {
      hello(now_ns, fx);
    }
    return false;
  }
  if (now_ns - chief_heard_ns_ > chief_silence_ns_) {
    exit(exit_code(ErrorCode::kPeersLost),
         str("no message from the chief for ", chief_silence_ns_ / kSecond,
             " s; run the job again: it resumes from the newest checkpoint"),
         fx);
    return false;
  }
  if (now_ns >= heartbeat_at_ns_) {
    heartbeat(now_ns, fx);
    if (leave_signal_ != 0) report_signal(fx);  // the first report may have been lost
  }
  return true;
}

int64_t Session::next_deadline_ns() const {
  if (stopping_) return INT64_MAX;
  if (!welcomed_) return hello_at_ns_;
  return std::min(heartbeat_at_ns_, chief_heard_ns_ + chief_silence_ns_);
}

}  // namespace downpour::worker
