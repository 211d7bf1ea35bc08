// Room: a worker that reads a shard through fake input processes, which have neither threads nor
// sockets. Tests make them die, lie or hang.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/wire/batch_codec.h"
#include "tests/shared/wire/random_batch.h"
#include "tests/support/scratch_dir.h"
#include "worker/core/input_shard_reads.h"
#include "worker/runtime/remote_reader.h"
#include "worker/runtime/shard_read.h"

namespace downpour::worker {

constexpr uint64_t kInputRun = 77, kInputPlan = 5;
constexpr uint32_t kRecords = 200, kBatch = 4;

/// An input process without threads or sockets: its core, and readers that finish at once.
struct FakeInput {
  const ReaderOptions& options;
  InputShardReads core{InputConfig{.run = kInputRun, .plan_hash = kInputPlan}};
  std::map<uint64_t, std::pair<wire::ReadShard, std::unique_ptr<data::ShardReader>>> open;
  std::deque<wire::Message> out;
  uint32_t batches = 0;  // sent

  explicit FakeInput(const ReaderOptions& readers) : options(readers) {}

  void on_message(int64_t now_ns, const wire::Message& message) {
    InputEffects fx;
    if (const auto* request = std::get_if<wire::ReadShard>(&message.body))
      core.on_read_shard(now_ns, InputPeer{1}, *request, fx);
    if (const auto* more = std::get_if<wire::ReadMore>(&message.body))
      core.on_read_more(now_ns, InputPeer{1}, *more, fx);
    run(fx);
  }
  void run(InputEffects& fx) {
    for (InputEffects::Send& send : fx.sends) out.push_back(std::move(send.message));
    for (const InputEffects::Read& read : fx.reads) {
      InputEffects more;
      core.on_item(this->read(read), more);
      run(more);
    }
  }
  InputItem read(const InputEffects::Read& read) {
    if (read.open) open[read.id] = {*read.open, nullptr};
    auto& [request, reader] = open[read.id];
    InputItem item{.id = read.id};
    const auto say = [&](wire::Body body) { item.messages.push_back({.body = std::move(body)}); };
    if (reader == nullptr)
      reader = open_leased(find_leased(options, request.lease).value(), request.lease,
                           request.first_batch)
                   .value();
    Batch batch;
    const Result<bool> next = reader->next(batch);
    item.last = !next || !*next;
    if (!next) {
      say(wire::ReadFailed{.shard_read = request.shard_read,
                           .code = next.error().code,
                           .what = next.error().what,
                           .where = next.error().where,
                           .of_record = reader->failed_batch().has_value(),
                           .batch = reader->failed_batch().value_or(0)});
    } else if (!*next) {
      say(wire::ReadEnd{.shard_read = request.shard_read,
                        .counts = counts_of(reader->totals()),
                        .records_hash = reader->totals().records_hash});
    } else {
      ++batches;
      say(wire::ReadBatch{.shard_read = request.shard_read, .batch = batch.id.batch});
      item.messages.back().values = wire::encode_batch(batch).value();
      item.bytes = item.messages.back().values.size();
    }
    return item;
  }
};

/// A link to fake input processes. Time passes when no message comes.
struct FakeLink final : InputLink {
  std::map<std::string, std::unique_ptr<FakeInput>> inputs;
  std::function<bool(wire::Message&)> on_way;         // changes an answer; false: it is lost
  std::function<bool(const wire::Message&)> on_sent;  // the same for requests
  int64_t time_ns = 0;
  std::vector<std::string> closed;

