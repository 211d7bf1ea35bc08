// RemoteReader: a shard is read by input processes that die, lie or hang. Whatever they do, its
// batches are the same as if this process had read them.
#include "worker/runtime/remote_reader.h"

#include <deque>
#include <functional>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "shared/wire/batch_codec.h"
#include "tests/worker/runtime/remote_reader_room.h"

namespace downpour::worker {

TEST_CASE("a shard that an input process reads equals the shard, from any first batch",
          "[worker][input]") {
  Room room;
  room.start("a");
  for (const uint32_t first : {0U, 1U, 17U, 49U, 50U, 60U}) {
    RemoteReader remote = room.reader(first);
    room.check_same(remote, *room.local(first));
    CHECK_FALSE(remote.reads_here());
  }
  CHECK(room.said.empty());
  CHECK(room.link.inputs["a"]->core.size() == 0);
}

TEST_CASE("quarantined batches arrive as quarantined", "[worker][input]") {
  Room room;
  room.start("a");
  const wire::Lease lease{.quarantined_batches = {3, 7}};
  RemoteReader remote = room.reader(0, lease);
  room.check_same(remote, *room.local(0, lease));
}

TEST_CASE("when an input process dies, the shard is read at another one, and finally here",
          "[worker][input]") {
  Room room;
  room.start("a", "b");
  RemoteReader remote = room.reader();
  std::string first;
  room.check_same(remote, *room.local(), [&](uint32_t n) {
    if (n == 10) room.kill(first = room.chosen());
    if (n == 20) room.kill(first == "a" ? "b" : "a");
  });
  CHECK(remote.reads_here());
  CHECK(room.said == std::vector<std::string>{
                         "no input process has joined: this worker reads its shards itself"});
  CHECK(room.link.closed.size() == 2);
}

TEST_CASE("an input process that hangs is left after some seconds, and avoided",
          "[worker][input]") {
  Room room;
  room.start("a", "b");
  RemoteReader remote = room.reader();
  std::string stuck;
  room.check_same(remote, *room.local(), [&](uint32_t n) {
    if (n != 5) return;
    stuck = room.chosen();
    room.link.inputs.erase(stuck);  // the chief still lists it
  });
  CHECK_FALSE(remote.reads_here());
  CHECK(room.link.time_ns >= 5 * kSecond);
  CHECK(room.link.time_ns < 6 * kSecond);
  REQUIRE(room.said.size() == 1);
  CHECK(room.said[0].find("does not answer") != std::string::npos);
  const int64_t before_ns = room.link.time_ns;
  RemoteReader second = room.reader();  // does not wait for it again
  room.check_same(second, *room.local());
  CHECK(room.link.time_ns == before_ns);
}

TEST_CASE("poll() does not wait: it returns nothing until a batch has come", "[worker][input]") {
  Room room;
  room.start("a", "b");
  bool answers = false;
  room.link.on_way = [&](wire::Message&) { return answers; };
  RemoteReader remote = room.reader();
  const auto here = room.local();
  Batch got, wanted;
  for (int i = 0; i < 3; ++i) {
    const auto more = remote.poll(got, 0);
    REQUIRE(more);
    CHECK_FALSE(more->has_value());
  }
  CHECK(room.link.time_ns == 0);
  answers = true;
  room.link.time_ns = 6 * kSecond;  // the first one has said nothing, so the other reads
  for (uint32_t n = 0;; ++n) {
    const auto more = remote.poll(got, 0);
    REQUIRE(more);
    REQUIRE(more->has_value());
    REQUIRE(**more == here->next(wanted).value());
    if (!**more) break;
    REQUIRE(wire::same_batch(got, wanted));
  }
  CHECK_FALSE(remote.reads_here());
  REQUIRE(room.said.size() == 1);
  CHECK(room.said[0].find("does not answer") != std::string::npos);
}

TEST_CASE("an end that arrives without the last batch is not accepted", "[worker][input]") {
  Room room;
  room.start("a");
  bool lost = false;
  room.link.on_way = [&](wire::Message& message) {
    const auto* piece = std::get_if<wire::ReadBatch>(&message.body);
    return piece == nullptr || piece->batch != kRecords / kBatch - 1 || std::exchange(lost, true);
  };
  RemoteReader remote = room.reader();
  room.check_same(remote, *room.local());
  CHECK(lost);
  CHECK_FALSE(remote.reads_here());
}

TEST_CASE(
    "after a lost message or a dropped shard read, the reader continues from the needed batch",
    "[worker][input]") {
  Room room;
  room.start("a");
  int seen = 0;
  room.link.on_way = [&](wire::Message& message) {
    return !std::holds_alternative<wire::ReadBatch>(message.body) || ++seen % 9 != 0;
  };
  RemoteReader remote = room.reader();
  room.check_same(remote, *room.local(), [&](uint32_t n) {
    if (n != 30) return;
    InputEffects fx;  // the input process loses all its shard reads
    room.link.inputs["a"]->core.on_peer_gone(InputPeer{1}, fx);
    room.link.inputs["a"]->out.clear();
  });
  CHECK_FALSE(remote.reads_here());
}

TEST_CASE("a lost request is repeated, once to the same input process", "[worker][input]") {
  const bool another = GENERATE(false, true);
  const int lost = GENERATE(1, 2, 5);
  CAPTURE(another, lost);
  Room room;
  room.start("a");
  if (another) room.start("b");
  int requests = 0;
  room.link.on_sent = [&](const wire::Message& message) {
    return !std::holds_alternative<wire::ReadShard>(message.body) || ++requests > lost;
  };
  RemoteReader remote = room.reader();
  room.check_same(remote, *room.local());
  // If every request is lost, the reader must not wait forever.
  const bool here = lost > (another ? 3 : 1);
  CHECK(remote.reads_here() == here);
  CHECK(room.link.time_ns <= (lost + 1) * kSecond);
  CHECK(room.said.size() == (here ? 1 : 0));
}

TEST_CASE("a worker that may not read returns the error of a shard read that is never known",
          "[worker][input]") {
  Room room({}, {.wanted = true, .reads_here = false});
  room.start("a");
  room.link.on_sent = [&](const wire::Message& message) {
    return !std::holds_alternative<wire::ReadShard>(message.body);
  };
  RemoteReader remote = room.reader();
  Batch batch;
  const Result<bool> more = remote.next(batch);
  REQUIRE_FALSE(more);
  CHECK(more.error().code == ErrorCode::kUnavailable);
  CHECK(more.error().what == "this input process does not know the shard read");
  CHECK(room.link.time_ns >= 30 * kSecond);  // another input process might have come
}

TEST_CASE("an invalid batch ends no process; the shard is read elsewhere", "[worker][input]") {
  const std::vector<std::function<void(wire::Message&)>> tricks = {
      [](wire::Message& m) { m.values = Bytes::copy_of("nonsense", 8); },
      [](wire::Message& m) {  // another batch
        Batch batch;
        REQUIRE(wire::decode_batch(m.values.span(), batch));
        ++batch.id.shard;
        m.values = wire::encode_batch(batch).value();
      },
      [](wire::Message& m) {  // quarantined, although the lease does not say so
        Batch batch;
        REQUIRE(wire::decode_batch(m.values.span(), batch));
        batch.records = 0;
        batch.quarantined = true;
        m.values = wire::encode_batch(batch).value();
      },
      [](wire::Message& m) { std::get<wire::ReadBatch>(m.body).batch += 1; },
      [](wire::Message& m) { std::get<wire::ReadBatch>(m.body).pieces = 2; },
      [](wire::Message& m) { m.envelope.run = 1; },
      [](wire::Message& m) { m.body = wire::Stop{}; },
      [](wire::Message& m) {
        m.body = wire::ReadFailed{.shard_read = std::get<wire::ReadBatch>(m.body).shard_read,
                                  .what = "out of memory"};
      },
  };
  // An end before the first batch is accepted here. The chief's account would show that it is
  // wrong.
  const auto ends_early = [](wire::Message& m) {
    m.body = wire::ReadEnd{.shard_read = std::get<wire::ReadBatch>(m.body).shard_read,
                           .counts = {.batches = 4}};
  };
  std::vector<std::pair<std::function<void(wire::Message&)>, uint32_t>> cases = {{ends_early, 10}};
  for (const auto& trick : tricks) cases.insert(cases.end(), {{trick, 0}, {trick, 10}});
  for (const auto& one : cases) {
    Room room;
    room.start("a");
    room.link.on_way = [&](wire::Message& message) {
      const auto* piece = std::get_if<wire::ReadBatch>(&message.body);
      if (piece != nullptr && piece->batch == one.second) one.first(message);
      return true;
    };
    RemoteReader remote = room.reader();
    room.check_same(remote, *room.local());
    CHECK(remote.reads_here());
  }
}

TEST_CASE("a batch may come in pieces", "[worker][input]") {
  Room room;
  room.start("a");
  std::deque<wire::Message> more;
  FakeInput& input = *room.link.inputs["a"];
  room.link.on_way = [&](wire::Message& message) {
    auto* piece = std::get_if<wire::ReadBatch>(&message.body);
    if (piece == nullptr || piece->pieces > 1) return true;
    piece->pieces = 2;
    wire::Message rest = message;
    std::get<wire::ReadBatch>(rest.body).piece = 1;
    rest.values = message.values.slice(40, message.values.size() - 40);
    message.values = message.values.slice(0, 40);
    input.out.push_front(std::move(rest));
    return true;
  };
  RemoteReader remote = room.reader();
  room.check_same(remote, *room.local());
  CHECK_FALSE(remote.reads_here());
}

TEST_CASE(
    "a bad record is final and keeps its place; after any other failure the shard is read here",
    "[worker][input]") {
  Room room("oops\n");
  room.start("a");
  RemoteReader remote = room.reader();
  const auto local = room.local();
  const auto failure_of = [](data::ShardReader& reader) {
    Batch batch;
    for (;;) {
      const Result<bool> more = reader.next(batch);
      if (!more) return str(more.error().what, " / ", more.error().where);
      REQUIRE(*more);
    }
  };
  const std::string failure = failure_of(remote);
  CHECK(failure == failure_of(*local));
  CHECK(failure.find("a.svm:201") != std::string::npos);
  CHECK(remote.failed_batch().has_value());
  CHECK((remote.failed_batch() == local->failed_batch()));
  CHECK_FALSE(remote.reads_here());

  // A file that only the input process cannot see.
  Room other;
  other.start("a");
  other.link.on_way = [](wire::Message& message) {
    if (const auto* piece = std::get_if<wire::ReadBatch>(&message.body))
      message.body = wire::ReadFailed{
          .shard_read = piece->shard_read, .code = ErrorCode::kNoInput, .what = "no such file"};
    return true;
  };
  RemoteReader here = other.reader();
  other.check_same(here, *other.local());
  CHECK(here.reads_here());
}

TEST_CASE(
    "a shard that kills every input process is finally read here, where the chief counts the "
    "failures",
    "[worker][input]") {
  Room room;
  room.start("a");
  std::set<uint64_t> shard_reads;
  room.link.on_way = [&](wire::Message& message) {
    const auto* piece = std::get_if<wire::ReadBatch>(&message.body);
    if (piece == nullptr) return true;
    shard_reads.insert(piece->shard_read);  // the process dies and is restarted each time
    room.listed[0].incarnation = Incarnation(1000 + shard_reads.size());
    room.inputs->update(room.listed);
    return false;
  };
  RemoteReader remote = room.reader();
  room.check_same(remote, *room.local());
  CHECK(shard_reads.size() == 4);
  CHECK(remote.reads_here());
}

TEST_CASE("a worker waits a short time for the first input process, and then reads by itself",
          "[worker][input]") {
  Room room;
  RemoteReader remote = room.reader();
  room.check_same(remote, *room.local());
  CHECK(room.link.time_ns >= 2 * kSecond);
  CHECK(room.link.time_ns < 3 * kSecond);
  const int64_t before_ns = room.link.time_ns;
  RemoteReader again = room.reader();
  room.check_same(again, *room.local());
  CHECK(room.link.time_ns == before_ns);  // only the first time
  CHECK(room.said.size() == 1);
  room.start("a");
  RemoteReader third = room.reader();
  room.check_same(third, *room.local());
  CHECK_FALSE(third.reads_here());
}

TEST_CASE("a worker that may not read waits for input processes, and finally reports an error",
          "[worker][input]") {
  Room room({}, {.wanted = true, .reads_here = false});
  RemoteReader remote = room.reader();
  Batch batch;
  const Result<bool> more = remote.next(batch);
  REQUIRE_FALSE(more);
  CHECK(more.error().code == ErrorCode::kUnavailable);
  CHECK(more.error().what.find("no input process") != std::string::npos);
  CHECK(room.link.time_ns >= 30 * kSecond);
  room.start("a");
  RemoteReader second = room.reader();
  room.check_same(second, *room.local());
}

TEST_CASE("a worker that may not read returns the failure of an input process", "[worker][input]") {
  Room room({}, {.wanted = true, .reads_here = false});
  room.start("a");
  room.link.on_way = [](wire::Message& message) {
    if (const auto* piece = std::get_if<wire::ReadBatch>(&message.body))
      message.body = wire::ReadFailed{.shard_read = piece->shard_read,
                                      .code = ErrorCode::kIo,
                                      .what = "the program ended with 3"};
    return true;
  };
  RemoteReader remote = room.reader();
  Batch batch;
  const Result<bool> more = remote.next(batch);
  REQUIRE_FALSE(more);
  CHECK(more.error().what == "the program ended with 3");
  CHECK_FALSE(remote.failed_batch().has_value());
  CHECK(room.link.time_ns < kSecond);
}

TEST_CASE("a stopped shard read ends at the worker and at the input process", "[worker][input]") {
  Room room;
  room.start("a");
  {
    RemoteReader remote = room.reader();
    Batch batch;
    REQUIRE(remote.next(batch).value());
    CHECK(room.link.inputs["a"]->core.size() == 1);
    room.stopped = true;
    const Result<bool> more = remote.next(batch);
    REQUIRE_FALSE(more);
    CHECK(more.error().code == ErrorCode::kInterrupted);
  }
  CHECK(room.link.inputs["a"]->core.size() == 0);
}

TEST_CASE("dead input processes cost a worker little time, however many are listed",
          "[worker][input]") {
  Room room;
  for (uint32_t i = 0; i < 20; ++i) {  // the chief lists them, but none of them runs
    room.listed.push_back({i, Incarnation(500 + i), str("dead", i)});
  }
  room.inputs->update(room.listed);
  int64_t waited_ns = 0;
  const auto read = [&](uint32_t epoch) {
    const int64_t before_ns = room.link.time_ns;
    RemoteReader remote = room.reader(0, {.shard = {epoch, 0}});
    Batch batch;
    while (remote.next(batch).value()) {
    }
    CHECK(remote.totals().counts.read == kRecords);
    waited_ns += room.link.time_ns - before_ns;
    room.link.time_ns += kSecond;  // time to read a shard
    return remote.reads_here();
  };
  for (uint32_t shard = 0; shard < 300; ++shard) read(shard);
  // A tenth of the 300 s that the shards take, and the first trials.
  CHECK(waited_ns < 45 * kSecond);
  // An input process that delivers is found among them, and gets shards from then on.
  room.start("good");
  uint32_t there = 0;
  for (uint32_t shard = 300; shard < 3000; ++shard) there += read(shard) ? 0 : 1;
  CHECK(there > 1000);
}

TEST_CASE(
    "shards are distributed evenly, and stay at their input process when another comes or goes",
    "[worker][input]") {
  InputDirectory inputs({});
  std::vector<wire::InputProcess> all;
  for (uint32_t i = 0; i < 4; ++i) all.push_back({i, Incarnation(10 + i), "x"});
  inputs.update(all);
  std::map<uint32_t, int> count;
  std::vector<uint32_t> before;
  for (uint64_t shard = 0; shard < 4000; ++shard) {
    before.push_back(inputs.choose(0, shard, {})->index);
    ++count[before.back()];
  }
  for (const auto& [index, shards] : count) CHECK(std::abs(shards - 1000) < 120);
  all.erase(all.begin() + 2);
  inputs.update(all);
  int moved = 0;
  for (uint64_t shard = 0; shard < 4000; ++shard)
    moved += inputs.choose(0, shard, {})->index != before[shard] ? 1 : 0;
  CHECK(moved == count[2]);
}

}  // namespace downpour::worker
