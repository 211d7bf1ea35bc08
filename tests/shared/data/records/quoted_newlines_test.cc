// data.quoted_newlines: records of several lines, for any cuts and windows.
#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/data/formats/parser.h"
#include "shared/data/formats/sniff.h"
#include "shared/data/formats/text/table_columns.h"
#include "shared/data/reading/program.h"
#include "shared/data/reading/record_trace.h"
#include "shared/data/records/line_windows.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

/// Returns a plan of a CSV file with the columns `id` and `text`.
std::shared_ptr<ReadPlan> plan_of_text(const std::string& path) {
  auto plan = plan_of(path, DataFormat::kCsv);
  plan->data.columns = {"id", "text"};
  plan->data.quoted_newlines = true;
  plan->data.fields = {{.name = "id"},
                       {.name = "text", .type = FieldType::kString, .fallback = ""}};
  plan->files = list_files(plan->data, plan->data.source, "/").value();
  plan->layout = {.floats = {{"id", 1}}, .bags = {{"text", 0}}, .tables = {TableId(0)}};
  return plan;
}
uint64_t key_of(const std::string& text) {
  return hash_combine(hash_string("text"), hash_string(text));
}

struct Row {
  float id = 0;
  uint64_t text = 0;
  bool operator==(const Row&) const = default;
};
void add_rows(const ShardRead& read, std::vector<Row>& rows) {
  for (size_t i = 0; i < read.floats.size(); ++i)
    rows.push_back({read.floats[i][0], read.keys[i][0][0]});
}
std::vector<Row> rows_of(std::shared_ptr<const ReadPlan> plan) {
  std::vector<Row> rows;
  add_rows(read_file(plan).value(), rows);
  return rows;
}
std::vector<Row> rows_by_shards(const std::shared_ptr<ReadPlan>& plan, uint64_t target,
                                size_t& shards) {
  REQUIRE(find_cuts(plan->data, plan->source, target, plan->files));
  std::vector<Row> rows;
  const auto ranges = plan::cut_shards(plan->files, target);
  for (const plan::ShardRange& range : ranges) add_rows(read_shard(plan, range).value(), rows);
  shards = ranges.size();
  return rows;
}

/// Returns a quoted cell as RFC 4180 defines it.
std::string in_quotes(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

struct Table {
  std::string text;
  std::vector<Row> rows;
};
/// Returns `count` rows whose quoted cells contain quotes, delimiters and line breaks. Lines end in
/// LF or CR LF, and some blank lines follow.
Table random_table(Rng& rng, int count) {
  Table table;
  for (int i = 0; i < count; ++i) {
    std::string cell;
    for (uint64_t length = rng.below(12); length > 0; --length) cell += "ab,\"\n\r1 "[rng.below(8)];
    table.text += str(i, rng.below(4) == 0 ? ", " : ",", in_quotes(cell));
    table.text += rng.below(3) == 0 ? "\r\n" : "\n";
    if (rng.below(5) == 0) table.text += "\n";  // a blank line is not a record
    table.rows.push_back({float(i), key_of(cell)});
  }
  return table;
}

}  // namespace

TEST_CASE("CSV: a line break in quotes belongs to its cell", "[data]") {
  const ScratchDir dir;
  const std::string text =
      "1,plain\n"
      "2,\"two\nlines\"\n"
      "3,\"a \"\"quote\"\"\r\nand, more\"\r\n"
      "4, \"\n\" \n"
      "\n"
      "5,5\" disk\n"  // a quote inside a cell is an ordinary character
      "6,\"last\n\n\"";
  const std::vector<Row> rows = {
      {1, key_of("plain")}, {2, key_of("two\nlines")}, {3, key_of("a \"quote\"\r\nand, more")},
      {4, key_of("\n")},    {5, key_of("5\" disk")},   {6, key_of("last\n\n")}};
  auto plan = plan_of_text(dir.write("f.csv", text));
  CHECK(rows_of(plan) == rows);
  // The same through data.program, from a compressed file, and from a program as source.
  plan->data.program = {"cat"};
  plan->base_dir = dir.path();
  CHECK(rows_of(plan) == rows);
  CHECK(rows_of(plan_of_text(dir.write("f.csv.gz", gzipped(text)))) == rows);
  auto program = plan_of_text(dir / "f.csv");
  program->data.source = program->source = {.exec = {"cat", dir / "f.csv"}, .records = 6};
  program->base_dir = dir.path();
  program->files = {program_info(program->source)};
  CHECK(rows_of(program) == rows);
  // Without data.quoted_newlines each line is a record, and line 2 is bad.
  auto lines = plan_of_text(dir / "f.csv");
  lines->data.quoted_newlines = false;
  const Error error = error_of(lines);
  CHECK_THAT(error.what,
             Contains("has a quote that is not closed, or text after a closing quote (a line break "
                      "inside quotes needs data.quoted_newlines = true)"));
  CHECK_THAT(error.where, EndsWith("f.csv:2"));
}

