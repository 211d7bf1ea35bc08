// Chief node: the shell of the chief's core. Moves messages, writes manifests and the event file,
// shows progress.
#pragma once

#include <atomic>
#include <ctime>
#include <functional>
#include <memory>
#include <string>

#include "chief/core/chief_core.h"
#include "chief/runtime/console.h"
#include "shared/env/background.h"
#include "shared/env/storage.h"
#include "shared/transport/outbox.h"
#include "shared/transport/reactor.h"

namespace downpour::chief {

struct ChiefOptions {
  std::string endpoint;  // where members connect
  std::string run_dir;
  std::string events_path;  // append-only event file; empty: none
  const std::atomic<int>* stop_signal =
      nullptr;  // set by the process's signal thread, which also wakes the transport
  /// predict: called with each batch, in order.
  std::function<void(const PredictionBatch&)> on_prediction;
  /// Called on every turn; an error stops the job (a local process died, ...).
  std::function<Result<void>()> watch;
  /// Called on every turn: local ps and worker processes that have ended since. The chief need not
  /// wait for their silence then. May be empty.
  std::function<std::vector<EndedProcess>()> ended_processes;
  std::function<int64_t()> unix_time_s = [] {
    return int64_t(std::time(nullptr));
  };  // for information in files
};

class ChiefNode final : public transport::Node {
 public:
  /// `console` may be null. All are borrowed. Manifests are published by `background`, so that a
  /// slow disk does not silence the chief; null: a thread of its own.
  ChiefNode(transport::Transport& transport, Storage& storage, ChiefConfig config,
            std::vector<TableSpec> tables, ChiefOptions options, Console* console,
            std::unique_ptr<Background> background = nullptr);

  Result<void> start(int64_t now_ns);
  /// The endpoint as others reach it; valid after start().
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
  uint32_t term_ = 0;  // 0: takes none (eval, predict)
  uint64_t plan_hash_ = 0;
  uint32_t keep_ = 3;  // checkpoints
  std::vector<TableSpec> tables_;
  ChiefCore core_;
  Console* console_;
  transport::PortId port_{};
  std::unique_ptr<OutputFile> events_;  // none while it can't be written
  int64_t events_again_ns_ = 0;
  uint64_t events_lost_ = 0;
  bool stop_asked_ = false;
  int64_t next_tick_ns_ = 0;
  int64_t look_for_newer_ns_ = 0;
  int64_t now_ns_ = 0;  // of the newest turn
  std::optional<Finish> finish_;
  std::unique_ptr<Background> background_;  // last: its tasks use what stands above
};

}  // namespace downpour::chief
