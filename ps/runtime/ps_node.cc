#include "ps/runtime/ps_node.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <span>
#include <utility>

#include "shared/base/version.h"
#include "shared/checkpoint/image_layout.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/partition_writer.h"
#include "shared/checkpoint/paths.h"
#include "shared/checkpoint/run_file.h"
#include "shared/job/job_file.h"
#include "shared/model/graph.h"
#include "shared/transport/endpoint.h"

namespace downpour::ps {
namespace {

constexpr int64_t kTickNs = 100 * kMillisecond;
constexpr int64_t kHelloEveryNs = 500 * kMillisecond;
// Partitions in memory in addition to those that the core has adopted.
constexpr uint32_t kReadAheadMax = 4;

// PeerKey 0 is the chief. Transports number peers from 0, so keys are shifted by 1.
PeerKey key_of(transport::PeerId peer) { return raw(peer) + 1; }
transport::PeerId peer_of(PeerKey key) { return transport::PeerId{key - 1}; }

PlanExtent extent_of(const Job& job, const wire::Welcome& welcome) {
  return {.epochs = job.train.epochs,
          .shards = welcome.train_shards > 0 ? welcome.train_shards : UINT32_MAX};
}

}  // namespace

PsNode::PsNode(transport::Transport& transport, Storage& storage, PsOptions options,
               std::unique_ptr<Background> background)
    : transport_(transport),
      outbox_(transport),
      storage_(storage),
      options_(std::move(options)),
      incarnation_(options_.incarnation),
      background_(background != nullptr
                      ? std::move(background)
                      : std::make_unique<BackgroundThread>([this] { transport_.wake(); })) {
  DP_CHECK(incarnation_ != Incarnation{});
}

Result<void> PsNode::start(int64_t now_ns) {
  DP_TRY(data_, transport_.bind(options_.endpoint));
  DP_TRY(advertised_,
         transport::advertised_endpoint(transport_.endpoint(data_), options_.advertise_host));
  DP_TRY(chief_, transport_.connect(options_.chief));
  control_ = transport_.port_of(chief_);
  started_ns_ = now_ns;
  hello(now_ns);
  return {};
}

void PsNode::hello(int64_t now_ns) {
  awaits_welcome_ = true;
  hello_at_ns_ = now_ns + kHelloEveryNs;
  wire::Message message;
  message.envelope.request = RequestId{++last_hello_};
  if (core_) {
    message.envelope.run = run_;
    message.envelope.view = core_->view().id;
  }
  message.body =
      wire::Hello{.role = wire::Role::kPs,
                  .index = core_ ? index_ : options_.index,
                  .thread = options_.thread,
                  .incarnation = incarnation_,
                  .build = kBuildVersion,
                  .host = options_.process.host,
                  .pid = options_.process.pid,
                  .threads = 1,
                  .endpoint = advertised_,
                  .claims = core_ ? core_->claims() : std::vector<wire::PartitionClaim>(),
                  .plan_hash = core_ ? core_->partitions().plan_hash() : 0,
                  .holds_unsealed = core_ && core_->partitions().hold_unsealed()};
  outbox_.send(chief_, std::move(message));
}

void PsNode::exit(int32_t code, std::string reason) {
  finished_ = true;
  exit_code_ = code;
  exit_reason_ = std::move(reason);
}

void PsNode::on_welcome(int64_t now_ns, const wire::Message& message) {
  const auto& welcome = std::get<wire::Welcome>(message.body);
  const auto job = job_from_toml(welcome.job, welcome.base_dir);
  if (!job) return exit(downpour::exit_code(job.error().code), job.error().what);
  const auto graph = model::Graph::build(*job);
  if (!graph) return exit(downpour::exit_code(graph.error().code), graph.error().what);
  if (const auto checked = check_run_folder(welcome.run_dir, message.envelope.run); !checked) {
    const Error& error = checked.error();
    return exit(downpour::exit_code(error.code),
                str(error.where, ": ", error.what, " (", error.hint, ")"));
  }
  tables_ = (*graph)->tables();
  index_ = welcome.index;
  run_ = message.envelope.run;
  run_dir_ = welcome.run_dir;
  image_store_ = std::make_unique<ImageStore>(
      storage_, tables_, checkpoint::image_file_name(index_, options_.thread, incarnation_));
  core_ = std::make_unique<PsCore>(
      PsConfig{.index = welcome.index,
               .thread = options_.thread,
               .incarnation = incarnation_,
               .run = message.envelope.run,
               .tables = tables_,
               .seed = job->seed,
               .partition_bits = uint32_t(std::countr_zero(job->partitions)),
               .plan = extent_of(*job, welcome),
               .run_dir = welcome.run_dir,
               .heartbeat_ns = welcome.heartbeat_ns,
               .chief_silence_ns_max = job->cluster.chief_silence_ns,
               .limits = options_.limits,
               .incremental_saves = job->train.checkpoint.incremental,
               .arenas = {.prefault = options_.touch_pages ? &toucher_ : nullptr,
                          .reserves = !options_.process.address_space_limited},
               .table_bytes_max = job->cluster.ps_memory / std::max(options_.cores, 1U)});
  tick_at_ns_ = now_ns;
  awaits_welcome_ = false;
}

/// Checks the run folder that a message names, because this ps writes below it. A message alone
/// cannot turn a folder into a run folder: it must contain a file with the id of the run.
Result<void> PsNode::check_run_folder(const std::string& run_dir, uint64_t run) {
  const char* const hint = "the ps needs the run folder under the same path as the chief";
  if (run_dir.empty() || run_dir[0] != '/')
    return Error{ErrorCode::kConfig, "the chief names no run folder", run_dir, hint, "DP-2722"};
  storage_.guard(run_dir);
  auto file = checkpoint::read_run(storage_, run_dir);
  if (!file) {
    if (file.error().code == ErrorCode::kNoInput) file.error().hint = hint;
    return std::move(file).error();
  }
  if (file->id == run) return {};
  return Error{ErrorCode::kConfig, "the folder holds another run than the chief's", run_dir, hint,
               "DP-2722"};
}

// A restarted chief continues with the partitions of this core, if the job means the same to both.
void PsNode::on_welcome_again(const wire::Welcome& welcome) {
  if (welcome.run_dir != run_dir_) {
    if (const auto checked = check_run_folder(welcome.run_dir, run_); !checked) {
      const Error& error = checked.error();
      return exit(downpour::exit_code(error.code), str(error.where, ": ", error.what));
    }
    run_dir_ = welcome.run_dir;
    core_->set_run_dir(run_dir_);
  }
  index_ = welcome.index;
  awaits_welcome_ = false;
  leave_sent_ = false;  // also report the signal to the new chief
  const auto job = job_from_toml(welcome.job, welcome.base_dir);
  if (job) {
    const auto graph = model::Graph::build(*job);
    if (graph && (*graph)->tables() == tables_) return core_->set_plan(extent_of(*job, welcome));
  }
  exit(downpour::exit_code(ErrorCode::kConfig),
       "the chief came back with another model or optimizer: start this ps again");
}

void PsNode::on_message(int64_t now_ns, transport::PortId port, transport::PeerId peer,
                        wire::Message&& message) {
  if (finished_) return;
  if (port == control_) {
    if (const auto* refused = std::get_if<wire::Refused>(&message.body)) {
      return exit(
          downpour::exit_code(refused->code),
          refused->hint.empty() ? refused->what : str(refused->what, " (", refused->hint, ")"));
    }
    const auto* welcome = std::get_if<wire::Welcome>(&message.body);
    if (!core_ && welcome != nullptr) return on_welcome(now_ns, message);
    if (welcome != nullptr && message.envelope.run == run_) on_welcome_again(*welcome);
  }
  if (!core_ || finished_) return;  // no job yet: the sender repeats the message
  // The chief does not know this connection (any more). Introduce this ps again.
  if (const auto* reject = std::get_if<wire::Reject>(&message.body);
      port == control_ && reject != nullptr) {
    if (reject->code == ErrorCode::kUnavailable && now_ns >= hello_at_ns_) hello(now_ns);
  }
  pushed_bytes_ += message.values.size();
  if (port != control_) save_pace_.served(now_ns);
  core_->on_message(now_ns, port == control_ ? kChiefPeer : key_of(peer), message, effects_,
                    transport_.identity(peer));
  run(effects_);
}

// The transport counts, answers and limits malformed messages.
void PsNode::on_malformed(int64_t, transport::PortId, transport::PeerId, const Error& error) {
  if (options_.notice) options_.notice(str("dropped at ", error.where, ": ", error.what));
}

void PsNode::run(Effects& effects) {
  for (Send& send : effects.sends) {
    pulled_bytes_ += send.message.values.size();
    wire::Heartbeat* heartbeat = std::get_if<wire::Heartbeat>(&send.message.body);
    if (auto* goodbye = std::get_if<wire::Goodbye>(&send.message.body)) heartbeat = &goodbye->last;
    if (heartbeat != nullptr) {
      const ProcessUsage usage = options_.process.usage();
      heartbeat->rss_bytes_max = usage.rss_bytes_max;
      heartbeat->cpu_ns = usage.cpu_ns;
      heartbeat->pulled_bytes = pulled_bytes_;
      heartbeat->pushed_bytes = pushed_bytes_;
      if (heartbeat->load_ns > 0) tell_busy(*heartbeat);
    }
    const transport::PeerId to = send.to == kChiefPeer ? chief_ : peer_of(send.to);
    if (std::holds_alternative<wire::Reject>(send.message.body)) {
      // Any peer can cause a Reject as often as it likes. So it is not queued for a peer that does
      // not receive it.
      (void)transport_.send(to, std::move(send.message));
    } else {
      outbox_.send(to, std::move(send.message));
    }
  }
  for (Store& store : effects.stores) {
    background_->start(
        [this, held = std::make_shared<Store>(std::move(store))]() -> Background::Completion {
          auto stored = image_store_->write(*held);
          return [this, held, stored = std::move(stored)] {
            core_->on_image_written(held->checkpoint, std::move(held->image));
            if (stored) core_->on_stored(held->checkpoint, *stored, effects_);
            run(effects_);
          };
        });
  }
  std::vector<Load> inlined;
  for (Load& load : effects.loads) {
    if (!load.inlined.empty()) {
      inlined.push_back(std::move(load));
      continue;
    }
    readings_.push_back(
        {.id = load.id, .folder = std::move(load.folder), .images = std::move(load.images)});
  }
  read_on();
  for (const Discard& discard : effects.discards) remove_file(discard);
  for (const std::string& notice : effects.notices) {
    if (options_.notice) options_.notice(notice);
  }
  if (effects.exit) exit(effects.exit->code, effects.exit->reason);
  const std::vector<Export> exports = std::exchange(effects.exports, {});
  effects.clear();
  // Work that completes at once returns further effects.
  for (const Load& load : inlined) {
    core_->on_loaded(load.id, read_inlined(load), effects_, /*more=*/false);
    run(effects_);
  }
  for (const Export& move : exports) hand_out(move);
}

// After tables have grown, gives the core its share of the machine's free memory.
void PsNode::look_at_memory() {
  const uint64_t held_bytes = core_->partitions().memory_bytes();
  if (std::exchange(measured_bytes_, held_bytes) == held_bytes) return;
  const uint64_t free_bytes = options_.process.memory();
  if (free_bytes == 0) return;  // not known
  core_->on_free_memory(free_bytes / std::max(cores_beside(core_->view(), advertised_), 1U));
}

// The time in which the node did not wait for messages counts as busy. So a slow machine, or one
// with other work, shows up like one with many requests.
void PsNode::tell_busy(wire::Heartbeat& heartbeat) {
  const int64_t waited_ns = transport_.stats().waited_ns;
  const int64_t rested_ns = waited_ns - std::exchange(waited_ns_, waited_ns);
  heartbeat.busy_ns =
      uint64_t(heartbeat.load_ns - std::clamp<int64_t>(rested_ns, 0, heartbeat.load_ns));
}

// Hands out images that move to another ps. Small images travel with the messages, without a file
// and without waiting for a thread. Larger ones are written without waiting for the disk, because
// the source keeps its copy until the target has read them.
void PsNode::hand_out(const Export& move) {
  uint64_t bytes = 0;
  for (const checkpoint::PartitionImage& image : move.images)
    bytes += checkpoint::bulk_bytes(image);
  if (bytes < options_.inline_bytes_max) {
    checkpoint::EncodedImages encoded = checkpoint::encode_images(move.images, "inline", tables_);
    if (encoded.bytes.size() <= options_.inline_bytes_max) {
      core_->on_exported(move.ownership_generation, std::move(encoded.refs),
                         std::move(encoded.bytes), effects_);
      return run(effects_);
    }
  }
  background_->start([this, move]() -> Background::Completion {
    const auto write = [&]() -> Result<std::vector<wire::ImageRef>> {
      const std::string name = checkpoint::move_file_name(move.ownership_generation, index_,
                                                          options_.thread, incarnation_);
      DP_TRY(auto writer, checkpoint::ImageFileWriter::create(storage_, move.folder, name, tables_,
                                                              checkpoint::ImageUse::kReadAtOnce));
      for (const checkpoint::PartitionImage& image : move.images) DP_TRY_VOID(writer.add(image));
      return writer.finish_volatile();
    };
    return [this, ownership_generation = move.ownership_generation, written = write()] {
      core_->on_exported(ownership_generation, written, {}, effects_);
      run(effects_);
    };
  });
}

void PsNode::remove_file(const Discard& discard) {
  background_->start([this, discard]() -> Background::Completion {
    const std::string name = checkpoint::move_file_name(discard.ownership_generation, index_,
                                                        options_.thread, incarnation_);
    auto removed = storage_.remove(discard.folder + "/" + name);  // if it fails, only room is lost
    (void)removed;
    return [] {};
  });
}

void PsNode::read_on() {
  while (!readings_.empty() && read_ahead_ < kReadAheadMax) {
    Reading& reading = readings_.front();
    const auto left = std::span(reading.images).subspan(reading.next);
    const size_t length = checkpoint::chain_length(left);
    const bool more = length < left.size();
    std::vector<wire::ImageRef> chain(left.begin(), left.begin() + ptrdiff_t(length));
    ++read_ahead_;
    background_->start([this, id = reading.id, more, folder = reading.folder,
                        chain = std::move(chain)]() -> Background::Completion {
      auto images = std::make_shared<Result<std::vector<checkpoint::PartitionImage>>>(
          read_next(folder, chain));
      return [this, id, more, images] {
        --read_ahead_;
        if (!*images) std::erase_if(readings_, [&](const Reading& r) { return r.id == id; });
        core_->on_loaded(id, std::move(*images), effects_, more);
        run(effects_);
      };
    });
    reading.next += length;
    if (!more) readings_.pop_front();
  }
}

Result<std::vector<checkpoint::PartitionImage>> PsNode::read_next(
    const std::string& folder, const std::vector<wire::ImageRef>& chain) const {
  auto image = checkpoint::read_partition(storage_, folder, chain, tables_);
  if (!image) {
    Error error = std::move(image).error();
    if (!error.where.empty()) error.what += str(" (", error.where, ")");
    return error;
  }
  std::vector<checkpoint::PartitionImage> images;
  images.push_back(std::move(*image));
  return images;
}

Result<std::vector<checkpoint::PartitionImage>> PsNode::read_inlined(const Load& load) const {
  std::vector<checkpoint::PartitionImage> images;
  for (const wire::ImageRef& ref : load.images) {
    auto image = checkpoint::image_among(load.inlined.span(), ref, tables_, "moved image");
    if (!image) {
      Error error = std::move(image).error();
      if (!error.where.empty()) error.what += str(" (", error.where, ")");
      return error;
    }
    images.push_back(std::move(*image));
  }
  return images;
}

bool PsNode::pump(int64_t now_ns) {
  if (finished_) {
    outbox_.drain(now_ns);
    return false;
  }
  outbox_.flush();
  if (!core_) {
    if (leave_signal_ != 0) {  // this ps holds nothing yet
      return exit(options_.local ? 128 + leave_signal_ : 0, "stopped by a signal"), false;
    }
    if (now_ns - started_ns_ > options_.connect_timeout_ns) {
      exit(downpour::exit_code(ErrorCode::kUnavailable),
           str("the chief at ", options_.chief, " does not answer"));
    } else if (now_ns >= hello_at_ns_) {
      hello(now_ns);
    }
    return false;
  }
  if (leave_signal_ != 0 && !leave_sent_) {
    leave_sent_ = true;
    core_->leave(leave_signal_, effects_);
    run(effects_);
  }
  bool busy = background_->run_completions();
  if (core_->saves() && now_ns >= save_pace_.due_ns()) {
    copy_on(now_ns);
    busy = true;
  }
  if (now_ns >= tick_at_ns_) {
    tick_at_ns_ = now_ns + kTickNs;
    // A restarted chief may have other epochs or data. If its Welcome is lost, this ps would reject
    // every batch that its old plan does not have.
    if (awaits_welcome_ && now_ns >= hello_at_ns_) hello(now_ns);
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
  const uint32_t cores = cores_beside(core_->view(), advertised_);
  save_pace_.copied(now_ns, bytes, SavePace::bytes_per_s(options_.process.cpus, cores));
  run(effects_);
}

int64_t PsNode::next_deadline_ns() const {
  if (!core_) return hello_at_ns_;
  return core_->saves() ? std::min(tick_at_ns_, save_pace_.due_ns()) : tick_at_ns_;
}

}  // namespace downpour::ps