TEST_CASE(
    "CSV: a header of several lines, and line numbers in errors after records of several lines",
    "[data]") {
  const ScratchDir dir;
  auto plan = plan_of_text(
      dir.write("f.csv", "a note\n\"the\nid\",\"text\"\n1,\"a\nb\"\n2,\"\n\n\"\nx,\"c\nd\"\n"));
  plan->data.columns.clear();
  plan->data.header = true;
  plan->data.skip_lines = 1;
  plan->data.fields[0].column = "the\nid";
  CHECK(columns_of(plan->data, dir / "f.csv").value() ==
        std::vector<std::string>{"the\nid", "text"});
  const Error error = error_of(plan);
  CHECK_THAT(error.where, EndsWith("f.csv:9"));  // the line in which the record begins
  // find_record() finds a record by any of its lines.
  for (const auto& [line, number] : std::map<uint64_t, uint64_t>{{4, 1}, {5, 1}, {7, 2}, {10, 3}})
    CHECK(find_record(plan, 0, line, RecordUnit::kLine).value().number == number);
  CHECK_FALSE(find_record(plan, 0, 3, RecordUnit::kLine));
  plan->data.bad_records = BadRecords::kSkip;
  CHECK(rows_of(plan) == std::vector<Row>{{1, key_of("a\nb")}, {2, key_of("\n\n")}});
}

TEST_CASE("CSV: each record of several lines is read once for any cuts", "[data]") {
  Rng rng(7);
  for (int turn = 0; turn < 40; ++turn) {
    const ScratchDir dir(/*in_memory=*/true);
    const Table table = random_table(rng, 1 + int(rng.below(60)));
    const auto plan = plan_of_text(dir.write("f.csv", table.text));
    REQUIRE(rows_of(plan) == table.rows);
    for (const uint64_t target : {uint64_t{1}, 1 + rng.below(40), 1 + rng.below(500)}) {
      size_t shards = 0;
      CHECK(rows_by_shards(plan, target, shards) == table.rows);
      if (target == 1) CHECK(shards == table.rows.size());
    }
    // Cuts are found only up to the last taken record.
    plan->source.take = plan->data.source.take = 1 + rng.below(table.rows.size());
    REQUIRE(find_cuts(plan->data, plan->source, 1, plan->files));
    CHECK(plan->files[0].cuts.size() == std::min<size_t>(plan->source.take, table.rows.size() - 1));
  }
}

