// data.program: one output record for each input record, at the same place of the file.
#include "shared/data/reading/record_program.h"

#include <sstream>

#include "shared/data/reading/record_cache.h"
#include "tests/shared/data/formats/example/tfrecord_support.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Matchers::Contains;

/// Returns `count` lines "i,i.5", with blank lines after some of them.
std::string numbered_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += str(i, ",", i, ".5\n", i % 7 == 3 ? "\n" : "");
  return text;
}

/// Returns a plan of a CSV file with the float columns `id` and `x`, whose lines `script` changes.
std::shared_ptr<ReadPlan> plan_through(const ScratchDir& dir, const std::string& text,
                                       const std::string& script) {
  auto plan = plan_of(dir.write("rows.csv", text), DataFormat::kCsv);
  plan->data.columns = {"id", "x"};
  plan->data.fields = {{.name = "id"}, {.name = "x"}};
  plan->data.program = {"sh", "-c", script};
  plan->base_dir = dir.path();
  plan->layout.floats = {{"id", 1}, {"x", 1}};
  return plan;
}
std::shared_ptr<ReadPlan> without_program(const ReadPlan& plan) {
  auto out = std::make_shared<ReadPlan>(plan);
  out->data.program.clear();
  return out;
}

std::vector<float> ids_of(const ShardRead& read) {
  std::vector<float> ids;
  for (const auto& record : read.floats) ids.push_back(record[0]);
  return ids;
}

/// Checks that both reads have the same records, hashes and places in each batch, and the same
/// totals.
void check_same(const ShardRead& a, const ShardRead& b) {
  CHECK(a.floats == b.floats);
  REQUIRE(a.batches.size() == b.batches.size());
  for (size_t i = 0; i < a.batches.size(); ++i) {
    CHECK(a.batches[i].records_hash == b.batches[i].records_hash);
    CHECK(a.batches[i].first_record == b.batches[i].first_record);
    CHECK(a.batches[i].last_record == b.batches[i].last_record);
  }
  CHECK(a.totals.records_hash == b.totals.records_hash);
  CHECK(a.totals.counts.read == b.totals.counts.read);
  CHECK(a.totals.counts.filtered == b.totals.counts.filtered);
  CHECK(a.totals.counts.skipped == b.totals.counts.skipped);
  CHECK(a.totals.first_offset == b.totals.first_offset);
  CHECK(a.totals.end_offset == b.totals.end_offset);
}

}  // namespace

TEST_CASE("the records are the output of the program", "[data]") {
  const ScratchDir dir;
  const auto plan =
      plan_through(dir, numbered_lines(50), "awk -F, -v OFS=, '{ print $1 * 10, $2 + 1 }'");
  const ShardRead read = read_file(plan).value();
  REQUIRE(read.floats.size() == 50);
  CHECK(read.floats[7] == std::vector<float>{70, 8.5});
  CHECK(read.floats[49] == std::vector<float>{490, 50.5});
  CHECK(read.totals.counts.read == 50);
}

TEST_CASE("a record keeps its place in the file after the program", "[data]") {
  const ScratchDir dir;
  const std::string text = numbered_lines(3000);
  // Both scripts leave the lines unchanged. `cat` writes at once; `tac` writes at the end of its
  // input.
  for (const char* script : {"cat", "tac | tac"}) {
    for (const char* shuffle : {"off", "shard", "100"}) {
      const auto plan = plan_through(dir, text, script);
      plan->data.shuffle = shuffle;
      plan->holdout = 0.2;
      const auto plain = without_program(*plan);
      for (const Split part : {Split::kAll, Split::kTrain, Split::kHeldOut}) {
        const uint64_t half = text.size() / 2;
        for (const plan::ShardRange range :
             {plan::ShardRange{0, 0, half}, plan::ShardRange{0, half, text.size()}}) {
          INFO(script << " " << shuffle << " from " << range.begin);
          check_same(read_shard(plan, range, {1, 2}, part).value(),
                     read_shard(plain, range, {1, 2}, part).value());
        }
      }
    }
  }
}

