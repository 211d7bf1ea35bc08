#include "worker/runtime/input_node.h"

#include <chrono>
#include <thread>

#include <catch2/catch.hpp>

#include "shared/base/str.h"
#include "shared/data/reading/dataset.h"
#include "shared/job/job_file.h"
#include "tests/support/kept_sends.h"
#include "tests/support/scratch_dir.h"

namespace downpour::worker {
namespace {

using Wire = testing::KeptSends;

constexpr uint64_t kRun = 7, kPlan = 5;
constexpr transport::PeerId kAnn{2}, kBob{3};  // workers

constexpr const char* kJob = R"(
data = { source = "a.svm", format = "libsvm" }
model.layers = [{ name = "w", type = "linear", inputs = ["features"] }]
model.outputs = [{ name = "y", input = "w", loss = "squared", target = "label" }]
optimizer = { type = "sgd", learning_rate = 0.1 }
)";

/// An input process. The test plays its chief and its workers.
struct Desk {
  Desk() {
    dir.write("a.svm", "1 2:1\n0 3:1\n");
    REQUIRE(node.start(0));
  }
  void from_chief(wire::Body body) {
    node.on_message(0, Wire::kConnected, Wire::kChief,
                    {.envelope = {.run = kRun}, .body = std::move(body)});
  }
  void welcome() {
    const auto job = job_from_toml(kJob, dir.path());
    REQUIRE(job);
    from_chief(wire::Welcome{
        .index = 0,
        .job = kJob,
        .base_dir = dir.path(),
        .plan_hash = kPlan,
        .shard_bytes = 1 << 20,
        .train_files = data::list_files(job->data, job->data.source, dir.path()).value(),
        .heartbeat_ns = kSecond});
  }
  void from_worker(transport::PeerId worker, wire::Body body, uint64_t run = kRun) {
    node.on_message(0, Wire::kBound, worker, {.envelope = {.run = run}, .body = std::move(body)});
  }
  static wire::ReadShard request(uint64_t shard_read) {
    return {.shard_read = shard_read, .lease = {.plan_hash = kPlan}, .window = 4};
  }
  /// Returns what this worker received: batches, the end, or the text of a failure.
  std::vector<std::string> answers(transport::PeerId worker) const {
    std::vector<std::string> all;
    for (const auto& [to, message] : wire.sent) {
      if (to != worker) continue;
      if (const auto* batch = std::get_if<wire::ReadBatch>(&message.body))
        all.push_back(str("batch ", batch->batch, " of ", batch->shard_read));
      if (const auto* end = std::get_if<wire::ReadEnd>(&message.body))
        all.push_back(str("end of ", end->shard_read));
      if (const auto* failed = std::get_if<wire::ReadFailed>(&message.body))
        all.push_back(failed->what);
    }
    return all;
  }
  /// Waits until `count` messages have been sent to each worker.
  void wait(size_t count) {
    for (int turn = 0; turn < 10'000; ++turn) {
      node.pump(0);
      if (answers(kAnn).size() >= count && answers(kBob).size() >= count) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  testing::ScratchDir dir;
  Wire wire;
  InputNode node{wire, {.chief = "inproc://chief", .endpoint = "inproc://here"}};
};

}  // namespace

TEST_CASE("requests that reach an input process before its job are answered when the job comes",
          "[worker][input]") {
  // Workers learn about an input process as soon as it has said Hello. Its own Welcome comes over
  // another connection.
  Desk desk;
  desk.from_worker(kAnn, Desk::request(1));
  desk.from_worker(kBob, Desk::request(1));
  desk.from_worker(kAnn, Desk::request(2), kRun + 1);  // of another run
  desk.from_worker(kAnn, wire::ReadMore{.shard_read = 1, .next = 0});
  desk.node.pump(0);
  CHECK(desk.answers(kAnn).empty());
  desk.welcome();
  desk.wait(2);
  const std::vector<std::string> read = {"batch 0 of 1", "end of 1"};
  CHECK(desk.answers(kAnn) == read);
  CHECK(desk.answers(kBob) == read);
}

TEST_CASE(
    "an input process that waits for its job keeps only requests that are still wanted, up to its "
    "limit",
    "[worker][input]") {
  Desk desk;
  const uint64_t most = InputConfig{}.shard_reads_max;
  for (uint64_t i = 0; i < most; ++i) {
    desk.from_worker(kAnn, Desk::request(i + 1));
    desk.from_worker(kAnn, Desk::request(i + 1));  // a repeated request
    desk.from_worker(kAnn, wire::ReadMore{.shard_read = i + 1});
    desk.from_worker(kAnn, wire::ReadMore{.shard_read = i + 1, .stop = true});
  }
  for (uint64_t i = 0; i < most; ++i) desk.from_worker(kAnn, Desk::request(most + i));
  desk.from_worker(kBob, Desk::request(1));  // beyond the limit
  desk.welcome();
  desk.from_worker(kBob, wire::ReadMore{.shard_read = 1});  // it asks again
  CHECK(desk.answers(kBob) ==
        std::vector<std::string>{"this input process does not know the shard read"});
  for (int turn = 0; turn < 10'000 && desk.answers(kAnn).size() < 2 * most; ++turn) {
    desk.node.pump(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(desk.answers(kAnn).size() ==
        2 * most);  // a batch and the end of each one that was not stopped
}

}  // namespace downpour::worker
