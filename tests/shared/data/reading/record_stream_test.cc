// RecordStream: sources that can only be read from the start are read once for all readers.
#include "shared/data/reading/record_stream.h"

#include <algorithm>
#include <sstream>
#include <thread>

#include "shared/data/reading/program.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Matchers::Contains;

constexpr const char* kCountsItsRuns = "echo run >> runs; seq 0 9999 | sed 's/$/,0/'";

/// Returns a plan of a CSV source that `script` writes, with the columns `id` and `y`, cut into
/// pieces.
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
Result<Piece> read_all_of(ShardReader& reader) {
  Piece piece;
  for (Batch batch;;) {
    DP_TRY(const bool more, reader.next(batch));
    if (!more) break;
    const auto& values = batch.floats[0].values;
    piece.ids.insert(piece.ids.end(), values.begin(), values.end());
  }
  piece.totals = reader.totals();
  return piece;
}
Result<Piece> read_piece(const std::shared_ptr<const ReadPlan>& plan, uint32_t shard,
                         uint32_t epoch = 0) {
  DP_TRY(const auto reader,
         open_shard(plan, Split::kAll, {epoch, shard}, pieces_of(*plan)[shard], 0));
  return read_all_of(*reader);
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

TEST_CASE("the shards of a stream come from one run of the program, in any order of reading",
          "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_stream(dir, kCountsItsRuns, 10'000, 640);
  const uint32_t count = uint32_t(pieces_of(*plan).size());
  REQUIRE(count == 16);
  // The pieces of each pair are read in reverse order. The piece that is passed waits in memory.
  uint64_t mark = 0;
  std::vector<Piece> pieces(count);
  for (uint32_t i = 0; i < count; i += 2) {
    pieces[i + 1] = read_piece(plan, i + 1).value();
    pieces[i] = read_piece(plan, i).value();
  }
  for (uint32_t i = 0; i < count; ++i) {
    CAPTURE(i);
    CHECK(pieces[i].ids == from_to(int(i) * 640, std::min(int(i + 1) * 640, 10'000)));
    CHECK(pieces[i].totals.first_offset == mark);  // where the piece before ended
    mark = pieces[i].totals.end_offset;
  }
  CHECK(mark == 10'000);
  CHECK(runs(dir) == 1);
  // The next epoch starts another run.
  CHECK(read_piece(plan, 3, 1).value().ids == pieces[3].ids);
  CHECK(runs(dir) == 2);
}

TEST_CASE("readers on several threads share one run of a stream", "[data]") {
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

TEST_CASE("a piece that is no longer kept is read again by another run", "[data]") {
  const ScratchDir dir;
  // Lines of 8 KiB, together more than the stream keeps in memory.
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

TEST_CASE("a piece is shuffled within itself, and in the same way in every process", "[data]") {
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

TEST_CASE("the marks of a stream depend on all records before them", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_stream(dir, "seq 0 9999 | sed 's/$/,0/'", 10'000, 1000);
  const auto other = plan_of_stream(dir, "seq 0 9999 | sed 's/$/,0/; s/^17,/71,/'", 10'000, 1000);
  const Piece here = read_piece(plan, 4).value(), there = read_piece(other, 4).value();
  CHECK(here.ids == there.ids);
  CHECK(here.totals.records_hash == there.totals.records_hash);
  CHECK(here.totals.first_offset != there.totals.first_offset);
}

TEST_CASE("a stream with more or fewer records than the job declares is an error", "[data]") {
  const ScratchDir dir;
  const auto fewer = plan_of_stream(dir, "seq 1500 | sed 's/$/,0/'", 2000, 640);
  CHECK(read_piece(fewer, 1).value().ids.size() == 640);
  const auto short_one = read_piece(fewer, 3);
  REQUIRE(!short_one);
  CHECK_THAT(short_one.error().what, Contains("wrote only 1500 records of the 2000"));
  const auto more = plan_of_stream(dir, "seq 2001 | sed 's/$/,0/'", 2000, 640);
  CHECK(read_piece(more, 0).value().ids.size() == 640);
  const auto long_one = read_piece(more, 3);
  REQUIRE(!long_one);
  CHECK_THAT(long_one.error().what, Contains("wrote more records than the 2000"));
  const auto fails =
      plan_of_stream(dir, "seq 700 | sed 's/$/,0/'; echo gone >&2; exit 7", 2000, 640);
  const auto failed = read_piece(fails, 2);
  REQUIRE(!failed);
  CHECK_THAT(failed.error().what, Contains("ended with status 7: gone"));
}

/// Reads a piece of a stream whose number of records the job does not declare.
Result<Piece> read_open(const std::shared_ptr<const ReadPlan>& plan, uint32_t piece,
                        uint32_t epoch = 0) {
  const plan::ShardMap shards(plan::cut_shards(plan->files, 1), 1,
                              joining_of(plan->data, plan->files));
  DP_TRY(const auto reader,
         open_shard(plan, Split::kAll, {epoch, piece}, shards.at(epoch, piece), 0));
  return read_all_of(*reader);
}

TEST_CASE("a stream of unknown length ends with the piece that reaches its end", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_stream(dir, kCountsItsRuns, 0, 640);
  REQUIRE(plan->files[0].is_open());
  // A piece after the end is read first. All pieces before it wait in memory.
  const Piece behind = read_open(plan, 20).value();
  CHECK(behind.ids.empty());
  CHECK(behind.totals.counts == ReadCounts{});
  CHECK(behind.totals.first_offset == plan::kOpenEnd);
  CHECK(behind.totals.end_offset == plan::kOpenEnd);
  uint64_t mark = 0;
  for (uint32_t i = 0; i < 16; ++i) {
    CAPTURE(i);
    const Piece piece = read_open(plan, i).value();
    CHECK(piece.ids == from_to(int(i) * 640, std::min(int(i + 1) * 640, 10'000)));
    CHECK(piece.totals.first_offset == mark);
    mark = piece.totals.end_offset;
    CHECK((mark == plan::kOpenEnd) == (i == 15));
  }
  CHECK(runs(dir) == 1);
  // If the last record fills its piece, only the next piece shows that the stream has ended.
  const auto even = plan_of_stream(dir, "seq 0 1279 | sed 's/$/,0/'", 0, 640);
  const Piece last = read_open(even, 1).value();
  CHECK(last.ids == from_to(640, 1280));
  CHECK(last.totals.end_offset != plan::kOpenEnd);
  const Piece end = read_open(even, 2).value();
  CHECK(end.ids.empty());
  CHECK(end.totals.first_offset == last.totals.end_offset);
  CHECK(end.totals.end_offset == plan::kOpenEnd);
  const auto nothing = plan_of_stream(dir, "true", 0, 640);
  CHECK(read_open(nothing, 0).value().totals.end_offset == plan::kOpenEnd);
  const auto fails = plan_of_stream(dir, "seq 700 | sed 's/$/,0/'; echo gone >&2; exit 7", 0, 640);
  const auto failed = read_open(fails, 1);
  REQUIRE(!failed);
  CHECK_THAT(failed.error().what, Contains("ended with status 7: gone"));
}

TEST_CASE("the shards of a program that never ends have only the chosen records", "[data]") {
  const ScratchDir dir;
  const auto ids_of = [&](SourceSpec part) {
    const auto plan =
        plan_of_stream(dir, "i=0; while :; do echo $i,0; i=$((i + 1)); done", 0, 640, "shard");
    plan->source.skip = part.skip;
    plan->source.take = part.take;
    plan->source.shard_count = part.shard_count;
    plan->source.shard_index = part.shard_index;
    std::vector<float> ids;
    for (uint32_t i = 0;; ++i) {
      REQUIRE(i < 20);
      const Piece piece = read_open(plan, i).value();
      CHECK(piece.totals.counts.read == piece.ids.size());
      ids.insert(ids.end(), piece.ids.begin(), piece.ids.end());
      if (piece.totals.end_offset == plan::kOpenEnd) break;
      CHECK(piece.ids.size() == 640);
    }
    std::ranges::sort(ids);
    return ids;
  };
  CHECK(ids_of({.take = 1000}) == from_to(0, 1000));
  CHECK(ids_of({.skip = 700, .take = 640}) == from_to(700, 1340));
  const std::vector<float> third =
      ids_of({.skip = 5, .take = 3000, .shard_count = 3, .shard_index = 1});
  REQUIRE(third.size() == 1000);
  for (size_t i = 0; i < third.size(); ++i) CHECK(third[i] == float(6 + 3 * i));
}

TEST_CASE("a piece of long records ends early to limit memory, at the same record in every process",
          "[data]") {
  const ScratchDir dir;
  const std::string script =
      "awk 'BEGIN { s = \"0\"; while (length(s) < 16384) s = s s; "
      "for (i = 0; i < 9000; ++i) print i \",\" s }'";
  const auto here = plan_of_stream(dir, script, 0, 8000),
             there = plan_of_stream(dir, script, 0, 8000);
  const size_t fit = (64 << 20) / 16400;  // approximately
  int at = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    const Piece piece = read_open(here, i).value();
    if (i < 2) CHECK(piece.ids.size() == Approx(double(fit)).epsilon(0.01));
    CHECK(piece.ids == from_to(at, at + int(piece.ids.size())));
    at += int(piece.ids.size());
    CHECK((piece.totals.end_offset == plan::kOpenEnd) == (i == 2));
    CHECK(read_open(there, i).value().totals.end_offset == piece.totals.end_offset);
  }
  CHECK(at == 9000);
}

TEST_CASE("the error for a bad record of a stream names its byte, with blank lines counted",
          "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_stream(
      dir, "seq 0 699 | sed 's/$/,0/'; printf '\\n\\n'; echo x,0; seq 701 1999 | sed 's/$/,0/'",
      2000, 640);
  CHECK(read_piece(plan, 0).value().ids.size() == 640);
  const auto bad = read_piece(plan, 1);
  REQUIRE(!bad);
  CHECK(bad.error().code == ErrorCode::kBadData);
  // Before it are 10 lines of 4 bytes, 90 of 5, 600 of 6, and two line breaks.
  CHECK_THAT(bad.error().where, Contains("byte 4092 of its output"));
  CHECK_THAT(bad.error().where, Contains("records [640, 1280)"));
}

// ---- compressed files

/// Returns a plan of a compressed CSV file with the columns `id` and `y`, cut at `cuts`.
std::shared_ptr<ReadPlan> plan_of_file(const std::string& path, std::vector<uint64_t> cuts) {
  auto plan = plan_of(path, DataFormat::kCsv);
  plan->data.header = true;
  plan->data.fields = {{.name = "id", .type = FieldType::kFloat32},
                       {.name = "y", .type = FieldType::kFloat32}};
  plan->layout.floats = {{"id", 1}, {"y", 1}};
  plan->files[0].cuts = std::move(cuts);
  return plan;
}
std::string csv_rows(int count) {
  std::string text = "id,y\n";
  for (int i = 0; i < count; ++i) text += str(i, ",0\n");
  return text;
}
std::vector<uint64_t> cuts_every(uint64_t step, uint64_t bytes) {
  std::vector<uint64_t> cuts;
  for (uint64_t cut = step; cut < bytes; cut += step) cuts.push_back(cut);
  return cuts;
}

TEST_CASE("the shards of a compressed file are its records in order, in any order of reading",
          "[data]") {
  const ScratchDir dir;
  const std::string text = csv_rows(50'000);
  const size_t half = text.size() / 2;
  for (auto* const compress :
       {+[](const std::string& t) { return gzipped(t); }, &zlib_compressed, &zstd_compressed}) {
    const std::string bytes = compress(text.substr(0, half)) + compress(text.substr(half));
    const std::string path = dir.write("rows.csv.z", bytes);
    // A piece of a single byte has no records.
    std::vector<uint64_t> cuts = cuts_every(bytes.size() / 7, bytes.size());
    cuts.insert(cuts.begin(), 1);
    const auto plan = plan_of_file(path, cuts);
    REQUIRE(plan->files[0].is_streamed());
    const auto ranges = pieces_of(*plan);
    REQUIRE(ranges.size() == cuts.size() + 1);
    std::vector<Piece> pieces(ranges.size());
    for (size_t i = ranges.size(); i-- > 0;) pieces[i] = read_piece(plan, uint32_t(i)).value();
    std::vector<float> ids;
    uint64_t mark = 0;
    size_t empty = 0;
    for (const Piece& piece : pieces) {
      ids.insert(ids.end(), piece.ids.begin(), piece.ids.end());
      empty += piece.ids.empty();
      CHECK(piece.totals.first_offset == mark);
      mark = piece.totals.end_offset;
    }
    CHECK(ids == from_to(0, 50'000));
    CHECK(mark == bytes.size());
    CHECK(pieces[0].ids.empty());
    CHECK(pieces.size() - empty >= 3);  // zstd decompresses whole blocks of 128 KiB
    // Another process, which starts at another piece.
    const auto other = plan_of_file(path, cuts);
    for (const size_t i : {ranges.size() / 2, size_t{1}}) {
      const Piece again = read_piece(other, uint32_t(i)).value();
      CHECK(again.ids == pieces[i].ids);
      CHECK(again.totals.first_offset == pieces[i].totals.first_offset);
      CHECK(again.totals.records_hash == pieces[i].totals.records_hash);
    }
  }
}

TEST_CASE("the progress of a piece of a compressed file ends at its number of compressed bytes",
          "[data]") {
  const ScratchDir dir;
  const std::string bytes = gzipped(csv_rows(50'000));
  const auto plan = plan_of_file(dir.write("f", bytes), cuts_every(20'000, bytes.size()));
  const plan::ShardRange range = pieces_of(*plan)[1];
  const auto reader = open_shard(plan, Split::kAll, {0, 1}, range, 0).value();
  uint64_t progress = 0;
  for (Batch batch; reader->next(batch).value();) {
    CHECK(batch.end_offset > progress);
    progress = batch.end_offset;
  }
  CHECK(progress == range.end - range.begin);
}

TEST_CASE("the error for a bad record in a piece of a compressed file names its line", "[data]") {
  const ScratchDir dir;
  std::string text = csv_rows(50'000);
  text.replace(text.find("\n40000,0\n"), 9, "\nforty,0\n");
  const std::string bytes = gzipped(text);
  const auto plan = plan_of_file(dir.write("f", bytes), cuts_every(10'000, bytes.size()));
  std::string where;
  for (uint32_t i = 0; i < pieces_of(*plan).size() && where.empty(); ++i) {
    const auto piece = read_piece(plan, i);
    if (!piece) where = piece.error().where;
  }
  CHECK_THAT(where, Contains("f:40002"));
}

TEST_CASE("a truncated compressed file is an error only of the pieces that reach the damage",
          "[data]") {
  const ScratchDir dir;
  std::string bytes = gzipped(csv_rows(400'000));  // more than is read ahead
  bytes.resize(bytes.size() / 2);
  const auto plan = plan_of_file(dir.write("f", bytes), cuts_every(10'000, bytes.size()));
  CHECK(read_piece(plan, 0).value().ids.size() > 1000);
  const auto last = read_piece(plan, uint32_t(pieces_of(*plan).size() - 1));
  REQUIRE(!last);
  CHECK_THAT(last.error().what,
             Contains("the file is truncated (an incomplete download or copy?)"));
}

TEST_CASE("stopping the programs releases all readers that wait for a stream", "[data]") {
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
