// A program that can only be read from its start, read once for several shards and readers.
#include "shared/data/program_stream.h"

#include <algorithm>
#include <sstream>
#include <thread>

#include "shared/data/program.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Matchers::Contains;

constexpr const char* kCountsItsRuns = "echo run >> runs; seq 0 9999 | sed 's/$/,0/'";

/// A plan of a CSV source with the columns `id` and `y` that `script` writes, cut in pieces.
std::shared_ptr<ReadPlan> plan_of_stream(const ScratchDir& dir, const std::string& script,
                                         uint64_t records, uint64_t records_a_piece,
                                         const std::string& shuffle = "off") {
  auto plan = std::make_shared<ReadPlan>();
  plan->data = DataSpec{.format = DataFormat::kCsv, .columns = {"id", "y"}, .shuffle = shuffle};
  plan->data.fields = {{.name = "id", .type = FieldType::kFloat32},
                       {.name = "y", .type = FieldType::kFloat32}};
  plan->source = {.exec = {"sh", "-c", script}, .records = records};
  plan->data.source = plan->source;
  plan->base_dir = dir.path();
  plan->layout.floats = {{"id", 1}, {"y", 1}};
  plan->batch_size = 64;
  plan->files = {program_info(plan->source)};
  cut_program(plan->source, records_a_piece, plan->files[0]);
  return plan;
}

std::vector<plan::ShardRange> pieces_of(const ReadPlan& plan) {
  return plan::cut_shards(plan.files, 1);
}

struct Piece {
  std::vector<float> ids;
  ShardTotals totals;
};
Result<Piece> read_piece(const std::shared_ptr<const ReadPlan>& plan, uint32_t shard,
                         uint32_t epoch = 0) {
  DP_TRY(const auto reader,
         open_shard(plan, Part::kAll, {epoch, shard}, pieces_of(*plan)[shard], 0));
  Piece piece;
  for (Batch batch;;) {
    DP_TRY(const bool more, reader->next(batch));
    if (!more) break;
    const auto& values = batch.floats[0].values;
    piece.ids.insert(piece.ids.end(), values.begin(), values.end());
  }
  piece.totals = reader->totals();
  return piece;
}
std::vector<float> from_to(int begin, int end) {
  std::vector<float> ids;
  for (int i = begin; i < end; ++i) ids.push_back(float(i));
  return ids;
}
size_t runs(const ScratchDir& dir) {
  std::ifstream in(dir / "runs");
  size_t count = 0;
  for (std::string line; std::getline(in, line);) ++count;
  return count;
}