TEST_CASE("windows of the file and of the output of the program may end at different records",
          "[data]") {
  const ScratchDir dir;
  const std::string text =
      numbered_lines(200'000);  // 3 windows of the file, about 45 of the output
  REQUIRE(text.size() > 2 * kPlainWindowBytes);
  const auto plan = plan_through(dir, text, "cat");
  plan->batch_size = 5000;
  check_same(read_file(plan).value(), read_file(without_program(*plan)).value());
}

TEST_CASE("the program runs once for each range of a shard that joins several", "[data]") {
  const ScratchDir dir;
  const std::string text = numbered_lines(4000);
  const auto plan = plan_through(dir, text, "echo run >> runs; cat");
  plan->data.shuffle = "300";
  plan->data.interleave = {.cycle = 3, .block = 7};
  plan->source.skip = 100;
  plan->source.take = 3000;
  const auto plain = without_program(*plan);
  std::vector<plan::ShardRange> ranges;
  for (uint64_t i = 0; i < 3; ++i)
    ranges.push_back({.begin = text.size() * i / 3, .end = text.size() * (i + 1) / 3});
  for (auto& range : ranges) {
    range.records_before =
        uint64_t(std::count(text.begin(), text.begin() + ptrdiff_t(range.begin), '\n') * 7 / 8);
  }
  const auto told = [&](const std::shared_ptr<const ReadPlan>& of) {
    const auto reader = open_shard(of, Split::kAll, {0, 0}, ranges, 3).value();
    std::vector<std::vector<float>> batches;
    for (Batch batch; reader->next(batch).value();) batches.push_back(batch.floats[0].values);
    CHECK(batches.size() > 700);
    return std::pair(batches, reader->totals().records_hash);
  };
  CHECK(told(plan) == told(plain));
  CHECK(text_in(dir / "runs") == "run\nrun\nrun\n");
}

TEST_CASE("a program reads only the records that are chosen by number", "[data]") {
  const ScratchDir dir;
  const std::string text = numbered_lines(100);
  const auto plan = plan_through(dir, text, "tee -a seen");
  plan->source = {.skip = 10, .take = 50, .shard_count = 2, .shard_index = 1};
  plan::ShardRange range{0, 0, text.size()};
  range.modulus = 5;
  range.stream = 3;
  const ShardRead read = read_shard(plan, range).value();
  CHECK(ids_of(read) == std::vector<float>{17, 27, 37, 47, 57});
  CHECK(text_in(dir / "seen") == "17,17.5\n27,27.5\n37,37.5\n47,47.5\n57,57.5\n");
  check_same(read, read_shard(without_program(*plan), range).value());
  // If no record is chosen, the program is not started. The totals are still correct.
  range.records_before = 60;
  plan->data.program = {"sh", "-c", "echo started > none; cat"};
  const ShardRead none = read_shard(plan, range).value();
  CHECK(none.floats.empty());
  check_same(none, read_shard(without_program(*plan), range).value());
  CHECK(!std::filesystem::exists(dir / "none"));
}

TEST_CASE("an empty line drops its record", "[data]") {
  const ScratchDir dir;
  const auto plan =
      plan_through(dir, numbered_lines(10), "awk -F, '{ print $1 % 3 == 0 ? $0 : \"\" }'");
  const ShardRead read = read_file(plan).value();
  CHECK(ids_of(read) == std::vector<float>{0, 3, 6, 9});
  CHECK(read.totals.counts.read == 10);
  CHECK(read.totals.counts.filtered == 6);
  // A prediction needs a result for every record.
  auto prediction = std::make_shared<ReadPlan>(*for_prediction(*plan));
  CHECK_THAT(error_of(prediction).what, Contains("dropped a record"));
}

TEST_CASE("a program reads and writes TFRecords with valid checksums", "[data]") {
  const ScratchDir dir;
  std::string file = numbered_file(40);
  const auto plan = numbered_plan(dir.write("numbered.tfrecord", file));
  plan->base_dir = dir.path();
  const ShardRead plain = read_file(plan).value();
  plan->data.program = {"cat"};
  check_same(read_file(plan).value(), plain);

  // A damaged record is not sent to the program. It remains a bad record at its place.
  const std::vector<std::string> head = {numbered_example(0), numbered_example(1)};
  file[framed(head).size() + kFrameHeaderBytes + 3] ^= 1;
  const auto damaged = numbered_plan(dir.write("damaged.tfrecord", file));
  damaged->base_dir = dir.path();
  damaged->data.program = {"cat"};
  CHECK_THAT(error_of(damaged).what, Contains("has a wrong checksum"));
  CHECK_THAT(error_of(damaged).where, Contains("damaged.tfrecord"));
  damaged->data.bad_records = BadRecords::kSkip;
  auto as_is = std::make_shared<ReadPlan>(*damaged);
  as_is->data.program.clear();
  const ShardRead skipped = read_file(damaged).value();
  CHECK(skipped.totals.counts.skipped == 1);
  CHECK(skipped.floats.size() == 39);
  check_same(skipped, read_file(as_is).value());
  for (const auto& each : {damaged, as_is}) each->data.shuffle = "shard";
  check_same(read_file(damaged).value(), read_file(as_is).value());
}

TEST_CASE("a line that is too long is a bad record at its place", "[data]") {
  const ScratchDir dir;
  const std::string text = "1,1\n" + std::string(kLineBytesMax + 10, '7') + "\n2,2\n";
  const auto plan = plan_through(dir, text, "cat");
  CHECK_THAT(error_of(plan).what,
             Contains("is longer than the maximum (16 MiB for a line, 64 MiB for a TFRecord)"));
  plan->data.bad_records = BadRecords::kSkip;
  const ShardRead read = read_file(plan).value();
  CHECK(ids_of(read) == std::vector<float>{1, 2});
  CHECK(read.totals.counts.skipped == 1);
}

TEST_CASE("an error in the output of the program names the line of the input record", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_through(dir, "1,1\n\n2,2\n3,3\n", "sed 's/^2,/two,/'");
  const Error error = error_of(plan);
  CHECK_THAT(error.what, Contains("\"two\""));
  CHECK_THAT(error.where, Contains("rows.csv:3"));
  CHECK_THAT(error.where, Contains("data.program: sh -c"));
}

TEST_CASE("a program that does not write one record for each input record is an error", "[data]") {
  const ScratchDir dir;
  const std::string text = numbered_lines(2000);
  for (const auto& [script, what] : {
           std::pair{"sed 1d", "wrote 1999 records, but must write 2000"},
           {"sed 'p'", "wrote more records than"},
           {"cat; echo 9,9", "wrote more records than the 2000"},
           {"cat; echo broken >&2; exit 3", "ended with status 3: broken"},
           {"cat > /dev/null", "wrote 0 records, but must write 2000"},
           {"head -n 1 > /dev/null", "wrote 0 records, but must write 2000"},
           {"kill -9 $$", "was killed by signal 9"},
       }) {
    INFO(script);
    const Error error = error_of(plan_through(dir, text, script));
    CHECK_THAT(error.what, Contains(what));
    CHECK_THAT(error.where, Contains("sh -c"));
  }
  // The program exits before it has read all of an input that is larger than a pipe buffer.
  const Error early = error_of(plan_through(dir, numbered_lines(200'000), "head -n 5"));
  CHECK_THAT(early.what, Contains("ended before it read all records"));
  const auto frames = numbered_plan(dir.write("numbered.tfrecord", numbered_file(40)));
  frames->base_dir = dir.path();
  frames->data.program = {"tr", "a-z", "A-Z"};
  CHECK_THAT(error_of(frames).what, Contains("has a wrong checksum"));
  CHECK_THAT(error_of(frames).where, Contains("(as data.program: tr a-z A-Z wrote the record)"));
  frames->data.program = {"head", "-c", "100"};
  CHECK_THAT(error_of(frames).what, Contains("wrote bytes that are not a TFRecord"));
}

TEST_CASE("the environment of a program has the purpose, the seed, the epoch and the file",
          "[data]") {
  const ScratchDir dir;
  const auto plan = plan_through(
      dir, numbered_lines(3),
      "echo $DOWNPOUR_PURPOSE $DOWNPOUR_SEED $DOWNPOUR_EPOCH $DOWNPOUR_FILE >> told; cat");
  plan->seed = 5;
  (void)read_shard(plan, {0, 0, plan->files[0].bytes}, {2, 0}).value();
  (void)read_file(
      std::make_shared<ReadPlan>(*for_evaluation(*plan, plan->data.source, plan->files)))
      .value();
  (void)read_file(std::make_shared<ReadPlan>(*for_prediction(*plan))).value();
  const std::string file = dir / "rows.csv";
  CHECK(text_in(dir / "told") ==
        str("train 5 2 ", file, "\neval 5 0 ", file, "\npredict 5 0 ", file, "\n"));
}

TEST_CASE("the output of a program is cached, including dropped records", "[data]") {
  const ScratchDir dir;
  const auto plain = plan_through(dir, numbered_lines(500),
                                  "echo run >> runs; awk -F, '{ print $1 % 5 ? $0 : \"\" }'");
  plain->data.shuffle = "shard";
  plain->holdout = 0.1;
  const auto cached = with_cache(*plain, make_cache_store(Cache::kMemory, 64 << 20, ""));
  const plan::ShardRange all{0, 0, plain->files[0].bytes};
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    INFO("epoch " << epoch);
    check_same(read_shard(cached, all, {epoch, 0}, Split::kTrain).value(),
               read_shard(plain, all, {epoch, 0}, Split::kTrain).value());
  }
  CHECK(text_in(dir / "runs") ==
        "run\nrun\nrun\nrun\n");  // 3 for the plain plan, 1 for the cached one
}

TEST_CASE("data.program may change the records that a program as source writes", "[data]") {
  const ScratchDir dir;
  auto plan = std::make_shared<ReadPlan>();
  plan->data = DataSpec{.format = DataFormat::kCsv, .columns = {"id", "x"}, .shuffle = "off"};
  plan->data.fields = {{.name = "id"}, {.name = "x"}};
  plan->data.program = {"sed", "s/,0/,1/"};
  plan->source = {.exec = {"sh", "-c", "for i in 1 2 3; do echo $i,0; done"}};
  plan->data.source = plan->source;
  plan->base_dir = dir.path();
  plan->layout.floats = {{"id", 1}, {"x", 1}};
  plan->batch_size = 4;
  plan->files = {program_info(plan->source)};
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == std::vector<std::vector<float>>{{1, 1}, {2, 1}, {3, 1}});
}

}  // namespace downpour::data
