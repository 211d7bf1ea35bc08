// Programs as sources: their environment, their output, and their failures.
#include "shared/data/reading/program.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <sstream>
#include <thread>
#include <unistd.h>

#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Matchers::Contains;

/// Returns a plan of a CSV source that `script` writes, with the float32 columns `id` and `y`.
std::shared_ptr<ReadPlan> plan_of_script(const ScratchDir& dir, const std::string& script,
                                         uint64_t records = 0, Replay replay = Replay::kEpoch) {
  auto plan = std::make_shared<ReadPlan>();
  plan->data = DataSpec{.format = DataFormat::kCsv, .columns = {"id", "y"}, .shuffle = "off"};
  plan->data.fields = {{.name = "id", .type = FieldType::kFloat32},
                       {.name = "y", .type = FieldType::kFloat32}};
  plan->source = {.exec = {"sh", "-c", script}, .replay = replay, .records = records};
  plan->data.source = plan->source;
  plan->base_dir = dir.path();
  plan->layout = {};
  plan->layout.floats = {{"id", 1}, {"y", 1}};
  plan->batch_size = 4;
  plan->files = {program_info(plan->source)};
  return plan;
}

struct Told {
  std::vector<float> ids;
  ShardTotals totals;
};
Result<Told> read_range(std::shared_ptr<const ReadPlan> plan, const plan::ShardRange& range,
                        uint32_t epoch = 0) {
  DP_TRY(const auto reader, open_shard(plan, Split::kAll, {epoch, 0}, range, 0));
  Told told;
  for (Batch batch;;) {
    DP_TRY(const bool more, reader->next(batch));
    if (!more) break;
    const auto& values = batch.floats[0].values;
    told.ids.insert(told.ids.end(), values.begin(), values.end());
  }
  told.totals = reader->totals();
  return told;
}
plan::ShardRange whole(const ReadPlan& plan) { return {0, 0, plan.files[0].bytes}; }