  void send(const std::string& endpoint, wire::Message&& message) override {
    const auto at = inputs.find(endpoint);
    if (at == inputs.end() || (on_sent && !on_sent(message))) return;
    at->second->on_message(time_ns, message);
  }
  std::optional<wire::Message> receive(int64_t timeout_ns) override {
    for (auto& [name, input] : inputs) {
      while (!input->out.empty()) {
        wire::Message message = std::move(input->out.front());
        input->out.pop_front();
        if (!on_way || on_way(message)) return message;
      }
    }
    time_ns += timeout_ns;
    return std::nullopt;
  }
  void close(const std::string& endpoint) override { closed.push_back(endpoint); }
  void keep_only(const std::vector<std::string>&) override {}
  int64_t now_ns() const override { return time_ns; }
};

/// A data set of one shard, and a worker that reads it through input processes "a" and "b".
struct Room {
  testing::ScratchDir dir;
  std::shared_ptr<data::ReadPlan> plan;
  ReaderOptions options;
  FakeLink link;
  std::vector<std::string> said;
  std::unique_ptr<InputDirectory> inputs;
  bool stopped = false;

  explicit Room(const std::string& more = {}, InputDirectoryOptions directory = {.wanted = true}) {
    std::string text;
    for (uint32_t i = 0; i < kRecords; ++i) text += str(i, " ", i % 13, ":1 ", 20 + i % 7, ":2\n");
    plan = std::make_shared<data::ReadPlan>();
    plan->data.source.paths = {dir.write("a.svm", text + more)};
    plan->data.format = DataFormat::kLibsvm;
    plan->batch_size = kBatch;
    plan->files = data::list_files(plan->data, plan->data.source, "/").value();
    plan->layout.floats = {{"label", 1}};
    plan->layout.bags = {{"features", 0}};
    plan->layout.tables = {TableId(3)};
    options.train = options.eval = options.predict = plan;
    options.train_shards =
        plan::ShardMap(plan::cut_shards(plan->files, 1 << 20), 1, plan::ShardRecipe{});
    directory.run = kInputRun;
    directory.plan_hash = kInputPlan;
    directory.say = [this](const std::string& line) { said.push_back(line); };
    inputs = std::make_unique<InputDirectory>(directory);
  }
  void start(const std::string& name) {
    link.inputs[name] = std::make_unique<FakeInput>(options);
    listed.push_back({uint32_t(listed.size()), Incarnation(100 + listed.size()), name});
    inputs->update(listed);
  }
  void start(const std::string& first, const std::string& second) {
    start(first);
    start(second);
  }
  /// The chief reports that the input process is gone.
  void kill(const std::string& name) {
    link.inputs.erase(name);
    std::erase_if(listed, [&](const auto& input) { return input.endpoint == name; });
    inputs->update(listed);
  }
  RemoteReader reader(uint32_t first_batch = 0, wire::Lease lease = {},
                      uint32_t batches_max = UINT32_MAX) {
    return {{inputs.get(), &link, [this] { return stopped; }},
            find_leased(options, lease).value(),
            lease,
            first_batch,
            batches_max};
  }
  std::unique_ptr<data::ShardReader> local(uint32_t first_batch = 0, wire::Lease lease = {}) {
    return open_leased(find_leased(options, lease).value(), lease, first_batch).value();
  }
  /// Reads both to their ends and compares them batch by batch. Calls `meanwhile` after each batch.
  void check_same(data::ShardReader& remote, data::ShardReader& here,
                  const std::function<void(uint32_t)>& meanwhile = {}) {
    Batch got, wanted;
    for (uint32_t n = 0;; ++n) {
      const Result<bool> more = remote.next(got);
      if (!more) FAIL(more.error().what);
      REQUIRE(*more == here.next(wanted).value());
      if (!*more) break;
      REQUIRE(wire::same_batch(got, wanted));
      if (meanwhile) meanwhile(n);
    }
    CHECK(remote.totals().records_hash == here.totals().records_hash);
    CHECK(remote.totals().counts == here.totals().counts);
    CHECK(remote.totals().batches == here.totals().batches);
    CHECK(remote.totals().end_offset == here.totals().end_offset);
  }
  /// Returns the input process that the shard was given to.
  std::string chosen() const {
    for (const auto& [name, input] : link.inputs)
      if (input->batches > 0) return name;
    return {};
  }

  std::vector<wire::InputProcess> listed;
};

}  // namespace downpour::worker
