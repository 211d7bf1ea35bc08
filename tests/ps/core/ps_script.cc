#include "tests/ps/core/ps_script.h"

#include <utility>

#include <catch2/catch.hpp>

#include "shared/base/hash.h"
#include "tests/ps/core/ps_script_text.h"
#include "tests/support/travel.h"

namespace downpour::ps {
namespace {

constexpr uint64_t kRun = 7;
constexpr uint32_t kNewcomer = 100;

/// Returns the nth smallest key of a table that lies in a partition.
uint64_t key_in(TableId table, PartitionId p, uint32_t nth, uint32_t bits) {
  for (uint64_t key = 0;; ++key) {
    if (partition_of(row_hash(table, key), bits) == p && nth-- == 0) return key;
  }
}

std::string key_name(TableId table, uint64_t key, uint32_t bits) {
  const PartitionId p = partition_of(row_hash(table, key), bits);
  uint32_t nth = 0;
  for (uint64_t k = 0; k < key; ++k) nth += partition_of(row_hash(table, k), bits) == p ? 1 : 0;
  return str('p', p, '.', nth);
}

}  // namespace

std::string Command::option(const std::string& name, const std::string& otherwise) const {
  const auto it = options.find(name);
  return it == options.end() ? otherwise : it->second;
}
uint64_t Command::number(const std::string& name, uint64_t otherwise) const {
  const auto it = options.find(name);
  return it == options.end() ? otherwise : std::stoull(it->second);
}

Command parse_command(const std::string& line) {
  Command command;
  for (const std::string& word : split(line, ' ')) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      command.words.push_back(word);
    } else {
      command.options[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return command;
}

std::string PsScript::run(const std::string& line) {
  const Command command = parse_command(line);
  const std::string& verb = command.words.at(0);
  const auto word = [&](size_t i) { return command.words.at(i); };
  if (verb == "ps") {
    start(command);
  } else if (verb == "adopt") {
    adopt(command);
  } else if (verb == "view") {
    view(command);
  } else if (verb == "pull") {
    pull(command);
  } else if (verb == "push" || verb == "end") {
    push(command, verb == "end");
  } else if (verb == "status") {
    message(kChiefPeer, command,
            wire::StatusRequest{.round = command.number("round"),
                                .epoch = uint32_t(command.number("epoch")),
                                .shards = uint32_t(command.number("shards")),
                                .markers = parse_markers(command.option("lines")),
                                .markers_known = command.number("known", 1) != 0});
  } else if (verb == "save") {
    wire::Save save{.checkpoint = parse_view(word(1)), .folder = word(2)};
    if (const auto part = split(command.option("part"), ':'); part.size() == 2) {
      save.partial_epoch = uint32_t(std::stoul(part[0]));
      save.partial_shards = uint32_t(std::stoul(part[1]));
    }
    message(kChiefPeer, command, std::move(save));
  } else if (verb == "copy") {
    core_->continue_save(effects_);
  } else if (verb == "stored") {
    stored(command);
  } else if (verb == "loaded") {
    loaded(command);
  } else if (verb == "freeze") {
    message(kChiefPeer, command,
            wire::Freeze{.ownership_generation = parse_view(word(1)),
                         .partitions = parse_partitions(word(2)),
                         .folder = "moves"});
  } else if (verb == "exported") {
    exported(command);
  } else if (verb == "sealed") {
    message(kChiefPeer, command, wire::Sealed{.epochs = uint32_t(std::stoul(word(1)))});
  } else if (verb == "stop") {
    message(kChiefPeer, command,
            wire::Stop{.code = int32_t(std::stol(word(1))), .reason = word(2)});
  } else if (verb == "leave") {
    core_->leave(int(command.number("signal")), effects_);
  } else if (verb == "tick") {
    now_ns_ += int64_t(std::stoll(word(1))) * kMillisecond;
    core_->on_tick(now_ns_, effects_);
  } else if (verb == "values") {
    return values();
  } else {
    FAIL("no such command: " << line);
  }
  while (copies_at_once_ && core_->saves()) core_->continue_save(effects_);
  return print_effects();
}

void PsScript::start(const Command& command) {
  const OptimizerSpec sgd{.type = OptimizerType::kSgd, .learning_rate = 1.0F};
  config_ = {};
  config_.run = kRun;
  config_.incarnation = Incarnation{command.number("incarnation", 1)};
  config_.partition_bits = uint32_t(command.number("bits", 2));
  config_.tables = {
      {.name = "linear", .table_variables = {{.name = "w", .dim = 1, .optimizer = sgd}}},
      {.name = "bias",
       .kind = TableKind::kDense,
       .table_variables = {{.name = "b", .shape = {2}, .optimizer = sgd}}}};
  config_.chief_silence_ns_max = int64_t(command.number("silence_s")) * kSecond;
  config_.limits.handles_per_worker_max = uint32_t(command.number("handles", 64));
  copies_at_once_ = !command.options.contains("copy_bytes");
  PsLimits& limits = config_.limits;
  limits.save_copy_bytes = command.number("copy_bytes", limits.save_copy_bytes);
  limits.save_bytes_max = command.number("unwritten_bytes", limits.save_bytes_max);
  core_ = std::make_unique<PsCore>(config_);
}

void PsScript::message(PeerKey from, const Command& command, wire::Body body, Bytes keys,
                       Bytes values) {
  wire::Message m;
  m.envelope.run = command.number("run", kRun);
  m.envelope.view = parse_view(command.option("view", "1.0"));
  m.envelope.request = RequestId{command.number("req")};
  m.body = std::move(body);
  m.keys = std::move(keys);
  m.values = std::move(values);
  auto arrived = testing::travel(m);
  if (arrived) return core_->on_message(now_ns_, from, *arrived, effects_);
  malformed_ = arrived.error().what;
}

void PsScript::adopt(const Command& command) {
  wire::Adopt adopt{.ownership_generation = parse_view(command.words.at(1)),
                    .sealed_epochs = uint32_t(command.number("sealed")),
                    .partitions = parse_partitions(command.words.at(2)),
                    .folder = command.option("folder"),
                    .images = {},
                    .markers = parse_markers(command.option("lines")),
                    .markers_known = command.number("known", 1) != 0};
  if (!adopt.folder.empty()) {
    for (const PartitionId p : parse_partitions(command.option("images", command.words.at(2)))) {
      adopt.images.push_back({.partition = p, .file = "a"});
    }
  }
  message(kChiefPeer, command, std::move(adopt));
}

void PsScript::view(const Command& command) {
  wire::View view{.id = parse_view(command.words.at(1))};
  view.partitions.resize(size_t{1} << config_.partition_bits);
  view.owners = {{.incarnation = config_.incarnation, .endpoint = "inproc://me"},
                 {.incarnation = Incarnation{kNewcomer}, .endpoint = "inproc://other"}};
  for (const char* owner : {"me", "other"}) {
    for (const std::string& placed : split(command.option(owner), ';')) {
      const auto at = split(placed, '@');
      for (const PartitionId p : parse_partitions(at.at(0))) {
        view.partitions[raw(p)] = {.owner = owner[0] == 'm' ? 0U : 1U,
                                   .ownership_generation = parse_view(at.at(1))};
      }
    }
  }
  message(kChiefPeer, command, std::move(view));
}

Bytes PsScript::keys_of(const std::string& text, std::vector<wire::Section>& sections) const {
  std::vector<uint64_t> keys;
  for (const std::string& section : split(text, ';')) {
    const auto parts = split(section, ':');
    const TableId table{uint32_t(std::stoul(parts.at(0)))};
    const auto names = split(parts.at(1), ',');
    sections.push_back({table, uint32_t(names.size())});
    for (const std::string& name : names) {
      if (name[0] != 'p') {
        keys.push_back(std::stoull(name));
        continue;
      }
      const auto place = split(name.substr(1), '.');
      keys.push_back(key_in(table, PartitionId(uint32_t(std::stoul(place.at(0)))),
                            uint32_t(std::stoul(place.at(1))), config_.partition_bits));
    }
  }
  return keys.empty() ? Bytes() : Bytes::of(std::move(keys));
}

void PsScript::pull(const Command& command) {
  const std::string& how = command.words.back();
  wire::Pull pull{.worker = Incarnation{std::stoull(command.words.at(1).substr(1))},
                  .purpose = how == "eval" ? wire::Purpose::kEval : wire::Purpose::kTrain,
                  .keep_handle = how == "handle"};
  Bytes keys = keys_of(command.option("keys"), pull.sections);
  message(raw(pull.worker), command, std::move(pull), std::move(keys));
}

void PsScript::push(const Command& command, bool end) {
  wire::Push push{.worker = Incarnation{std::stoull(command.words.at(1).substr(1))},
                  .batch = parse_batch(command.words.at(2)),
                  .records = uint32_t(command.number("records")),
                  .records_hash = command.number("hash"),
                  .end = end,
                  .covered = parse_set(command.option("covered")),
                  .handle = RequestId{command.number("handle")}};
  push.quarantined = command.words.back() == "givenup";
  push.batches_quarantined = uint32_t(command.number("without"));
  if (end) {
    push.counts = {.batches = push.batch.batch,
                   .read = command.number("read", command.number("applied")),
                   .applied = command.number("applied")};
  }
  if (command.options.contains("fragment")) {
    const auto parts = split(command.option("fragment"), '/');
    push.fragment = uint32_t(std::stoul(parts.at(0)));
    push.fragments = uint32_t(std::stoul(parts.at(1)));
  }
  if (command.options.contains("loss")) {
    push.metrics = {{.weight = double(push.records), .loss = double(command.number("loss"))}};
  }
  if (command.options.contains("pulled")) {
    push.pulled_versions = parse_numbers<uint64_t>(command.option("pulled"));
  }
  Bytes keys = keys_of(command.option("keys"), push.sections);
  if (raw(push.handle) != 0) keys = {};  // the script names the keys only for its reader
  Bytes gradients = Bytes::of(parse_numbers<float>(command.option("gradients")));
  message(raw(push.worker), command, std::move(push), std::move(keys), std::move(gradients));
}

void PsScript::loaded(const Command& command) {
  REQUIRE(!loads_.empty());
  const Load load = loads_.front();
  loads_.erase(loads_.begin());
  if (command.words.size() > 1) {
    core_->on_loaded(load.id, Error{ErrorCode::kIo, command.words[1]}, effects_);
    return;
  }
  std::vector<checkpoint::PartitionImage> images;
  for (const wire::ImageRef& wanted : load.images) {
    for (const checkpoint::PartitionImage& image : folders_.at(load.folder)) {
      if (image.partition == wanted.partition) images.push_back(image);
    }
  }
  core_->on_loaded(load.id, std::move(images), effects_);
}

void PsScript::stored(const Command& command) {
  REQUIRE(!stores_.empty());
  const ViewId checkpoint = stores_.front().checkpoint;
  bool last = false;
  while (!stores_.empty() && stores_.front().checkpoint == checkpoint) {
    Store store = std::move(stores_.front());
    stores_.erase(stores_.begin());
    last = store.last;
    checkpoint::RowSorter().sort(store.image);
    refs_[checkpoint].push_back({.partition = store.image.partition, .file = "a"});
    folders_[store.folder].push_back(store.image);
    core_->on_image_written(checkpoint, std::move(store.image));
  }
  if (command.words.size() > 1) {
    core_->on_stored(checkpoint, Error{ErrorCode::kIo, command.words[1]}, effects_);
    refs_.erase(checkpoint);
  } else if (last) {
    core_->on_stored(checkpoint, std::move(refs_[checkpoint]), effects_);
  }
}

void PsScript::exported(const Command& command) {
  REQUIRE(!exports_.empty());
  const Export move = exports_.front();
  exports_.erase(exports_.begin());
  if (command.words.size() > 1) {
    core_->on_exported(move.ownership_generation, Error{ErrorCode::kIo, command.words[1]}, {},
                       effects_);
    return;
  }
  std::vector<wire::ImageRef> refs;
  for (const checkpoint::PartitionImage& image : move.images) {
    refs.push_back({.partition = image.partition, .file = "m"});
  }
  folders_[move.folder] = move.images;
  core_->on_exported(move.ownership_generation, std::move(refs), {}, effects_);
}

std::string PsScript::values() const {
  std::string text;
  for_each(core_->partitions().owned(), [&](PartitionId p) {
    const checkpoint::PartitionImage image = core_->partitions().export_image(p);
    text += str("  ", p, ": version=", image.version);
    for (const checkpoint::ShardImage& shard : image.shards) {
      text += str(" shard ", shard.shard, '@', shard.watermark, "(records=", shard.records,
                  ",hash=", shard.records_hash, ')');
    }
    for (const wire::QuarantineMarker& line : image.markers) text += print_marker(line);
    for (const checkpoint::EpochImage& epoch : image.epochs) {
      text += str(" epoch ", epoch.epoch, " ended=", epoch.shards_ended);
    }
    for (const checkpoint::TableImage& table : image.tables) {
      if (raw(table.table) == 1) text += str(" bias=", join(table.table_variables[0]));
      for (size_t i = 0; raw(table.table) == 0 && i < table.keys.size(); ++i) {
        text += str(' ', key_name(table.table, table.keys[i], config_.partition_bits), '=',
                    table.table_variables[0][i]);
      }
    }
    text += "\n";
  });
  return text.empty() ? "  nothing owned\n" : text;
}

std::string PsScript::print_effects() {
  std::string text;
  if (!malformed_.empty()) text += "  does not arrive: " + std::exchange(malformed_, "") + "\n";
  for (const Send& send : effects_.sends) {
    const bool stranger = send.message.envelope.run == 0;  // it learns nothing about the run
    if (stranger) text += "  without the run:";
    CHECK(send.message.envelope.run == (stranger ? 0 : kRun));
    CHECK(send.message.envelope.view == (stranger ? ViewId{} : core_->view().id));
    text += send.to == kChiefPeer ? "  to chief" : str("  to w", send.to);
    text += str(" [", send.message.envelope.request, "] ", print(send), "\n");
    if (const std::string fault = testing::travel_fault(send.message); !fault.empty())
      text += str("    CANNOT TRAVEL: ", fault, "\n");
  }
  if (!effects_.stores.empty()) {
    std::vector<PartitionId> parts;
    for (const Store& store : effects_.stores) parts.push_back(store.image.partition);
    const Store& newest = effects_.stores.back();
    text += str("  store ", newest.checkpoint, " in ", newest.folder, ": ", join(parts),
                newest.last ? "" : " and more", "\n");
    for (Store& store : effects_.stores) stores_.push_back(std::move(store));
  }
  for (const Load& load : effects_.loads) {
    std::vector<PartitionId> parts;
    for (const wire::ImageRef& image : load.images) parts.push_back(image.partition);
    text += str("  load #", load.id, " from ", load.folder, ": ", join(parts), "\n");
    loads_.push_back(load);
  }
  for (const Export& move : effects_.exports) {
    std::vector<PartitionId> parts;
    for (const checkpoint::PartitionImage& image : move.images) parts.push_back(image.partition);
    text +=
        str("  export ", move.ownership_generation, " to ", move.folder, ": ", join(parts), "\n");
    exports_.push_back(move);
  }
  for (const Discard& discard : effects_.discards)
    text += str("  discard ", discard.ownership_generation, "\n");
  if (effects_.exit) text += str("  exit ", effects_.exit->code, ": ", effects_.exit->reason, "\n");
  effects_.clear();
  return text;
}

std::string PsScript::print(const Send& send) const {
  const wire::Body& body = send.message.body;
  if (const auto* pull = std::get_if<wire::PullReply>(&body))
    return print_pull(*pull, send.message.values);
  if (const auto* push = std::get_if<wire::PushReply>(&body)) return print_push(*push);
  if (const auto* status = std::get_if<wire::StatusReply>(&body)) return print_status(*status);
  if (const auto* reject = std::get_if<wire::Reject>(&body)) return "reject: " + reject->what;
  if (const auto* adopted = std::get_if<wire::Adopted>(&body)) {
    return str("adopted ", adopted->ownership_generation, adopted->ok ? "" : ": " + adopted->error);
  }
  if (const auto* frozen = std::get_if<wire::Frozen>(&body)) {
    std::vector<PartitionId> parts;
    for (const wire::ImageRef& image : frozen->images) parts.push_back(image.partition);
    return str("frozen ", frozen->ownership_generation, ": ",
               frozen->ok ? join(parts) : frozen->error);
  }
  if (const auto* saved = std::get_if<wire::Saved>(&body)) {
    std::vector<PartitionId> parts;
    for (const wire::ImageRef& image : saved->images) parts.push_back(image.partition);
    return str("saved ", saved->checkpoint,
               saved->ok ? ": " + join(parts) : " failed: " + saved->error, " rows=", saved->rows,
               saved->beyond_partial_epoch ? " beyond the part" : "");
  }
  if (const auto* leave = std::get_if<wire::Leave>(&body))
    return str("leave signal=", leave->signal);
  const wire::Heartbeat* beat = std::get_if<wire::Heartbeat>(&body);
  const wire::Goodbye* goodbye = std::get_if<wire::Goodbye>(&body);
  if (goodbye != nullptr) beat = &goodbye->last;
  REQUIRE(beat != nullptr);
  std::string text = str(goodbye != nullptr ? "goodbye" : "heartbeat", " rows=", beat->rows,
                         " duplicate_parts=", beat->duplicate_parts, " gaps=", beat->gaps,
                         " pulled_bytes=", beat->pulled_bytes, " staleness=");
  for (size_t i = 0; i < beat->staleness.size(); ++i) {
    if (beat->staleness[i] != 0) text += str('{', i, ':', beat->staleness[i], '}');
  }
  return text;
}

}  // namespace downpour::ps
