#include "ps/runtime/ps_node.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "shared/base/version.h"
#include "shared/checkpoint/paths.h"
#include "shared/checkpoint/run_file.h"
#include "shared/env/io_error.h"
#include "shared/job/job_file.h"
#include "shared/model/graph.h"
#include "shared/transport/endpoint.h"

namespace downpour::ps {
namespace {

/// Checks at the start what a checkpoint needs, which may be hours later.
Result<void> check_writable(const std::string& run_dir) {
  for (const std::string& folder : {run_dir + "/checkpoints", run_dir}) {
    if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return {};
    if (errno == ENOENT) continue;  // it is made with the first checkpoint
    return system_error("this ps can't write checkpoints", folder, errno, Intent::kCreate);
  }
  return {};
}

constexpr int64_t kTickNs = 100 * kMillisecond;

// PeerKey 0 is the chief. Transports number peers from 0, so keys are shifted by 1.
PeerKey key_of(transport::PeerId peer) { return raw(peer) + 1; }
transport::PeerId peer_of(PeerKey key) { return transport::PeerId{key - 1}; }

PlanExtent extent_of(const Job& job, const wire::Welcome& welcome) {
  return {.epochs = job.train.epochs,
          .shards = welcome.train_shards > 0 ? welcome.train_shards : UINT32_MAX};
}

std::optional<StepRules> steps_of(const Job& job) {
  if (!job.train.replicas) return std::nullopt;
  const bool mean = job.train.reduction == "mean";
  const bool local = traits_of(job.train.mode).has_rounds;  // each batch is clipped by its worker
  const bool touched = local && job.train.average == "touched";
  return StepRules{.replicas = uint32_t(*job.train.replicas),
                   .backups = job.train.backups,
                   // With backups the chief deals the shards as the replicas need them.
                   .in_turn = job.train.backups == 0 && job.data.sharding == Sharding::kAuto,
                   .divisor = touched ? StepDivisor::kRecordsOfRow
                              : local ? StepDivisor::kRecords
                              : mean  ? StepDivisor::kWeight
                                      : StepDivisor::kNone,
                   .clip_value = local ? 0 : job.clip.value,
                   .clip_groups = local                      ? ClipGroups::kNone
                                  : job.clip.norm > 0        ? ClipGroups::kVariables
                                  : job.clip.global_norm > 0 ? ClipGroups::kAll
                                                             : ClipGroups::kNone};
}

}  // namespace

PsNode::PsNode(transport::Transport& transport, Storage& storage, PsOptions options,
               std::unique_ptr<Background> background)
    : MemberNode(transport),
      storage_(storage),
      options_(std::move(options)),
      report_(options_.process, transport),
      images_(storage, tables_,
              background != nullptr
                  ? std::move(background)
                  : std::make_unique<BackgroundThread>([this] { transport_.wake(); })) {
  DP_CHECK(options_.incarnation != Incarnation{});
}

Result<void> PsNode::start(int64_t now_ns) {
  DP_TRY(data_, transport_.bind(options_.endpoint));
  DP_TRY(auto endpoint,
         transport::advertised_endpoint(transport_.endpoint(data_), options_.advertise_host));
  if (options_.in_worker) {
    DP_TRY(own_worker_,
           transport_.bind(transport::thread_endpoint(options_.incarnation, options_.thread)));
  }
  DP_TRY(chief_, transport_.connect(options_.chief));
  control_ = transport_.port_of(chief_);
  handshake_.emplace(wire::Hello{.role = wire::Role::kPs,
                                 .index = options_.index,
                                 .thread = options_.thread,
                                 .incarnation = options_.incarnation,
                                 .build = kBuildVersion,
                                 .host = options_.process.host,
                                 .pid = options_.process.pid,
                                 .threads = 1,
                                 .endpoint = std::move(endpoint)},
                     options_.chief, options_.connect_timeout_ns);
  handshake_->start(now_ns, effects_);
  run(effects_);
  return {};
}

void PsNode::on_welcome(int64_t now_ns, const wire::Message& message) {
  const auto& welcome = std::get<wire::Welcome>(message.body);
  const auto job = job_from_toml(welcome.job, welcome.base_dir);
  if (!job) return exit(downpour::exit_code(job.error().code), job.error().what);
  const auto graph = model::Graph::build(*job);
  if (!graph) return exit(downpour::exit_code(graph.error().code), graph.error().what);
  if (const auto checked = check_run_folder(welcome, message.envelope.run); !checked) {
    const Error& error = checked.error();
    return exit(downpour::exit_code(error.code),
                str(error.where, ": ", error.what, " (", error.hint, ")"));
  }
  tables_ = (*graph)->tables();
  run_dir_ = welcome.run_dir;
  handshake_->accept(welcome, message.envelope.run);
  images_.begin(checkpoint::image_file_name(welcome.index, options_.thread, options_.incarnation));
  core_ = std::make_unique<PsCore>(
      PsConfig{.index = welcome.index,
               .thread = options_.thread,
               .incarnation = options_.incarnation,
               .run = message.envelope.run,
               .tables = tables_,
               .seed = job->seed,
               .partition_bits = uint32_t(std::countr_zero(job->partitions)),
               .plan = extent_of(*job, welcome),
               .steps = steps_of(*job),
               .run_dir = welcome.run_dir,
               .heartbeat_ns = welcome.heartbeat_ns,
               .chief_silence_ns_max = job->cluster.chief_silence_ns,
               .limits = options_.limits,
               .incremental_saves = job->train.checkpoint.incremental,
               .arenas = {.prefault = options_.touch_pages ? &toucher_ : nullptr,
                          .reserves = !options_.process.address_space_limited},
               .table_bytes_max = job->cluster.ps_memory / std::max(options_.cores, 1U)});
  tick_at_ns_ = now_ns;
}

/// Checks the run folder that a message names, because this ps writes below it. A message alone
/// cannot turn a folder into a run folder: it must contain a file with the id of the run.
Result<void> PsNode::check_run_folder(const wire::Welcome& welcome, uint64_t run) {
  const std::string& run_dir = welcome.run_dir;
  const char* const hint =
      "mount the run folder under the same path on the machines of the chief and of all ps";
  if (run_dir.empty() || run_dir[0] != '/')
    return Error{ErrorCode::kConfig, "the chief did not send an absolute path of its run folder",
                 run_dir, hint, "DP-2722"};
  storage_.guard(run_dir);
  auto file = checkpoint::read_run(storage_, run_dir);
  if (!file) {
    if (file.error().code == ErrorCode::kNoInput) file.error().hint = hint;
    return std::move(file).error();
  }
  if (file->id == run) return welcome.saves ? check_writable(run_dir) : Result<void>();
  return Error{ErrorCode::kConfig, "the folder contains another run than the chief's", run_dir,
               hint, "DP-2722"};
}

// A restarted chief continues with the partitions of this core, if the job means the same to both.
void PsNode::on_welcome_again(const wire::Message& message) {
  const auto& welcome = std::get<wire::Welcome>(message.body);
  if (welcome.run_dir != run_dir_) {
    if (const auto checked = check_run_folder(welcome, message.envelope.run); !checked) {
      const Error& error = checked.error();
      return exit(downpour::exit_code(error.code), str(error.where, ": ", error.what));
    }
    run_dir_ = welcome.run_dir;
    core_->set_run_dir(run_dir_);
  }
  handshake_->accept(welcome, message.envelope.run);
  leave_sent_ = false;  // also report the signal to the new chief
  const auto job = job_from_toml(welcome.job, welcome.base_dir);
  if (job) {
    const auto graph = model::Graph::build(*job);
    if (graph && (*graph)->tables() == tables_)
      return core_->set_plan(extent_of(*job, welcome), steps_of(*job));
  }
  exit(downpour::exit_code(ErrorCode::kConfig),
       "the chief restarted with another model or optimizer: restart this ps");
}

void PsNode::on_message(int64_t now_ns, transport::PortId port, transport::PeerId peer,
                        wire::Message&& message) {
  if (finished_) return;
  if (port == control_) {
    switch (handshake_->on_message(now_ns, message, core_.get(), effects_)) {
      case Handshake::Event::kNone:
        break;
      case Handshake::Event::kWelcome:
        return on_welcome(now_ns, message);
      case Handshake::Event::kWelcomeAgain:
        on_welcome_again(message);
        break;
    }
    if (effects_.exit) return run(effects_);
  }
  if (!core_ || finished_) return;  // no job yet: the sender repeats the message
  report_.received(message.values.size());
  if (port != control_) save_pace_.served(now_ns);
  core_->on_message(now_ns, port == control_ ? kChiefPeer : key_of(peer), message, effects_,
                    transport_.identity(peer));
  run(effects_);
}

// The transport counts, answers and limits malformed messages.
void PsNode::on_malformed(int64_t, transport::PortId, transport::PeerId, const Error& error) {
  if (options_.notice) options_.notice(str("message dropped at ", error.where, ": ", error.what));
}

void PsNode::run(Effects& effects) {
  for (Send& send : effects.sends) {
    report_.sent(send.message.values.size());
    wire::Heartbeat* heartbeat = std::get_if<wire::Heartbeat>(&send.message.body);
    if (auto* goodbye = std::get_if<wire::Goodbye>(&send.message.body)) heartbeat = &goodbye->last;
    if (heartbeat != nullptr) report_.fill_in(*heartbeat);
    const transport::PeerId to = send.to == kChiefPeer ? chief_ : peer_of(send.to);
    if (std::holds_alternative<wire::Reject>(send.message.body)) {
      // Any peer can cause a Reject as often as it likes. So it is not queued for a peer that does
      // not receive it.
      (void)transport_.send(to, std::move(send.message));
    } else {
      outbox_.send(to, std::move(send.message));
    }
  }
  for (Store& store : effects.stores) images_.store(std::move(store));
  std::vector<Load> inlined;
  for (Load& load : effects.loads) {
    if (!load.inlined.empty()) {
      inlined.push_back(std::move(load));
    } else {
      images_.load(std::move(load));
    }
  }
  images_.read_on();
  for (const Discard& discard : effects.discards)
    images_.remove(discard, move_file_name(discard.ownership_generation));
  for (const std::string& notice : effects.notices) {
    if (options_.notice) options_.notice(notice);
  }
  if (effects.exit) exit(effects.exit->code, effects.exit->reason);
  const std::vector<Export> exports = std::exchange(effects.exports, {});
  effects.clear();
  // Work that completes at once returns further effects.
  for (const Load& load : inlined) deliver(images_.read_inlined(load));
  for (const Export& move : exports) {
    auto done = images_.hand_out(move, options_.inline_bytes_max,
                                 move_file_name(move.ownership_generation));
    if (done) deliver(std::move(*done));
  }
}

/// Gives the core the result of work on images.
void PsNode::deliver(ImageEvent&& event) {
  if (auto* written = std::get_if<ImageWritten>(&event)) {
    core_->on_image_written(written->checkpoint, std::move(written->image));
    if (written->stored)
      core_->on_stored(written->checkpoint, std::move(*written->stored), effects_);
  } else if (auto* loaded = std::get_if<ImagesLoaded>(&event)) {
    core_->on_loaded(loaded->id, std::move(loaded->images), effects_, loaded->more);
  } else if (auto* exported = std::get_if<ImagesExported>(&event)) {
    core_->on_exported(exported->ownership_generation, std::move(exported->images),
                       std::move(exported->inlined), effects_);
  }
  run(effects_);
}

std::string PsNode::move_file_name(ViewId ownership_generation) const {
  return checkpoint::move_file_name(ownership_generation, handshake_->index(), options_.thread,
                                    options_.incarnation);
}

// After tables have grown, gives the core its share of the machine's free memory.
void PsNode::look_at_memory() {
  const uint64_t held_bytes = core_->partitions().memory_bytes();
  if (std::exchange(measured_bytes_, held_bytes) == held_bytes) return;
  const uint64_t free_bytes = options_.process.memory();
  if (free_bytes == 0) return;  // not known
  core_->on_free_memory(free_bytes /
                        std::max(cores_beside(core_->view(), handshake_->endpoint()), 1U));
}

bool PsNode::pump(int64_t now_ns) {
  if (!flush(now_ns)) return false;
  if (!core_) {
    if (leave_signal_ != 0) {  // this ps holds nothing yet
      return exit(options_.local ? 128 + leave_signal_ : 0, "stopped by a signal"), false;
    }
    handshake_->on_tick(now_ns, nullptr, effects_);
    run(effects_);
    return false;
  }
  if (leave_signal_ != 0 && !leave_sent_) {
    leave_sent_ = true;
    core_->leave(leave_signal_, effects_);
    run(effects_);
  }
  bool busy = images_.poll();
  while (auto event = images_.next()) deliver(std::move(*event));
  const auto takes = [this](PeerKey worker) { return !outbox_.waits(peer_of(worker)); };
  while (core_->answer_pull(now_ns, takes, effects_)) run(effects_);
  if (core_->saves() && now_ns >= save_pace_.due_ns()) {
    copy_on(now_ns);
    busy = true;
  }
  if (now_ns >= tick_at_ns_) {
    tick_at_ns_ = now_ns + kTickNs;
    handshake_->on_tick(now_ns, core_.get(), effects_);
    look_at_memory();
    core_->on_tick(now_ns, effects_);
    run(effects_);
  }
  return busy;
}

/// Copies the next partitions of the checkpoint in progress.
void PsNode::copy_on(int64_t now_ns) {
  core_->continue_save(effects_);
  uint64_t bytes = 0;
  for (const Store& store : effects_.stores) bytes += checkpoint::bulk_bytes(store.image);
  const uint32_t cores = cores_beside(core_->view(), handshake_->endpoint());
  save_pace_.copied(now_ns, bytes, SavePace::bytes_per_s(options_.process.cpus, cores));
  run(effects_);
}

int64_t PsNode::next_deadline_ns() const {
  if (!core_) return handshake_->next_deadline_ns();
  return core_->saves() ? std::min(tick_at_ns_, save_pace_.due_ns()) : tick_at_ns_;
}

}  // namespace downpour::ps
