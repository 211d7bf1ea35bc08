// The chief with hostile peers: what they cannot do, and how much they can cost.
#include <catch2/catch.hpp>

#include "shared/wire/codec.h"
#include "tests/chief/core/chief_harness.h"
#include "tests/shared/wire/random_message.h"
#include "tests/support/travel.h"

namespace downpour::chief {
namespace {

/// A core in training, with one ps and one worker. Any peer can send it messages.
struct Attacked {
  ChiefCore core;
  Effects effects;  // of the last event
  uint64_t logged_bytes = 0, logged_lines = 0, notices = 0;
  int64_t now = 0;

  explicit Attacked(ChiefConfig config) : core(std::move(config)) { begin_training(*this); }
  Effects& hear(PeerKey peer, wire::Message message, const wire::PeerIdentity& identity = {}) {
    effects.clear();
    core.on_message(now, peer, std::move(message), effects, identity);
    count();
    return effects;
  }
  Effects& say(PeerKey peer, wire::Body body, uint64_t request = 0) {
    now += kMillisecond;
    return hear(peer, message_of(std::move(body), request, {1, 1}));
  }
  Effects& tick(int64_t passed) {
    now += passed;
    effects.clear();
    core.on_tick(now, effects);
    count();
    return effects;
  }
  void count() {
    for (const AppendEvent& event : all_of<AppendEvent>(effects)) {
      logged_bytes += event.line.size() + 1;
      ++logged_lines;
    }
    notices += all_of<Notice>(effects).size();
  }
};

wire::Hello stranger(uint64_t number, wire::Role role) {
  return {.role = role,
          .index = UINT32_MAX,
          .incarnation = Incarnation(100'000 + number),
          .build = "1.0",
          .host = std::string(255, 'h'),
          .endpoint = std::string(360, 'e')};
}

TEST_CASE("every message of the chief fits a frame, however many processes send Hello",
          "[chief][core][hostile]") {
  Attacked chief(small_config(2));
  uint32_t refused = 0;
  for (uint32_t i = 0; i < 5000; ++i) {
    const Effects& effects = chief.say(PeerKey(10'000 + i), stranger(i, wire::Role::kInput));
    refused += uint32_t(sent<wire::Refused>(effects).size());
    if (i % 500 > 0) continue;
    for (const auto& [peer, list] : sent<wire::InputList>(effects))
      REQUIRE(testing::travel_fault(message_of(list)).empty());
  }
  const auto lists = sent<wire::InputList>(
      chief.say(worker_peer(0), wire::Heartbeat{.incarnation = worker_incarnation(0)}));
  for (const auto& [peer, list] : lists) CHECK(testing::travel_fault(message_of(list)).empty());
  CHECK(refused == 5000 - ChiefConfig{}.inputs_max);
  // The maximum number of owners, each with the longest endpoint, and the maximum number of
  // partitions.
  wire::View view{.id = {1, 1}};
  for (uint32_t i = 0; i < ChiefConfig{}.ps_cores_max; ++i)
    view.owners.push_back({i, 0, Incarnation(1 + i), std::string(360, 'e')});
  view.partitions.resize(4096, {0, {1, 1}});
  CHECK(testing::travel_fault(message_of(view)).empty());
}

TEST_CASE("a Hello beyond the limits is refused", "[chief][core][hostile]") {
  Attacked chief(small_config(2));
  wire::Hello hello = stranger(1, wire::Role::kInput);
  hello.endpoint += 'e';
  CHECK(sent<wire::Refused>(chief.say(PeerKey(9), hello)).size() == 1);
  hello = stranger(1, wire::Role::kPs);
  hello.claims.resize(5);  // there are 4 partitions
  CHECK(sent<wire::Refused>(chief.say(PeerKey(9), hello)).size() == 1);
}

wire::PeerIdentity key_of(wire::Role role, uint32_t i = 0) {
  return {role, str(wire::role_text(role), "-", i), str(wire::role_text(role), " key ", i)};
}

TEST_CASE("a process joins only in the role of its key", "[chief][core][hostile][roles]") {
  Attacked chief(small_config(2));
  const wire::Role roles[] = {wire::Role::kChief, wire::Role::kPs, wire::Role::kWorker,
                              wire::Role::kInput};
  uint32_t number = 0;
  for (const wire::Role listed : roles) {
    for (const wire::Role claimed : roles) {
      CAPTURE(wire::role_text(listed), wire::role_text(claimed));
      const PeerKey peer{5000 + ++number};
      chief.now += kMillisecond;
      const Effects effects =
          chief.hear(peer, message_of(stranger(number, claimed)), key_of(listed));
      const bool fits = listed == claimed && claimed != wire::Role::kChief;
      CHECK(sent<wire::Welcome>(effects).size() == (fits ? 1 : 0));
      const auto refused = sent<wire::Refused>(effects);
      REQUIRE(refused.size() == (fits ? 0 : 1));
      if (fits || listed == claimed) continue;
      CHECK(refused[0].second.code == ErrorCode::kPermission);
      CHECK_THAT(refused[0].second.what,
                 Catch::Contains(str("`", wire::role_text(listed), "-0`")) &&
                     Catch::Contains(str("in the list of keys, but the process claims the role ",
                                         wire::role_text(claimed))) &&
                     Catch::Contains("DP-2715"));
      CHECK_THAT(refused[0].second.hint, Catch::Contains("downpour keys"));
    }
  }
}

TEST_CASE("a heartbeat with the incarnation of another process does not take over its connection",
          "[chief][core][hostile][roles]") {
  Attacked chief(small_config(2));
  const PeerKey peer{5000}, thief{5001};
  REQUIRE(sent<wire::Welcome>(chief.hear(peer, message_of(ps_hello(1)), key_of(wire::Role::kPs)))
              .size() == 1);
  const wire::Message heartbeat = message_of(wire::Heartbeat{.incarnation = ps_incarnation(1)});
  const wire::Message goodbye = message_of(wire::Goodbye{{.incarnation = ps_incarnation(1)}});
  const wire::PeerIdentity thieves[] = {
      key_of(wire::Role::kWorker), key_of(wire::Role::kPs, 1), {}};
  for (const wire::PeerIdentity& key : thieves) {
    for (const wire::Message& message : {heartbeat, goodbye}) {
      CHECK(sent<wire::Reject>(chief.hear(thief, message, key)).size() == 1);
    }
    CHECK(sent<wire::Refused>(chief.hear(thief, message_of(ps_hello(1)), key)).size() == 1);
  }
  // The process itself may return on another connection. Its Hello names its core.
  const PeerKey again{5002};
  CHECK(sent<wire::Reject>(chief.hear(again, heartbeat, key_of(wire::Role::kPs))).size() == 1);
  CHECK(sent<wire::Welcome>(chief.hear(again, message_of(ps_hello(1)), key_of(wire::Role::kPs)))
            .size() == 1);
  CHECK(sent<wire::Reject>(chief.hear(again, heartbeat, key_of(wire::Role::kPs))).empty());
}

TEST_CASE("a member whose key gets another role in the list is refused",
          "[chief][core][hostile][roles]") {
  Attacked chief(small_config(2));
  const PeerKey peer{5000};
  REQUIRE(sent<wire::Welcome>(
              chief.hear(peer, message_of(worker_hello(1)), key_of(wire::Role::kWorker)))
              .size() == 1);
  const wire::Message request = message_of(wire::LeaseRequest{1}, 1);
  const Effects effects = chief.hear(peer, request, key_of(wire::Role::kInput));
  CHECK(sent<wire::LeaseGrant>(effects).empty());
  CHECK(sent<wire::Refused>(effects).size() == 1);
}

TEST_CASE("only a worker gets leases, and only a member stops the job",
          "[chief][core][hostile][roles]") {
  ChiefConfig config = small_config(2);
  config.local = true;
  Attacked chief(std::move(config));
  const PeerKey peer{5000};
  REQUIRE(
      sent<wire::Welcome>(chief.hear(peer, message_of(input_hello(1)), key_of(wire::Role::kInput)))
          .size() == 1);
  CHECK(sent<wire::LeaseGrant>(
            chief.hear(peer, message_of(wire::LeaseRequest{1}, 1), key_of(wire::Role::kInput)))
            .empty());
  const wire::Message leave = message_of(wire::Leave{input_incarnation(1), 15});
  chief.hear(PeerKey(6000), leave, key_of(wire::Role::kWorker));  // not a member
  chief.hear(peer, leave, key_of(wire::Role::kWorker));           // its key has another role now
  CHECK(chief.core.phase() == Phase::kTraining);
  chief.hear(peer, leave, key_of(wire::Role::kInput));
  CHECK(chief.core.phase() != Phase::kTraining);
}

TEST_CASE("log lines about keys of another role are limited", "[chief][core][hostile][roles]") {
  Attacked chief(small_config(2));
  const uint64_t before = chief.logged_lines;
  for (int i = 0; i < 10'000; ++i) {
    chief.hear(PeerKey(5000), message_of(stranger(1, wire::Role::kPs)),
               key_of(wire::Role::kWorker));
  }
  CHECK(chief.logged_lines - before < 100);
}

TEST_CASE("members that are gone make room for others, live members do not",
          "[chief][core][hostile]") {
  ChiefConfig config = small_config(2);
  config.inputs_max = 3;
  Attacked chief(std::move(config));
  for (uint32_t i = 0; i < 3; ++i) {
    CHECK(sent<wire::Welcome>(chief.say(input_peer(i), input_hello(i))).size() == 1);
  }
  CHECK(sent<wire::Refused>(chief.say(input_peer(3), input_hello(3))).size() == 1);
  chief.tick(4 * kSecond);  // silent
  CHECK(sent<wire::Welcome>(chief.say(input_peer(3), input_hello(3))).size() == 1);
  // The member that was removed is not known any more.
  const auto heartbeat = wire::Heartbeat{.incarnation = input_incarnation(0)};
  CHECK(sent<wire::Reject>(chief.say(input_peer(0), heartbeat)).size() == 1);
}

TEST_CASE("event lines caused by peers are bounded, and withheld lines are counted",
          "[chief][core][hostile]") {
  Attacked chief(small_config(2));
  wire::Hello other_build = stranger(1, wire::Role::kWorker);
  other_build.build = "\x1b[2J\n" + std::string(4000, 'x');
  const uint64_t before = chief.logged_bytes;
  for (int i = 0; i < 60'000; ++i) {  // one minute with 5,000 messages per second, of all kinds
    const PeerKey peer{1000 + uint64_t(i) % 300};
    chief.say(peer, other_build);
    wire::Message claim = message_of(wire::Heartbeat{.incarnation = Incarnation{5}}, 0, {9, 1});
    chief.hear(worker_peer(0), claim);
    chief.hear(peer, {.body = stranger(7, wire::Role::kWorker)});
    chief.hear(peer, message_of(wire::Goodbye{{.incarnation = Incarnation{100'007}}}));
    chief.hear(worker_peer(0), message_of(wire::Reject{.what = std::string(4000, 'r')}));
    if (i % 50 == 0) {
      chief.say(ps_peer(0), wire::Heartbeat{.incarnation = ps_incarnation(0)});
      chief.tick(kMillisecond);
    }
  }
  CHECK(chief.logged_bytes - before < 1 << 20);
  CHECK(chief.notices < 3000);
  chief.tick(10 * kSecond);
  bool counted = false;
  for (const AppendEvent& event : all_of<AppendEvent>(chief.effects))
    counted = counted || event.line.find("\"lines_withheld\",\"lines\":") != std::string::npos;
  CHECK(counted);
}

TEST_CASE("a noisy peer does not suppress the log lines of another one", "[chief][core][hostile]") {
  LogBudget budget;
  for (int i = 0; i < 100'000; ++i) (void)budget.allows(i, PeerKey(1));
  CHECK_FALSE(budget.allows(100'000, PeerKey(1)));
  CHECK(budget.allows(100'000, PeerKey(2)));
  CHECK(budget.report(kSecond).value_or(0) > 90'000);
  CHECK_FALSE(budget.report(2 * kSecond));
  CHECK(budget.allows(3 * kSecond, PeerKey(1)));  // it was quiet for a while
}

TEST_CASE("a member that repeats its requests gets a limited number of large answers",
          "[chief][core][hostile]") {
  Attacked chief(small_config(2));
  chief.say(input_peer(0), input_hello(0));
  size_t large = 0;
  for (int i = 0; i < 1000; ++i) {  // within two seconds
    large += sent<wire::Welcome>(chief.say(worker_peer(0), worker_hello(0))).size();
    wire::Message old = message_of(wire::Heartbeat{.incarnation = worker_incarnation(0)});
    large += sent<wire::View>(chief.hear(worker_peer(0), old)).size();
    large += sent<wire::InputList>(chief.effects).size();
    chief.now += kMillisecond;
  }
  CHECK(large < 150);
}

TEST_CASE("the chief reveals the run only to a peer that names it", "[chief][core][hostile]") {
  Attacked chief(small_config(2));
  wire::RandomMessages random(1);
  for (uint16_t kind = 1; kind <= wire::kKindMax; ++kind) {
    for (const uint64_t run : {uint64_t{0}, uint64_t{1234}}) {
      wire::Message message = random.next(wire::Kind(kind));
      message.envelope.run = run;
      for (const Effect& effect : chief.hear(PeerKey(999), message)) {
        const auto* send = std::get_if<Send>(&effect);
        if (send == nullptr || send->peer != PeerKey(999)) continue;
        CHECK(send->message.envelope.run == 0);
        CHECK(send->message.envelope.view == ViewId{});
        if (const auto* reject = std::get_if<wire::Reject>(&send->message.body))
          CHECK(reject->what.find(str(kTestRun)) == std::string::npos);
      }
    }
  }
}

/// Advances time in ticks of 50 ms. The honest ps and worker send heartbeats. Ps 7 answers an Adopt
/// if `seventh` returns true. Returns how long some partition was frozen by a move.
template <typename Seventh>
int64_t pass_time(Attacked& chief, int64_t ns, Seventh&& seventh) {
  int64_t moving_ns = 0;
  bool moving = false;
  for (const int64_t end = chief.now + ns; chief.now < end; chief.now += 50 * kMillisecond) {
    std::vector<Effects> heard;
    const auto say = [&](PeerKey peer, wire::Body body) {
      heard.push_back(chief.hear(peer, message_of(std::move(body), 0, {1, UINT32_MAX})));
    };
    say(ps_peer(0), wire::Heartbeat{.incarnation = ps_incarnation(0)});
    say(ps_peer(7), wire::Heartbeat{.incarnation = ps_incarnation(7)});
    say(worker_peer(0), wire::Heartbeat{.incarnation = worker_incarnation(0)});
    chief.effects.clear();
    chief.core.on_tick(chief.now, chief.effects);
    heard.push_back(chief.effects);
    for (size_t i = 0; i < heard.size(); ++i) {
      if (!sent<wire::View>(heard[i]).empty()) moving = false;
      for (const auto& [peer, freeze] : sent<wire::Freeze>(heard[i])) {
        moving = true;
        wire::Frozen frozen{.ownership_generation = freeze.ownership_generation};
        for (const PartitionId p : freeze.partitions)
          frozen.images.push_back({p, "move", 0, 10, 1});
        if (peer == ps_peer(0)) say(ps_peer(0), frozen);
      }
      for (const auto& [peer, adopt] : sent<wire::Adopt>(heard[i])) {
        if (peer == ps_peer(0))
          say(ps_peer(0), wire::Adopted{.ownership_generation = adopt.ownership_generation});
        if (peer == ps_peer(7) && seventh(adopt))
          say(ps_peer(7), wire::Adopted{.ownership_generation = adopt.ownership_generation});
      }
    }
    moving_ns += moving ? 50 * kMillisecond : 0;
  }
  return moving_ns;
}

ChiefConfig config_with_moves(uint32_t ps) {
  ChiefConfig config = small_config(4, ps);
  config.moves_folder = "/run/moves";
  config.job.cluster.rebalance = false;
  return config;
}

TEST_CASE("no partition moves to a ps that never answers", "[chief][core][hostile]") {
  Attacked chief(config_with_moves(1));
  chief.say(ps_peer(7), ps_hello(7));
  CHECK(pass_time(chief, 120 * kSecond, [](const wire::Adopt&) { return false; }) == 0);
  CHECK(chief.core.phase() == Phase::kTraining);
}

TEST_CASE("a ps that answers gets one partition first, then its share", "[chief][core][hostile]") {
  Attacked chief(config_with_moves(1));
  chief.say(ps_peer(7), ps_hello(7));
  std::vector<size_t> given;
  pass_time(chief, 10 * kSecond, [&](const wire::Adopt& adopt) {
    given.push_back(adopt.partitions.size());
    return true;
  });
  CHECK(given == std::vector<size_t>{0, 1, 1});  // two of four partitions
}

TEST_CASE("a ps that answers and takes no partition is tried less and less often",
          "[chief][core][hostile]") {
  Attacked chief(config_with_moves(1));
  chief.say(ps_peer(7), ps_hello(7));
  const auto takes_nothing = [](const wire::Adopt& adopt) { return adopt.partitions.empty(); };
  CHECK(pass_time(chief, 1800 * kSecond, takes_nothing) < 60 * kSecond);
  CHECK(pass_time(chief, 1800 * kSecond, takes_nothing) < 20 * kSecond);
  CHECK(chief.core.phase() == Phase::kTraining);
}

TEST_CASE("a ps that does not load its partitions at the start does not end the job",
          "[chief][core][hostile]") {
  ChiefConfig config = config_with_moves(2);
  Attacked chief(std::move(config));
  chief.say(ps_peer(7), ps_hello(7));  // joins before the second honest ps
  chief.say(ps_peer(0), wire::Adopted{.ownership_generation = {1, 1}});
  CHECK(chief.core.phase() == Phase::kAdopting);
  pass_time(chief, 700 * kSecond, [](const wire::Adopt&) { return false; });
  CHECK(chief.core.phase() == Phase::kTraining);
}

/// Runs a small job with honest members. `between` is called between any two of their messages.
template <typename Between>
int32_t honest_job(Attacked& chief, Between&& between) {
  const auto step = [&](auto&& event) {
    between();
    const Effects answer = event();
    REQUIRE_FALSE(chief.core.finished());
    return answer;
  };
  const auto alive = [&] {
    chief.say(ps_peer(0), wire::Heartbeat{.incarnation = ps_incarnation(0)});
    chief.say(worker_peer(0), wire::Heartbeat{.incarnation = worker_incarnation(0)});
  };
  const wire::ShardCounts counts{.batches = 1, .read = 10, .applied = 10};
  for (uint32_t shard = 0; shard < 4; ++shard) {
    step([&] { return alive(), chief.tick(kMillisecond); });
    const auto grants = sent<wire::LeaseGrant>(
        step([&] { return chief.say(worker_peer(0), wire::LeaseRequest{1}, shard + 1); }));
    REQUIRE(grants.size() == 1);
    REQUIRE(grants[0].second.leases.size() == 1);
    const wire::Lease lease = grants[0].second.leases[0];
    CHECK(lease.shard.shard == shard);
    step([&] {
      return chief.say(worker_peer(0),
                       wire::ShardProgress{.lease = lease, .ended = true, .counts = counts});
    });
  }
  between();
  return chief.core.phase() == Phase::kCompleting ? 0 : 1;
}

TEST_CASE("no message of a stranger, or of a member in another role, changes the course of a job",
          "[chief][core][hostile]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Attacked chief(small_config(4));
    chief.say(input_peer(0), input_hello(0));
    chief.say(ps_peer(7), ps_hello(7));  // owns nothing
    wire::RandomMessages random(seed);
    Rng rng(seed);
    const int32_t code = honest_job(chief, [&] {
      for (int i = 0; i < 300; ++i) {
        const auto kind = wire::Kind(1 + rng.below(wire::kKindMax));
        wire::Message message = random.next(kind);
        if (rng.below(3) > 0) message.envelope.run = kTestRun;
        if (rng.below(3) > 0) message.envelope.view = {1, uint32_t(rng.below(3))};
        const PeerKey from = rng.below(3) == 0   ? input_peer(0)
                             : rng.below(2) == 0 ? ps_peer(7)
                                                 : PeerKey(5000 + rng.below(9));
        // A member may leave by itself.
        if (kind == wire::Kind::kGoodbye || kind == wire::Kind::kLeave) continue;
        for (const Effect& effect : chief.hear(from, std::move(message))) {
          const auto* send = std::get_if<Send>(&effect);
          if (send != nullptr) REQUIRE(testing::travel_fault(send->message).empty());
        }
      }
    });
    CHECK(code == 0);
  }
}

TEST_CASE("no message of a member in its own role crashes the chief", "[chief][core][hostile]") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    ChiefConfig config = small_config(4);
    config.moves_folder = "/run/moves";
    config.job.train.quarantine = seed % 2 == 0;
    Attacked chief(std::move(config));
    wire::RandomMessages random(seed);
    Rng rng(seed);
    for (int i = 0; i < 1500 && !chief.core.finished(); ++i) {
      const bool ps = rng.below(2) == 0;
      const auto number = uint32_t(rng.below(3));
      wire::Message message = random.next(wire::Kind(1 + rng.below(wire::kKindMax)));
      message.envelope.run = kTestRun;
      message.envelope.view = {1, uint32_t(rng.below(4))};
      const ViewId near{1, uint32_t(rng.below(5))};
      const wire::Lease lease{
          .shard = {0, uint32_t(rng.below(5))}, .attempt = uint32_t(rng.below(4)), .plan_hash = 5};
      if (auto* m = std::get_if<wire::Hello>(&message.body))
        *m = ps ? ps_hello(number) : worker_hello(number);
      if (auto* m = std::get_if<wire::Adopted>(&message.body)) m->ownership_generation = near;
      if (auto* m = std::get_if<wire::Frozen>(&message.body)) m->ownership_generation = near;
      if (auto* m = std::get_if<wire::Saved>(&message.body)) m->checkpoint = near;
      if (auto* m = std::get_if<wire::StatusReply>(&message.body)) {
        m->round = rng.below(3);
        m->epoch = 0;
        m->view = near;
        m->failure.clear();
      }
      if (auto* m = std::get_if<wire::ShardProgress>(&message.body)) m->lease = lease;
      if (auto* m = std::get_if<wire::ShardFailed>(&message.body)) {
        m->lease = lease;
        m->code = ErrorCode::kPeersLost;
      }
      const Effects& effects =
          chief.hear(ps ? ps_peer(number) : worker_peer(number), std::move(message));
      for (const Effect& effect : effects) {
        const auto* send = std::get_if<Send>(&effect);
        if (send != nullptr) REQUIRE(testing::travel_fault(send->message).empty());
      }
      if (rng.below(4) == 0) chief.tick(int64_t(rng.below(400)) * kMillisecond);
    }
  }
}

}  // namespace
}  // namespace downpour::chief
