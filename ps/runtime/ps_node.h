// PsNode: the shell of a PsCore, which does no input or output. It moves messages, and stores and
// loads images in the background.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps/core/handshake.h"
#include "ps/core/ps_core.h"
#include "ps/runtime/image_tasks.h"
#include "ps/runtime/page_toucher.h"
#include "ps/runtime/process_report.h"
#include "ps/runtime/save_pace.h"
#include "shared/env/background.h"
#include "shared/env/process.h"
#include "shared/env/storage.h"
#include "shared/job/job.h"
#include "shared/transport/member_node.h"

namespace downpour::ps {

struct PsOptions {
  std::string chief;            // endpoint of the chief
  std::string endpoint;         // own endpoint: "tcp://127.0.0.1:*", "ipc:///...", "inproc://..."
  std::string advertise_host;   // host for others if `endpoint` has a wildcard; empty: as bound
  uint32_t index = UINT32_MAX;  // UINT32_MAX: the chief gives one
  uint32_t thread = 0;          // number of the core in the process
  uint32_t cores = 1;           // cores of the process; they share cluster.ps_memory
  Incarnation incarnation{};    // of the process, shared by its cores
  int64_t connect_timeout_ns = 10 * kSecond;         // without a Welcome in this time: exit 69
  uint64_t inline_bytes_max = wire::kFrameBytesMax;  // larger images of a move go through files
  bool touch_pages = true;  // another thread touches new pages of the tables first
  std::function<void(const std::string&)> notice;  // reports a line to the user; may be empty
  bool in_worker = false;  // also listens at thread_endpoint(), for the worker of this process
  bool local = false;      // started by `downpour train`: a signal stops the job, not only this ps
  ProcessInfo process = this_process();
  PsLimits limits;
};

class PsNode final : public transport::MemberNode {
 public:
  /// `background` stores and loads images; null: a thread of the node's own does.
  PsNode(transport::Transport& transport, Storage& storage, PsOptions options,
         std::unique_ptr<Background> background = nullptr);

  /// Error if the endpoint cannot be bound, or if the chief's address is not valid.
  Result<void> start(int64_t now_ns);
  bool owns(transport::PortId port) const override {
    return port == data_ || port == control_ || (options_.in_worker && port == own_worker_);
  }
  void on_message(int64_t now_ns, transport::PortId port, transport::PeerId peer,
                  wire::Message&& message) override;
  void on_malformed(int64_t now_ns, transport::PortId port, transport::PeerId peer,
                    const Error& error) override;
  bool pump(int64_t now_ns) override;
  int64_t next_deadline_ns() const override;

  /// Null until the chief has welcomed it.
  const PsCore* core() const { return core_.get(); }

 private:
  void on_welcome(int64_t now_ns, const wire::Message& message);
  Result<void> check_run_folder(const wire::Welcome& welcome, uint64_t run);
  void on_welcome_again(const wire::Message& message);
  void run(Effects& effects);
  void deliver(ImageEvent&& event);
  std::string move_file_name(ViewId ownership_generation) const;
  void look_at_memory();
  void copy_on(int64_t now_ns);

  Storage& storage_;
  PsOptions options_;
  transport::PortId data_{};
  transport::PortId own_worker_{};  // for the worker of this process, if there is one
  transport::PortId control_{};
  transport::PeerId chief_{};
  std::vector<TableSpec> tables_;
  std::string run_dir_;
  PageToucher toucher_;
  std::optional<Handshake> handshake_;  // set by start()
  std::unique_ptr<PsCore> core_;        // set by the Welcome
  int64_t tick_at_ns_ = 0;
  uint64_t measured_bytes_ = UINT64_MAX;  // of the tables, at the last look at free memory
  SavePace save_pace_;
  ProcessReport report_;
  Effects effects_;
  bool leave_sent_ = false;

  ImageTasks images_;  // last member: its tasks use the others
};

}  // namespace downpour::ps
