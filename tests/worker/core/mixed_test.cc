// A worker in mode "mixed": its messages do not mix the two halves of the partitions, and only the
// answers of one half say at which step the ps are.
#include "tests/worker/core/worker_harness.h"

namespace downpour::worker {
namespace {

constexpr uint32_t kKernelFloats = 8;

// Two ps. Each has a partition of the lower half, which has the kernel and applies steps, and one
// of the upper half, which has the sparse rows.
struct MixedHarness : Harness {
  MixedHarness() {
    tables[0].group = RowGroup::kAsync;
    tables.push_back({.name = "kernel",
                      .kind = TableKind::kDense,
                      .table_variables = {{.name = "kernel", .shape = {kKernelFloats}}},
                      .group = RowGroup::kSync});
    replicas = 2;
    begin();
    wire::View both = view(2, 2);
    for (uint32_t p = 0; p < kPartitions; ++p) both.partitions[p].owner = p % 2;
    from(kChief, both);
  }
  static bool is_async(const WorkerEffects::Send& push) {
    return push_in(push).covered.contains(PartitionId{2}) ||
           push_in(push).covered.contains(PartitionId{3});
  }
  // Answers a pull with zeros. A pull of sparse rows only says something else about the step.
  void answer(const WorkerEffects::Send& send, uint64_t version) {
    uint32_t floats = 0;
    bool rows = false;
    for (const wire::Section& section : std::get<wire::Pull>(send.message.body).sections) {
      rows = raw(section.table) == 0;
      floats += section.keys * (rows ? 1 : kKernelFloats);
    }
    const uint64_t shown = rows ? 99 : version;
    from(send.to, wire::PullReply{.versions = {shown, shown}}, send.message.envelope.request,
         Bytes::of(std::vector<float>(floats)));
  }
  std::vector<WorkerEffects::Send> push_at(const std::vector<WorkerEffects::Send>& pulls,
                                           uint64_t version) {
    for (const auto& asked : pulls) answer(asked, version);
    return push_computed();
  }
};

TEST_CASE("in mode mixed each message is for partitions of one half", "[worker]") {
  MixedHarness h;
  const auto pulls = h.pull(0);
  CHECK(pulls.size() == 4);
  for (const auto& pull : pulls)
    CHECK(std::get<wire::Pull>(pull.message.body).sections.size() <= 1);
  const auto pushes = h.push_at(pulls, 6);
  REQUIRE(pushes.size() == 4);
  wire::PartitionSet covered;
  for (const auto& push : pushes) {
    CHECK(push_in(push).covered.size() == 1);
    CHECK(push_in(push).step == 7);
    push_in(push).covered.for_each([&](PartitionId p) { covered.insert(p); });
  }
  CHECK(covered.size() == kPartitions);
}

TEST_CASE("in mode mixed the next batch waits until the parts of both halves are applied",
          "[worker]") {
  MixedHarness h;
  const auto pushes = h.push_at(h.pull(0), 6);
  for (const auto& pull : h.pull(1)) h.answer(pull, 7);
  for (const auto& push : pushes)
    if (!MixedHarness::is_async(push)) h.applied(push);
  CHECK(h.fx.computes.empty());
  size_t left = 2;
  for (const auto& push : pushes) {
    if (!MixedHarness::is_async(push)) continue;
    h.applied(push);
    CHECK(h.fx.computes.size() == (--left == 0 ? 1 : 0));
  }
}

TEST_CASE("in mode mixed the sparse rows of the next batch are pulled before the step is applied",
          "[worker]") {
  MixedHarness h;
  const auto pushes = h.push_at(h.pull(0), 6);
  const auto ahead = h.pull(1);
  REQUIRE(ahead.size() == 4);
  for (const auto& pull : ahead) {  // those of the kernel wait for the step
    const auto& body = std::get<wire::Pull>(pull.message.body);
    const bool sparse = !body.sections.empty() && body.sections[0].table == TableId{0};
    CHECK(body.step == (sparse ? 0 : 8));
  }
  for (const auto& pull : ahead) h.answer(pull, 7);
  CHECK(h.fx.computes.empty());
  for (const auto& push : pushes) h.applied(push);
  CHECK(h.sends_of<wire::Pull>().empty());
  const auto next = h.push_computed();
  REQUIRE(next.size() == 4);
  for (const auto& push : next) CHECK(push_in(push).step == 8);
}

TEST_CASE("in mode mixed a new view voids what was pulled ahead", "[worker]") {
  MixedHarness h;
  (void)h.push_at(h.pull(0), 6);
  for (const auto& pull : h.pull(1)) h.answer(pull, 7);
  wire::View moved = h.view(2, 3);
  for (uint32_t p = 0; p < kPartitions; ++p) moved.partitions[p].owner = p % 2;
  moved.partitions[0].ownership_generation = {1, 2};  // a move, not a rollback
  h.from(kChief, moved);
  CHECK(h.sends_of<wire::Pull>().size() == 4);
  for (const auto& pull : h.sends_of<wire::Pull>()) h.answer(pull, 7);
  wire::View rolled_back = h.view(2, 4);
  for (uint32_t p = 0; p < kPartitions; ++p) rolled_back.partitions[p].owner = p % 2;
  h.from(kChief, rolled_back);
  const auto again = h.sends_of<wire::Pull>();
  CHECK(again.size() == 4);  // of the batch before it
  for (const auto& pull : again) CHECK(std::get<wire::Pull>(pull.message.body).step == 0);
}

TEST_CASE("in mode mixed a pull ahead of sparse rows that gets no answer is repeated", "[worker]") {
  MixedHarness h;
  (void)h.push_at(h.pull(0), 6);
  CHECK(h.pull(1).size() == 4);
  h.tick(3 * kSecond);
  const auto again = h.sends_of<wire::Pull>();
  REQUIRE(again.size() == 2);
  for (const auto& pull : again)
    CHECK(std::get<wire::Pull>(pull.message.body).sections.at(0).table == TableId{0});
}

TEST_CASE("in mode mixed a batch that is computed again is done when its sparse rows are known",
          "[worker]") {
  MixedHarness h;
  const auto pushes = h.push_at(h.pull(0), 6);
  for (const auto& push : pushes)
    if (MixedHarness::is_async(push)) h.applied(push);
  for (const auto& push : pushes) {
    if (MixedHarness::is_async(push)) continue;
    h.answer_all(push, wire::PartStatus::kOtherStep, 0);
    break;
  }
  h.tick(kSecond / 10);
  const auto again = h.push_at(h.sends_of<wire::Pull>(), 8);
  REQUIRE(again.size() == 4);
  for (const auto& push : again) {
    CHECK(push_in(push).step == 9);
    if (MixedHarness::is_async(push)) {
      h.answer_all(push, wire::PartStatus::kAlreadyApplied, 1);
    } else {
      h.applied(push);
    }
  }
  CHECK(h.pull(1).size() == 4);
}

TEST_CASE("in mode mixed parts that are regrouped are for one half, too", "[worker]") {
  MixedHarness h;
  (void)h.push_at(h.pull(0), 6);
  wire::View one = h.view(1, 3);
  one.partitions[0].ownership_generation = {1, 2};  // a move, not a rollback
  h.from(kChief, one);
  const auto pushes = h.sends_of<wire::Push>();
  REQUIRE(pushes.size() == 2);
  for (const auto& push : pushes) CHECK(push_in(push).covered.size() == 2);
  CHECK(MixedHarness::is_async(pushes[0]) != MixedHarness::is_async(pushes[1]));
}

}  // namespace
}  // namespace downpour::worker
