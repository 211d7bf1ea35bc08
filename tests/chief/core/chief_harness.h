// Support for tests of the chief's core: a small job, messages of ps cores and workers, and effects
// as text.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "chief/core/run/chief_core.h"

namespace downpour::chief {

constexpr uint64_t kTestRun = 77;

/// Returns a job with `shards` shards of 100 bytes, 4 partitions, one output and one epoch.
inline ChiefConfig small_config(uint32_t shards, uint32_t ps = 1) {
  ChiefConfig config;
  config.run = kTestRun;
  config.build = "1.0";
  config.job_text = "name = \"test\"\n";
  config.plan_hash = 5;
  config.partition_bits = 2;
  config.job.partitions = 4;
  config.job.train.epochs = 1;
  config.job.model.outputs.resize(1);
  config.train_files = {{.path = "/data/train.csv", .bytes = 100 * shards, .fingerprint = 1}};
  config.shard_bytes = 100;
  config.ps_cores_expected = ps;
  config.checkpoint_root = "/run/checkpoints";
  return config;
}

inline PeerKey ps_peer(uint32_t i) { return PeerKey(100 + i); }
inline PeerKey worker_peer(uint32_t i) { return PeerKey(200 + i); }
inline PeerKey input_peer(uint32_t i) { return PeerKey(300 + i); }
inline Incarnation ps_incarnation(uint32_t i) { return Incarnation(1000 + i); }
inline Incarnation worker_incarnation(uint32_t i) { return Incarnation(2000 + i); }
inline Incarnation input_incarnation(uint32_t i) { return Incarnation(3000 + i); }

inline wire::Message message_of(wire::Body body, uint64_t request = 0, ViewId view = {}) {
  wire::Message message;
  message.envelope = {.run = kTestRun, .view = view, .request = RequestId(request)};
  message.body = std::move(body);
  return message;
}
inline wire::Hello hello_of(wire::Role role, uint32_t i, Incarnation incarnation) {
  return {.role = role,
          .index = i,
          .thread = 0,
          .incarnation = incarnation,
          .build = "1.0",
          .host = "h",
          .pid = 10 * uint32_t(raw(role)) + i,
          .threads = role == wire::Role::kPs ? 0U : 1U,
          .endpoint = {}};
}
inline wire::Hello ps_hello(uint32_t i) {
  wire::Hello hello = hello_of(wire::Role::kPs, i, ps_incarnation(i));
  hello.endpoint = str("inproc://ps", i);
  return hello;
}
inline wire::Hello worker_hello(uint32_t i) {
  return hello_of(wire::Role::kWorker, i, worker_incarnation(i));
}

/// Brings the core of `desk` to training, with one ps and one worker. Its say(peer, body) gives the
/// core a message.
template <typename Desk>
void begin_training(Desk& desk) {
  desk.core.on_start(desk.now, desk.effects);
  desk.say(ps_peer(0), ps_hello(0));
  desk.say(ps_peer(0), wire::Adopted{.ownership_generation = {1, 1}});
  desk.say(worker_peer(0), worker_hello(0));
}
inline wire::Hello input_hello(uint32_t i) {
  wire::Hello hello = hello_of(wire::Role::kInput, i, input_incarnation(i));
  hello.endpoint = str("inproc://input", i);
  return hello;
}

/// An action of a simulation at a virtual time. A priority queue returns the earliest one first;
/// `order` decides between equal times.
struct TimedEvent {
  int64_t at;
  uint64_t order;
  std::function<void()> act;
  bool operator<(const TimedEvent& o) const {
    return std::pair(at, order) > std::pair(o.at, o.order);
  }
};

/// Returns all messages of one kind among the effects, with their receivers.
template <typename Body>
std::vector<std::pair<PeerKey, Body>> sent(const Effects& effects) {
  std::vector<std::pair<PeerKey, Body>> found;
  for (const Effect& effect : effects) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    if (const auto* body = std::get_if<Body>(&send->message.body))
      found.emplace_back(send->peer, *body);
  }
  return found;
}
/// Returns all effects of one kind.
template <typename Kind>
std::vector<Kind> all_of(const Effects& effects) {
  std::vector<Kind> found;
  for (const Effect& effect : effects) {
    if (const auto* e = std::get_if<Kind>(&effect)) found.push_back(*e);
  }
  return found;
}

/// Prints every effect as one line, as scenarios contain them. Progress is omitted, and event lines
/// are printed only with `with_events`.
std::string to_text(const Effects& effects, bool with_events = false);

}  // namespace downpour::chief