TEST_CASE("CSV: records of several lines do not depend on the window size", "[data]") {
  Rng rng(8);
  const ScratchDir dir(/*in_memory=*/true);
  Table table = random_table(rng, 3000);
  table.text += "3000,\"" + std::string(300'000, '\n') + "\"\n3001,x\n";  // longer than a window
  const std::string path = dir.write("f.csv", table.text);
  const auto plan = plan_of_text(path);
  const LineRules rules = rules_of(plan->data).value();
  const auto records_at = [&](size_t window_bytes) {
    Buffer buffer;
    std::vector<RecordRef> refs;
    const auto source = open_lines(plan->files[0], {.end = plan->files[0].bytes}, 0, rules,
                                   window_bytes, buffer, refs)
                            .value();
    std::vector<std::pair<uint64_t, uint32_t>> records;
    for (Window window; source->next(window).value();)
      for (const RecordRef& ref : refs) records.emplace_back(window.offset_of(ref), ref.size);
    return records;
  };
  const auto records = records_at(1 << 20);
  CHECK(records.size() == 3002);
  for (const size_t window_bytes : {1, 100, 5000, 70'000})
    CHECK(records_at(window_bytes) == records);
  // records_in() finds the same records.
  const auto texts = records_in(table.text, rules, /*whole=*/true);
  REQUIRE(texts.size() == records.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    CHECK(size_t(texts[i].data() - table.text.data()) == records[i].first);
    CHECK(texts[i].size() == records[i].second);
  }
  // If the text continues, records_in() leaves out a last record that may be incomplete.
  for (const size_t size : {table.text.size() / 2, table.text.size() / 3, size_t{100}}) {
    const auto first = records_in(std::string_view(table.text).substr(0, size), rules, false);
    REQUIRE(first.size() < texts.size());
    for (size_t i = 0; i < first.size(); ++i) REQUIRE(first[i] == texts[i]);
    CHECK(records[first.size()].first + records[first.size()].second >= size - 1);
  }
}

TEST_CASE("CSV: an unclosed quote makes only its line a bad record", "[data]") {
  const ScratchDir dir(/*in_memory=*/true);
  const auto skipping = [&](const std::string& text) {
    auto plan = plan_of_text(dir.write("f.csv", text));
    plan->data.bad_records = BadRecords::kSkip;
    return plan;
  };
  const std::vector<Row> rows = {{1, key_of("a")}, {3, key_of("c")}};
  auto plan = skipping("1,a\n2,\"open\n3,c\n");
  CHECK(rows_of(plan) == rows);
  CHECK(read_file(plan).value().totals.counts.skipped == 1);
  // The same holds if the closing quote is farther away than the length limit of a record.
  const std::string far(17 << 20, 'x');
  plan = skipping("1,a\n2,\"open\n3,c\n" + far + "\n4,\"d\"\n");
  std::vector<Row> more = rows;
  more.push_back({4, key_of("d")});
  CHECK(rows_of(plan) == more);
  CHECK(read_file(plan).value().totals.counts.skipped == 2);
  for (const uint64_t target : {uint64_t{40}, uint64_t{1} << 20}) {
    size_t shards = 0;
    CHECK(rows_by_shards(plan, target, shards) == more);
    CHECK(shards > 1);
  }
  // If another quote closes it, the lines up to that quote belong to the same bad record.
  plan = skipping("1,a\n2,\"open\n3,\"c\"\n4,d\n");
  CHECK(rows_of(plan) == std::vector<Row>{{1, key_of("a")}, {4, key_of("d")}});
}

TEST_CASE("CSV: the records after an unclosed quote are the same for any cuts", "[data]") {
  Rng rng(9);
  const ScratchDir dir(/*in_memory=*/true);
  // Records of several lines and an unclosed quote, then both again more than 16 MiB later.
  std::string text = random_table(rng, 50).text + "50,\"open\n";
  for (int i = 51; text.size() < (size_t{17} << 20); ++i)
    text += i % 1000 == 7 ? str(i, ",5\" disk\n") : str(i, ",", std::string(200, 'x'), "\n");
  text += "1,\"a\nb\"\n2,\"open again\n3,c\n";
  const auto plan = plan_of_text(dir.write("f.csv", text));
  plan->data.bad_records = BadRecords::kSkip;
  const std::vector<Row> rows = rows_of(plan);
  CHECK(rows.back() == Row{3, key_of("c")});
  CHECK(rows[rows.size() - 2] == Row{1, key_of("a\nb")});
  for (const uint64_t target : {uint64_t{1} << 18, uint64_t{3} << 20}) {
    size_t shards = 0;
    CHECK(rows_by_shards(plan, target, shards) == rows);
    CHECK(shards > 1);
  }
  const auto packed = plan_of_text(dir.write("f.csv.gz", gzipped(text)));
  packed->data.bad_records = BadRecords::kSkip;
  CHECK(rows_of(packed) == rows);
  // A record with an unclosed quote is not sent to data.program, because the quote would hide the
  // records after it.
  const auto through = std::make_shared<ReadPlan>(*plan);
  through->files[0].cuts.clear();
  through->files[0].splittable = false;
  through->data.program = {"cat"};
  through->base_dir = dir.path();
  CHECK(rows_of(through) == rows);
  // The length limit of a record is 16 MiB.
  for (const size_t more : {0, 1}) {
    const std::string record = "1,\"\n" + std::string((16 << 20) - 5 + more, 'y') + "\"";
    const auto limit = plan_of_text(dir.write("l.csv", record + "\n2,b\n"));
    limit->data.bad_records = BadRecords::kSkip;
    const ShardRead read = read_file(limit).value();
    CHECK(read.floats.size() == (more > 0 ? 1 : 2));
    CHECK(read.totals.counts.skipped == (more > 0 ? 2 : 0));
  }
}

TEST_CASE("CSV: a file whose lines all leave a quote open is scanned in linear time", "[data]") {
  const ScratchDir dir(/*in_memory=*/true);
  // Each line ends inside quotes, whether or not it begins inside quotes. A scan to the end of the
  // file for each line would take quadratic time.
  std::string text;
  while (text.size() < (size_t{8} << 20)) text += "a\",\"\n";
  const auto plan = plan_of_text(dir.write("f.csv", text));
  plan->data.bad_records = BadRecords::kSkip;
  CHECK(read_file(plan).value().totals.counts.skipped == text.size() / 5);
  size_t shards = 0;
  CHECK(rows_by_shards(plan, 1 << 16, shards).empty());
  CHECK(records_in(text, rules_of(plan->data).value(), true).empty());
}

TEST_CASE("records of several lines in a compressed table are read in pieces", "[data]") {
  Rng rng(10);
  const ScratchDir dir;
  const Table table = random_table(rng, 20'000);
  const auto plan = plan_of_text(dir.write("f.csv.gz", gzipped(table.text)));
  plan::FileInfo& info = plan->files[0];
  for (uint64_t piece = 1; piece < 9; ++piece) info.cuts.push_back(info.bytes * piece / 9);
  plan->streams = make_record_streams();
  std::vector<Row> rows;
  for (const plan::ShardRange& range : plan::cut_shards(plan->files, info.bytes)) {
    const size_t before = rows.size();
    add_rows(read_shard(plan, range).value(), rows);
    CHECK(rows.size() > before);
  }
  CHECK(rows == table.rows);
}

TEST_CASE("sniff and mean_record_bytes handle records of several lines", "[data]") {
  const ScratchDir dir;
  std::string text = "x,note,price\n";
  for (int i = 0; i < 200; ++i) text += str(i, ",\"line ", i, "\nand, another\",", i, ".5\n");
  const std::string path = dir.write("f.csv", text);
  const DataSpec declared{.format = DataFormat::kCsv, .header = true, .quoted_newlines = true};
  const FileFacts facts = sniff(path, declared).value();
  CHECK(facts.columns == std::vector<std::string>{"x", "note", "price"});
  CHECK_THAT(facts.reason, Contains("1 numeric, 0 categorical, 1 text columns"));
  const uint64_t mean = mean_record_bytes(declared, path).value();
  CHECK(mean == (text.size() - 13) / 200);
  // Neither a distant unclosed quote nor a quote in a skipped line affects the mean.
  const std::string stray = dir.write(
      "stray.csv", "a \"note\nid,x\n1,2\n2,3\n3,\"open\n" + std::string(500'000, '1') + "\n");
  DataSpec noted = declared;
  noted.skip_lines = 1;
  CHECK(mean_record_bytes(noted, stray).value() == 4);
  // Where a record ends depends on the delimiter, which is detected.
  std::string other = "x;note;price\n";
  for (int i = 0; i < 200; ++i) other += str(i, ";\"line ", i, "\nand, another\";", i, ".5\n");
  const FileFacts found = sniff(dir.write("g.csv", other), declared).value();
  CHECK(found.columns == std::vector<std::string>{"x", "note", "price"});
  CHECK(found.delimiter == ";");
  // An unclosed quote does not hide the rest of a large file.
  std::string large = "x,price\n1,\"open\n";
  for (int i = 0; large.size() < (9 << 20); ++i) large += str(i, ",", i, ".5\n");
  CHECK_THAT(sniff(dir.write("h.csv", large), declared).value().reason,
             Contains("csv with header: 1 numeric"));
  // The plan hash depends on data.quoted_newlines.
  auto plan = plan_of_text(path);
  auto lines = std::make_shared<ReadPlan>(*plan);
  lines->data.quoted_newlines = false;
  const std::vector<plan::ShardRange> ranges = {{.end = plan->files[0].bytes}};
  CHECK(plan_hash(*plan, ranges) != plan_hash(*lines, ranges));
}

}  // namespace downpour::data