TEST_CASE("the lines of a program are the records, in the same order", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_script(dir, "for i in 1 2 3 4 5 6; do echo $i,0; done");
  const Told told = read_range(plan, whole(*plan)).value();
  CHECK(told.ids == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(told.totals.counts.read == 6);
  CHECK(told.totals.first_offset == 0);
  CHECK(told.totals.end_offset == plan->files[0].bytes);
}

TEST_CASE("the environment of a program has the seed, the epoch, the range and the purpose",
          "[data]") {
  const ScratchDir dir;
  auto plan = plan_of_script(
      dir,
      "i=$DOWNPOUR_SHARD_BEGIN; while [ $i -lt $DOWNPOUR_SHARD_END ]; do "
      "echo $((i + 100 * DOWNPOUR_EPOCH + 1000 * DOWNPOUR_SEED)),0; i=$((i + 1)); done; "
      "echo $DOWNPOUR_PURPOSE $DOWNPOUR_BATCH_SIZE $DOWNPOUR_RECORDS >> told",
      10, Replay::kShard);
  plan->seed = 3;
  cut_program(plan->source, 4, plan->files[0]);
  const auto ranges = plan::cut_shards(plan->files, 1);
  REQUIRE(ranges.size() == 3);
  CHECK(read_range(plan, ranges[1], 2).value().ids == std::vector<float>{3204, 3205, 3206, 3207});
  const Told last = read_range(plan, ranges[2], 2).value();
  CHECK(last.ids == std::vector<float>{3208, 3209});
  CHECK(last.totals.first_offset == 8);
  CHECK(last.totals.end_offset == 10);
  const auto evaluation = for_evaluation(*plan, plan->source, plan->files);
  CHECK(read_range(evaluation, ranges[0], 2).value().ids ==
        std::vector<float>{3000, 3001, 3002, 3003});
  CHECK(text_in(dir / "told") == "train 4 10\ntrain 4 10\neval 4 10\n");
}

TEST_CASE("skip and take choose the records of a program by number", "[data]") {
  const ScratchDir dir;
  auto plan =
      plan_of_script(dir, "seq $DOWNPOUR_SHARD_BEGIN $((DOWNPOUR_SHARD_END - 1)) | sed 's/$/,0/'",
                     10, Replay::kShard);
  plan->source.skip = 3;
  plan->source.take = 5;
  cut_program(plan->source, 4, plan->files[0]);
  std::vector<float> ids;
  for (const auto& range : plan::cut_shards(plan->files, 1)) {
    const Told told = read_range(plan, range).value();
    ids.insert(ids.end(), told.ids.begin(), told.ids.end());
  }
  CHECK(ids == std::vector<float>{3, 4, 5, 6, 7});
}

TEST_CASE("a program that never ends is stopped after the chosen records", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_script(dir, "i=0; while :; do echo $i,0; i=$((i + 1)); done");
  plan->source.skip = 2;
  plan->source.take = 1000;
  cut_program(plan->source, 0, plan->files[0]);
  const Told told = read_range(plan, whole(*plan)).value();
  REQUIRE(told.ids.size() == 1000);
  CHECK(told.ids.front() == 2);
  CHECK(told.ids.back() == 1001);
  CHECK(told.totals.counts.read == 1000);
}

TEST_CASE("ranges of a program without a chosen record are left out", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_script(dir, "exit 1", 100, Replay::kShard);
  plan->source.skip = 25;
  plan->source.take = 40;
  cut_program(plan->source, 10, plan->files[0]);
  const auto ranges = plan::cut_shards(plan->files, 1);
  REQUIRE(ranges.size() == 5);
  CHECK(ranges.front().begin == 20);
  CHECK(ranges.front().records_before == 20);
  CHECK(ranges.back().end == 70);
}

TEST_CASE("a program that writes more or fewer records than declared is an error", "[data]") {
  const ScratchDir dir;
  for (const auto& [script, what] : {std::pair{"echo 1,0", "only 1 records of the 3"},
                                     {"seq 9 | sed 's/$/,0/'", "more records than the 3"}}) {
    const auto plan = plan_of_script(dir, script, 3);
    const auto told = read_range(plan, whole(*plan));
    REQUIRE(!told);
    CHECK_THAT(told.error().what, Contains(what));
    CHECK_THAT(told.error().where, Contains("epoch 1, records [0, 3)"));
  }
}

TEST_CASE("the error for a program that fails has the last line of its stderr", "[data]") {
  const ScratchDir dir;
  const auto failure = [&](const std::string& script) {
    const auto plan = plan_of_script(dir, script);
    const auto told = read_range(plan, whole(*plan));
    REQUIRE(!told);
    return told.error();
  };
  CHECK(failure("echo 1,0; echo first >&2; echo no such table >&2; exit 3").what ==
        "the program ended with status 3: no such table");
  CHECK(failure("kill -9 $$").what == "the program was killed by signal 9 (Killed)");
  const Error bad = failure("echo 1,0; echo 2,x");
  CHECK(bad.code == ErrorCode::kBadData);
  CHECK_THAT(bad.where, Contains("exec: sh -c") && Contains("byte 4 of its output"));

  auto absent = plan_of_script(dir, "");
  absent->source.exec = {"no-such-program-here"};
  const auto told = read_range(absent, whole(*absent));
  REQUIRE(!told);
  CHECK(told.error().code == ErrorCode::kNoInput);
  CHECK_THAT(told.error().what, Contains("can't start `no-such-program-here`"));
  absent->base_dir = dir.path() + "/gone";
  CHECK_THAT(read_range(absent, whole(*absent)).error().what, Contains("there is no folder"));
}

TEST_CASE("a program may write much to stderr, and destroying its reader early kills it",
          "[data]") {
  const ScratchDir dir;
  // Before it writes records, and after it has closed its stdout.
  for (const char* script : {"head -c 200000 /dev/zero >&2; echo 1,0",
                             "echo 1,0; exec 1>&-; head -c 20000000 /dev/zero >&2"}) {
    const auto chatty = plan_of_script(dir, script);
    const int own = ::dup(STDERR_FILENO), nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDERR_FILENO);
    const auto told = read_range(chatty, whole(*chatty));
    ::dup2(own, STDERR_FILENO);
    ::close(own);
    ::close(nowhere);
    INFO(script);
    REQUIRE(told);
    CHECK(told->ids == std::vector<float>{1});
  }

  const auto endless = plan_of_script(dir, "echo $$ > pid; exec yes 1,0");
  {
    const auto reader = open_shard(endless, Split::kAll, {0, 0}, whole(*endless), 0).value();
    Batch batch;
    REQUIRE(reader->next(batch).value());
  }
  CHECK(::kill(std::stoi(text_in(dir / "pid")), 0) != 0);
}

TEST_CASE("stopping the programs releases a reader that waits for one", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_script(dir, "echo 1,0; sleep 1000");
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop_programs(*plan->programs);
  });
  const auto told = read_range(plan, whole(*plan));
  stopper.join();
  REQUIRE(!told);
  CHECK(told.error().what == "reading was stopped");
  CHECK(!read_range(plan, whole(*plan)));  // no other program starts
}

}  // namespace
}  // namespace downpour::data
