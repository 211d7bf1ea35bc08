#include "tools/sim/process.h"

#include <algorithm>

#include "shared/wire/peer_identity.h"

namespace downpour::sim {
namespace {

constexpr int kTerminate = 15;
constexpr int64_t kMessageNs = 3 * kMicrosecond;  // duration of one message in the event loop

ProcessInfo process_info(ProcessNumber number) {
  return {.host = "sim",
          .pid = number,
          .cpus = 2,
          .usage = [] { return ProcessUsage{}; },
          .memory = [] { return kGiB; },
          .address_space_limited = false};
}

template <typename Options>
void identify(Options& options, Incarnation incarnation, ProcessNumber number) {
  options.incarnation = incarnation;
  options.process = process_info(number);
}

}  // namespace

Process::Process(Machinery& machinery, ProcessNumber number, wire::Role role, uint32_t index,
                 Incarnation incarnation, Storage* storage)
    : machinery_(machinery),
      number_(number),
      role_(role),
      index_(index),
      incarnation_(incarnation),
      name_(role == wire::Role::kChief ? str("chief#", number)
                                       : str(wire::role_text(role), " ", index, "#", number)),
      real_storage_(storage),
      sim_storage_(machinery.disk, str(number),
                   str(wire::role_text(role), index, number % 2 == 0 ? "" : "b")),
      clock_(machinery.scheduler),
      self_(std::make_shared<Process*>(this)),
      transport_(machinery.network.make_transport(number, [this] { wake(); })),
      reactor_(*transport_, clock_) {
  clock_.offset_ns =
      kSecond * (1 + int64_t(raw(incarnation) % 1000));  // clocks of processes are unrelated
}

Process::~Process() { *self_ = nullptr; }

template <typename Node>
Result<void> Process::begin(Node& node) {
  reactor_.add(node);
  auto started = node.start(clock_.now_ns());
  busy_until_ns_ = machinery_.scheduler.now_ns() + sim_storage_.take_cost_ns();
  wake();
  return started;
}

Result<void> Process::start_chief(chief::ChiefConfig config, std::vector<TableSpec> tables,
                                  chief::ChiefOptions options, chief::Console* console) {
  chief_ = std::make_unique<chief::ChiefNode>(
      *transport_, storage(), std::move(config), std::move(tables), std::move(options), console,
      make_sim_background(machinery_.scheduler, sim_storage_, [this] { wake(); }));
  return begin(*chief_);
}

Result<void> Process::start_ps(ps::PsOptions options, uint32_t cores) {
  identify(options, incarnation_, number_);
  options.touch_pages = false;
  options.cores = cores;
  const std::string endpoint = options.endpoint;
  Result<void> started;
  for (uint32_t core = 0; core < cores && started; ++core) {
    options.thread = core;
    // Each core gets its own host name, because an endpoint must end with a port number.
    if (core > 0) options.endpoint = str("tcp://core-", core, '-', endpoint.substr(6));
    ps_.push_back(std::make_unique<ps::PsNode>(
        *transport_, storage(), options,
        make_sim_background(machinery_.scheduler, sim_storage_, [this] { wake(); })));
    started = begin(*ps_.back());
  }
  return started;
}

Result<void> Process::start_worker(worker::WorkerOptions options) {
  identify(options, incarnation_, number_);
  worker_ = std::make_unique<worker::WorkerNode>(*transport_, std::move(options),
                                                 make_sim_engines(engine_host()));
  return begin(*worker_);
}

Result<void> Process::start_input(worker::InputOptions options) {
  identify(options, incarnation_, number_);
  input_ = std::make_unique<worker::InputNode>(*transport_, std::move(options),
                                               make_sim_input_engines(engine_host()));
  return begin(*input_);
}

EngineHost Process::engine_host() {
  return {.scheduler = machinery_.scheduler,
          .speed = speed,
          .clock = clock_,
          .make_transport =
              [this](std::function<void()> wake) {
                return machinery_.network.make_transport(number_, std::move(wake));
              },
          .stands_still = [this] { return paused_ || muted_; }};
}

void Process::mute() {
  muted_ = true;
  machinery_.network.mute(number_);
}

void Process::leave() {
  for (const auto& core : ps_) core->leave(kTerminate);
  if (worker_) worker_->leave(kTerminate);
  if (input_) input_->leave(kTerminate);
  wake();
}

void Process::resume() {
  paused_ = false;
  wake();
}

void Process::wake() {
  if (in_turn_) {
    woken_ = true;
    return;
  }
  schedule(machinery_.scheduler.now_ns());
}

void Process::schedule(int64_t at_ns) {
  at_ns = std::max({at_ns, busy_until_ns_, machinery_.scheduler.now_ns()});
  if (finished_ || paused_ || muted_ || at_ns >= next_turn_ns_) return;
  next_turn_ns_ = at_ns;
  machinery_.scheduler.at(at_ns, [self = self_, at_ns] {
    if (*self != nullptr && (*self)->next_turn_ns_ == at_ns) (*self)->turn();
  });
}

void Process::turn() {
  next_turn_ns_ = INT64_MAX;
  if (finished_ || paused_ || muted_) return;
  in_turn_ = true;
  woken_ = false;
  transport_->waited(machinery_.scheduler.now_ns() - busy_until_ns_);
  const uint64_t received = transport_->stats().received_messages;
  const bool more = reactor_.turn();
  const uint64_t delivered = transport_->stats().received_messages - received;
  in_turn_ = false;
  const int64_t now = machinery_.scheduler.now_ns();
  busy_until_ns_ = now + sim_storage_.take_cost_ns() +
                   int64_t(delivered) * kMessageNs * (ps_.empty() ? 1 : speed.slow);
  if (on_turn) on_turn(*this);
  if (!more) {
    finished_ = true;  // messages that it has sent still leave, because it is destroyed later
    if (on_finished) on_finished(*this);
    return;
  }
  const bool again = delivered > 0 || woken_ || transport_->has_mail();
  schedule(again ? now : now + std::max<int64_t>(transport_->timeout_ns(), kMicrosecond));
}

int32_t Process::exit_code() const {
  if (chief_) return chief_->finished() ? chief_->finish().code : 0;
  for (const auto& core : ps_) {
    if (core->exit_code() != 0) return core->exit_code();
  }
  if (input_) return input_->exit_code();
  return worker_ ? worker_->exit_code() : 0;
}

const std::string& Process::exit_reason() const {
  static const std::string none;
  for (const auto& core : ps_) {
    if (!core->exit_reason().empty()) return core->exit_reason();
  }
  if (input_) return input_->exit_reason();
  return worker_ ? worker_->exit_reason() : none;
}

}  // namespace downpour::sim
