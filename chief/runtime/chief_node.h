// ChiefNode: runs a ChiefCore on a transport and a storage. The core makes the chief's decisions
// and does no input or output. The node moves messages, writes manifests and the event file, and
// shows progress.
#pragma once

#include <atomic>
#include <ctime>
#include <functional>
#include <memory>
#include <string>

#include "chief/core/run/chief_core.h"
#include "chief/runtime/console.h"
#include "shared/env/background.h"
#include "shared/env/storage.h"
#include "shared/transport/outbox.h"
#include "shared/transport/reactor.h"

namespace downpour::chief {

struct ChiefOptions {
  std::string endpoint;  // endpoint that members connect to
  std::string run_dir;
  std::string events_path;     // append-only event file; empty: none
  bool keeps_history = false;  // writes history.jsonl into run_dir with each checkpoint
  // The signal thread of the process sets it, and then wakes the transport.
  const std::atomic<int>* stop_signal = nullptr;
  /// Called with each batch of predictions, in the order of the data.
  std::function<void(const PredictionBatch&)> on_prediction;
  /// Called with the progress of the job, every ChiefConfig::progress_ns. The function may be null.
  std::function<void(const ProgressSnapshot&)> on_progress;
  /// Called on every turn of the reactor. If it returns an error, for example because a local
  /// process has ended too often, the job fails.
  std::function<Result<void>()> watch;
  /// Called on every turn. Returns the local ps and worker processes that have ended since the last
  /// call, so that the chief need not wait for their silence. The function may be null.
  std::function<std::vector<EndedProcess>()> ended_processes;
  // Returns the time that is written into files, for information only.
  std::function<int64_t()> unix_time_s = [] { return int64_t(std::time(nullptr)); };
};

class ChiefNode final : public transport::Node {
 public:
  /// `console` may be null. References and raw pointers are borrowed. `background` publishes
  /// manifests, so that a slow disk does not delay the chief's messages; null: the node starts a
  /// thread for it.
  ChiefNode(transport::Transport& transport, Storage& storage, ChiefConfig config,
            std::vector<TableSpec> tables, ChiefOptions options, Console* console,
            std::unique_ptr<Background> background = nullptr);

  Result<void> start(int64_t now_ns);
  /// Returns the endpoint as others reach it; valid after start().
  std::string endpoint() const { return transport_.endpoint(port_); }

  bool owns(transport::PortId port) const override { return port == port_; }
  void on_message(int64_t now_ns, transport::PortId port, transport::PeerId peer,
                  wire::Message&& message) override;
  void on_malformed(int64_t now_ns, transport::PortId port, transport::PeerId peer,
                    const Error& error) override;
  bool pump(int64_t now_ns) override;
  int64_t next_deadline_ns() const override;
  bool finished() const override { return finish_.has_value() && outbox_.empty(); }
  const ChiefCore& core() const { return core_; }
  const Finish& finish() const { return *finish_; }

 private:
  void run(int64_t now_ns, Effects&& effects);
  void look_for_newer_chief(int64_t now_ns, Effects& effects);
  void record(int64_t now_ns, std::string line);
  void publish(PublishManifest&& publish);
  Result<ResumeState> find_older(ViewId below);

  transport::Transport& transport_;
  transport::Outbox outbox_;
  Storage& storage_;
  ChiefOptions options_;
  std::string job_text_;
  uint64_t run_ = 0;
  uint32_t term_ = 0;  // 0: has no term (eval, predict)
  uint64_t plan_hash_ = 0;
  uint32_t keep_ = 3;  // number of checkpoints to keep
  std::vector<TableSpec> tables_;
  ChiefCore core_;
  Console* console_;
  transport::PortId port_{};
  std::unique_ptr<OutputFile> events_;  // null while the event file cannot be written
  int64_t events_again_ns_ = 0;
  uint64_t events_lost_ = 0;
  bool stop_asked_ = false;
  int64_t next_tick_ns_ = 0;
  int64_t look_for_newer_ns_ = 0;
  int64_t now_ns_ = 0;  // time of the newest turn
  std::optional<Finish> finish_;
  std::unique_ptr<Background> background_;  // last, because its tasks use the members above
};

}  // namespace downpour::chief