TEST_CASE("a stream's pieces are its records in order, of one run, whoever asks first", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_stream(dir, kCountsItsRuns, 10'000, 640);
  const uint32_t count = uint32_t(pieces_of(*plan).size());
  REQUIRE(count == 16);
  // Backwards in pairs: what is passed on the way waits.
  uint64_t mark = 0;
  std::vector<Piece> pieces(count);
  for (uint32_t i = 0; i < count; i += 2) {
    pieces[i + 1] = read_piece(plan, i + 1).value();
    pieces[i] = read_piece(plan, i).value();
  }
  for (uint32_t i = 0; i < count; ++i) {
    CAPTURE(i);
    CHECK(pieces[i].ids == from_to(int(i) * 640, std::min(int(i + 1) * 640, 10'000)));
    CHECK(pieces[i].totals.first_offset == mark);  // begins with what the one before ended with
    mark = pieces[i].totals.end_offset;
  }
  CHECK(mark == 10'000);
  CHECK(runs(dir) == 1);
  // The next epoch is another run.
  CHECK(read_piece(plan, 3, 1).value().ids == pieces[3].ids);
  CHECK(runs(dir) == 2);
}

TEST_CASE("readers on several threads share a stream's run", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_stream(dir, kCountsItsRuns, 10'000, 64);
  const auto count = uint32_t(pieces_of(*plan).size());
  std::atomic<uint32_t> next = 0, right = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      for (uint32_t shard; (shard = next++) < count;) {
        const auto piece = read_piece(plan, shard);
        const int begin = int(shard) * 64;
        right += piece && piece->ids == from_to(begin, std::min(begin + 64, 10'000));
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(right == count);
  CHECK(runs(dir) == 1);
}

TEST_CASE("a piece that was let go is read again, by another run", "[data]") {
  const ScratchDir dir;
  // Of 8 KiB a line: more than waits for its readers.
  const auto plan =
      plan_of_stream(dir,
                     "echo run >> runs; awk 'BEGIN { s = \"0\"; while (length(s) < 8192) s = s s; "
                     "for (i = 0; i < 20000; ++i) print i \",\" s }'",
                     20'000, 640);
  const auto last = uint32_t(pieces_of(*plan).size() - 1);
  const Piece first = read_piece(plan, 0).value();
  CHECK(read_piece(plan, last).value().ids == from_to(int(last) * 640, 20'000));
  CHECK(runs(dir) == 1);
  const Piece again = read_piece(plan, 0).value();
  CHECK(again.ids == first.ids);
  CHECK(again.totals.records_hash == first.totals.records_hash);
  CHECK(again.totals.end_offset == first.totals.end_offset);
  CHECK(runs(dir) == 2);
}

TEST_CASE("a piece is shuffled by itself, the same in every process", "[data]") {
  const ScratchDir dir;
  const auto one = plan_of_stream(dir, kCountsItsRuns, 10'000, 1000, "shard");
  const auto other = plan_of_stream(dir, kCountsItsRuns, 10'000, 1000, "shard");
  (void)read_piece(one, 3).value();
  const Piece here = read_piece(one, 4).value(), there = read_piece(other, 4).value();
  CHECK(here.ids == there.ids);
  CHECK(here.totals.records_hash == there.totals.records_hash);
  std::vector<float> sorted = here.ids;
  CHECK_FALSE(std::is_sorted(sorted.begin(), sorted.end()));
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == from_to(4000, 5000));
}

TEST_CASE("a stream that gives other records has other marks", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_stream(dir, "seq 0 9999 | sed 's/$/,0/'", 10'000, 1000);
  const auto other = plan_of_stream(dir, "seq 0 9999 | sed 's/$/,0/; s/^17,/71,/'", 10'000, 1000);
  const Piece here = read_piece(plan, 4).value(), there = read_piece(other, 4).value();
  CHECK(here.ids == there.ids);
  CHECK(here.totals.records_hash == there.totals.records_hash);
  CHECK(here.totals.first_offset != there.totals.first_offset);
}

TEST_CASE("a stream with another number of records than the job says is an error", "[data]") {
  const ScratchDir dir;
  const auto fewer = plan_of_stream(dir, "seq 1500 | sed 's/$/,0/'", 2000, 640);
  CHECK(read_piece(fewer, 1).value().ids.size() == 640);
  const auto short_one = read_piece(fewer, 3);
  REQUIRE(!short_one);
  CHECK_THAT(short_one.error().what, Contains("gave only 1500 records of the 2000"));
  const auto more = plan_of_stream(dir, "seq 2001 | sed 's/$/,0/'", 2000, 640);
  CHECK(read_piece(more, 0).value().ids.size() == 640);
  const auto long_one = read_piece(more, 3);
  REQUIRE(!long_one);
  CHECK_THAT(long_one.error().what, Contains("gave more records than the 2000"));
  const auto fails =
      plan_of_stream(dir, "seq 700 | sed 's/$/,0/'; echo gone >&2; exit 7", 2000, 640);
  const auto failed = read_piece(fails, 2);
  REQUIRE(!failed);
  CHECK_THAT(failed.error().what, Contains("ended with status 7: gone"));
}

TEST_CASE("a bad record of a stream is named by its byte, blank lines counted", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_stream(
      dir, "seq 0 699 | sed 's/$/,0/'; printf '\\n\\n'; echo x,0; seq 701 1999 | sed 's/$/,0/'",
      2000, 640);
  CHECK(read_piece(plan, 0).value().ids.size() == 640);
  const auto bad = read_piece(plan, 1);
  REQUIRE(!bad);
  CHECK(bad.error().code == ErrorCode::kBadData);
  // 10 lines of 4 bytes, 90 of 5, 600 of 6, and two line breaks.
  CHECK_THAT(bad.error().where, Contains("byte 4092 of its output"));
  CHECK_THAT(bad.error().where, Contains("records [640, 1280)"));
}

TEST_CASE("stopping the programs brings back all who wait for a stream", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_stream(dir, "seq 0 99 | sed 's/$/,0/'; sleep 1000", 2000, 640);
  std::vector<std::thread> readers;
  std::atomic<int> stopped = 0;
  for (uint32_t i = 0; i < 3; ++i)
    readers.emplace_back([&, i] { stopped += !read_piece(plan, i); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  stop_programs(*plan->programs);
  for (std::thread& reader : readers) reader.join();
  CHECK(stopped == 3);
}

}  // namespace
}  // namespace downpour::data
