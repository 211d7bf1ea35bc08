// NumPy arrays: types, versions, several files read row by row, archives, and errors.
#include "tests/support/arrays.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "shared/base/rng.h"
#include "shared/data/formats/numpy/npy.h"
#include "shared/data/formats/sniff.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Contains;
using Catch::EndsWith;
using Floats = std::vector<std::vector<float>>;

using testing::bytes_of;
using testing::floats_npy;
using testing::npy;
using testing::npz;

std::shared_ptr<ReadPlan> array_plan(const std::string& path, std::vector<FieldSpec> fields,
                                     DataFormat format = DataFormat::kNpy) {
  auto plan = std::make_shared<ReadPlan>();
  plan->data.format = format;
  plan->data.source.paths = {path};
  plan->data.shuffle = "off";
  plan->batch_size = 4;
  plan->data.fields = std::move(fields);
  for (const FieldSpec& field : plan->data.fields) {
    uint32_t width = 1;
    for (const int64_t d : field.shape) width *= uint32_t(d);
    plan->layout.floats.push_back({field.name, width});
  }
  auto files = list_files(plan->data, plan->data.source, "/");
  if (!files) FAIL(files.error().what);
  plan->files = *files;
  return plan;
}
Error listing_error(const std::string& path, std::vector<FieldSpec> fields) {
  DataSpec data;
  data.format = DataFormat::kNpy;
  data.fields = std::move(fields);
  auto files = list_files(data, {.paths = {path}}, "/");
  REQUIRE_FALSE(files);
  return files.error();
}

TEST_CASE("npy: reads every numeric type in both byte orders and all versions", "[data]") {
  const ScratchDir dir;
  const auto read = [&](const std::string& text) {
    return read_file(array_plan(dir.write("x.npy", text), {{.name = "x"}})).value().floats;
  };
  const auto check = [&]<typename T>(const std::string& code, std::vector<T> values) {
    Floats wanted;
    for (const T value : values) wanted.push_back({float(value)});
    for (int version = 1; version <= 3; ++version) {
      const std::string shape = str("(", values.size(), ",)");
      CHECK(read(npy("'<" + code + "'", shape, bytes_of(values), version)) == wanted);
      CHECK(read(npy("'>" + code + "'", shape, bytes_of(values, true), version)) == wanted);
    }
  };
  check("i2", std::vector<int16_t>{-32768, 32767, 3});
  check("i4", std::vector<int32_t>{-2147483647, 5});
  check("i8", std::vector<int64_t>{-1, 1LL << 40});
  check("u2", std::vector<uint16_t>{65535, 1});
  check("u4", std::vector<uint32_t>{4294967295U, 1});
  check("u8", std::vector<uint64_t>{1ULL << 63, 1});
  check("f4", std::vector<float>{1.5F, -0.0F, 1e-40F});
  check("f8", std::vector<double>{0.1, -1e300 * 0 + 2.5});
  CHECK(read(npy("'|i1'", "(2,)", bytes_of(std::vector<int8_t>{-128, 127}))) ==
        Floats{{-128}, {127}});
  CHECK(read(npy("'|u1'", "(2,)", bytes_of(std::vector<uint8_t>{255, 0}))) == Floats{{255}, {0}});
  CHECK(read(npy("'|b1'", "(3,)", std::string("\0\1\2", 3))) == Floats{{0}, {1}, {1}});
  // Half floats: 1, -2, the smallest one above 0, the largest one.
  CHECK(read(npy("'<f2'", "(4,)", bytes_of(std::vector<uint16_t>{0x3c00, 0xc000, 1, 0x7bff}))) ==
        Floats{{1}, {-2}, {0x1p-24F}, {65504}});
  CHECK(read(npy("'<f4'", "(2L, 1)", bytes_of(std::vector<float>{3, 4}))) == Floats{{3}, {4}});
}

TEST_CASE("npy: ops see all digits of doubles and of integers, in rows of any width", "[data]") {
  const ScratchDir dir;
  const std::vector<TransformSpec> ops = {ops::Standardize{.mean = 1.7e9 + 1, .scale = 2}};
  const auto read = [&](const std::string& text, std::vector<int64_t> shape) {
    const FieldSpec field{.name = "x", .shape = std::move(shape), .transform = ops};
    return read_file(array_plan(dir.write("x.npy", text), {field})).value().floats;
  };
  const std::vector<double> times = {1.7e9, 1.7e9 + 0.5, 1.7e9 + 3, 1.7e9 + 2};
  const std::vector<int64_t> whole = {1'700'000'000, 1'700'000'001, 1'700'000'003, 1'700'000'002};
  CHECK(read(npy("'<f8'", "(4,)", bytes_of(times)), {}) == Floats{{-0.5F}, {-0.25F}, {1}, {0.5F}});
  CHECK(read(npy("'<f8'", "(2, 2)", bytes_of(times)), {2}) == Floats{{-0.5F, -0.25F}, {1, 0.5F}});
  CHECK(read(npy("'>i8'", "(4,)", bytes_of(whole, true)), {}) == Floats{{-0.5F}, {0}, {1}, {0.5F}});
}

TEST_CASE("npy: record i is row i of every file, for any shapes and cuts", "[data]") {
  const ScratchDir dir;
  std::vector<float> user, image;
  std::vector<int64_t> id;
  for (int i = 0; i < 1000; ++i) {
    id.push_back(i);
    for (int j = 0; j < 3; ++j) user.push_back(float(i * 10 + j));
    for (int j = 0; j < 4; ++j) image.push_back(float(-i - j));
  }
  std::filesystem::create_directory(dir.path() + "/in");
  dir.write("in/user.npy", floats_npy(user, "(1000, 3)"));
  dir.write("in/pixels.npy", floats_npy(image, "(1000, 2, 2)"));
  dir.write("in/id.npy", npy("'<i8'", "(1000,)", bytes_of(id)));
  dir.write("in/other.npy", floats_npy({1}, "(1,)"));  // read by no field, so it may be shorter
  auto plan =
      array_plan(dir.path() + "/in", {{.name = "id", .type = FieldType::kInt64},
                                      {.name = "user", .path = "user.npy", .shape = {3}},
                                      {.name = "image", .path = "pixels.npy", .shape = {2, 2}}});
  CHECK(plan->files[0].bytes == 1000 * (8 + 12 + 16));
  for (const uint64_t target : {uint64_t{1}, uint64_t{100}, uint64_t{5000}, uint64_t{100'000}}) {
    uint64_t at = 0, row = 0;
    for (const plan::ShardRange& range : plan::cut_shards(plan->files, target)) {
      const ShardRead read = read_shard(plan, range).value();
      CHECK(read.totals.first_offset == at);
      at = read.totals.end_offset;
      for (const auto& floats : read.floats) {
        const float i = float(row++);
        CHECK(floats ==
              std::vector<float>{i, i * 10, i * 10 + 1, i * 10 + 2, -i, -i - 1, -i - 2, -i - 3});
      }
    }
    CHECK(at == plan->files[0].bytes);
    CHECK(row == 1000);
  }
  // Shuffling keeps the rows of a record together, and the holdout does not depend on the cuts.
  plan->data.shuffle = "shard";
  plan->holdout = 0.3;
  std::set<float> held_out;
  for (const uint64_t target : {uint64_t{3000}, uint64_t{100'000}}) {
    std::set<float> now;
    for (const plan::ShardRange& range : plan::cut_shards(plan->files, target)) {
      const ShardRead read = read_shard(plan, range, {}, Split::kHeldOut).value();
      for (const auto& floats : read.floats) {
        CHECK(floats[1] == floats[0] * 10);
        CHECK(floats[4] == -floats[0]);
        now.insert(floats[0]);
      }
    }
    if (!held_out.empty()) CHECK(now == held_out);
    held_out = now;
  }
  CHECK(held_out.size() > 220);
  CHECK(held_out.size() < 380);
}

TEST_CASE("npz: stored and deflated members read the same; only stored ones can be cut", "[data]") {
  const ScratchDir dir;
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int i = 0; i < 500; ++i) {
    x.push_back(float(i));
    x.push_back(float(-i));
    y.push_back(i % 2);
  }
  const std::vector<std::pair<std::string, std::string>> members = {
      {"x", floats_npy(x, "(500, 2)")}, {"labels", npy("'<i4'", "(500,)", bytes_of(y))}};
  const std::vector<FieldSpec> fields = {
      {.name = "x", .shape = {2}}, {.name = "label", .path = "labels", .type = FieldType::kInt64}};
  const std::string stored = npz(members), deflated = npz(members, true);
  auto plain = array_plan(dir.write("a.npz", stored), fields, DataFormat::kNpz);
  auto packed = array_plan(dir.write("b.npz", deflated), fields, DataFormat::kNpz);
  CHECK(plain->files[0].splittable);
  CHECK_FALSE(packed->files[0].splittable);
  const ShardRead read = read_file(plain).value();
  CHECK(read.floats.size() == 500);
  CHECK(read.floats[7] == std::vector<float>{7, -7, 1});
  CHECK(read_file(packed).value().floats == read.floats);
  size_t records = 0;
  for (const plan::ShardRange& range : plan::cut_shards(plain->files, 700))
    records += read_shard(plain, range).value().floats.size();
  CHECK(records == 500);
  // NumPy reads the last of two members with the same name, other programs the first.
  const auto twice = sniff(dir.write("twice.npz", npz({members[0], members[1], members[0]})));
  REQUIRE_FALSE(twice);
  CHECK_THAT(twice.error().what, Contains("two members with the name x.npy"));
  // With a flipped bit or missing bytes, the reader returns the original rows or an error.
  Rng rng(5);
  for (int turn = 0; turn < 300; ++turn) {
    std::string bad = deflated;
    bad[rng.below(bad.size())] ^= char(1 << rng.below(8));
    if (turn % 5 == 0) bad.resize(rng.below(bad.size()));
    const std::string path = dir.write("c.npz", bad);
    DataSpec data = packed->data;
    auto files = list_files(data, {.paths = {path}}, "/");
    if (!files) continue;
    auto plan = std::make_shared<ReadPlan>(*packed);
    plan->files = *files;
    const auto again = read_file(plan);
    if (again) CHECK(again->floats == read.floats);
  }
}

TEST_CASE("a label with texts reads numbers by their digits, in arrays and in JSON", "[data]") {
  const ScratchDir dir;
  const std::vector<int32_t> labels = {0, 1, 0, 7};
  const std::vector<float> narrow = {0, 1, 0, 7};
  const std::vector<std::vector<float>> wanted = {{1}, {0}, {1}, {0}};
  for (const FieldType type : {FieldType::kFloat32, FieldType::kInt64}) {
    const std::vector<FieldSpec> fields = {{.name = "y", .type = type, .positive = {"0"}}};
    const std::string array = type == FieldType::kInt64 ? npy("'<i4'", "(4,)", bytes_of(labels))
                                                        : floats_npy(narrow, "(4,)");
    const std::string path = dir.write("y.npz", npz({{"y", array}}));
    CHECK(read_file(array_plan(path, fields, DataFormat::kNpz)).value().floats == wanted);
    const auto lines = plan_of(
        dir.write("y.jsonl", "{\"y\":0}\n{\"y\":1}\n{\"y\":0.0}\n{\"y\":7}\n"), DataFormat::kJsonl);
    lines->data.fields = fields;
    lines->layout.floats = {{"y", 1}};
    CHECK(read_file(lines).value().floats == wanted);
  }
}

TEST_CASE("npy: a field may be a slice of a row, and integers may be keys", "[data]") {
  const ScratchDir dir;
  const std::string path = dir.write("m.npy", floats_npy({1, 2, 3, 0, 5, 6}, "(2, 3)"));
  auto plan = array_plan(
      path, {{.name = "label", .column = "0"}, {.name = "x", .column = "1", .shape = {2}}});
  CHECK(read_file(plan).value().floats == Floats{{1, 2, 3}, {0, 5, 6}});
  auto keys = array_plan(
      dir.write("k.npy", npy("'<i4'", "(2, 2)", bytes_of(std::vector<int32_t>{7, 8, 9, 7}))),
      {{.name = "k", .type = FieldType::kInt64, .shape = {-1}, .transform = {ops::Identity{}}}});
  keys->layout = {.floats = {}, .bags = {{"k", 0}}, .tables = {TableId(0)}};
  CHECK(read_file(keys).value().keys ==
        std::vector<std::vector<std::vector<uint64_t>>>{{{7, 8}}, {{9, 7}}});
}

TEST_CASE("npy: a key above the largest int64 is that of its digits", "[data]") {
  const ScratchDir dir;
  const std::vector<uint64_t> ids = {UINT64_MAX, 5};
  auto plan = array_plan(dir.write("k.npy", npy("'<u8'", "(2,)", bytes_of(ids))),
                         {{.name = "k", .type = FieldType::kInt64, .transform = {ops::Hash{}}}});
  plan->layout = {.floats = {}, .bags = {{"k", 0}}, .tables = {TableId(0)}};
  const auto key = [](const std::string& digits) {
    return std::vector<std::vector<uint64_t>>{
        {hash_combine(hash_string("k"), hash_string(digits))}};
  };
  CHECK(read_file(plan).value().keys == std::vector{key("18446744073709551615"), key("5")});
}

TEST_CASE("npy: a filter may use arrays that no layer reads", "[data]") {
  const ScratchDir dir;
  dir.write("x.npy", floats_npy({1, 2, 3}, "(3,)"));
  dir.write("day.npy", npy("'<i8'", "(3,)", bytes_of(std::vector<int64_t>{5, 6, 7})));
  auto plan = array_plan(dir.path(), {{.name = "x"}, {.name = "day", .type = FieldType::kInt64}});
  plan->layout.floats = {{"x", 1}};
  plan->data.filter = "day != 6";
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == Floats{{1}, {3}});
  CHECK(read.totals.counts == ReadCounts{.read = 3, .filtered = 1});
}

TEST_CASE("npy: parsing runs of rows equals parsing single rows, also with bad rows", "[data]") {
  const ScratchDir dir;
  Rng rng(5);
  std::vector<float> x;
  std::vector<int64_t> label, day;
  std::vector<int32_t> keys;
  constexpr int kRows = 3000;
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < 70; ++j) x.push_back(rng.below(9000) == 0 ? std::nanf("") : float(i + j));
    label.push_back(rng.below(200) == 0 ? 7 : int64_t(rng.below(2)));
    day.push_back(i);
    for (int j = 0; j < 2; ++j) keys.push_back(int32_t(rng.below(50)));
  }
  dir.write("x.npy", floats_npy(x, str("(", kRows, ", 70)")));
  dir.write("label.npy", npy("'<i8'", str("(", kRows, ",)"), bytes_of(label)));
  dir.write("day.npy", npy("'<i8'", str("(", kRows, ",)"), bytes_of(day)));
  dir.write("keys.npy", npy("'>i4'", str("(", kRows, ", 2)"), bytes_of(keys, true)));
  const auto plan = [&](const std::string& filter, uint32_t batch_size, double holdout) {
    auto made =
        array_plan(dir.path(), {{.name = "x", .shape = {70}},
                                {.name = "label"},
                                {.name = "day", .transform = {ops::Clip{.min = 0, .max = 500}}},
                                {.name = "keys",
                                 .type = FieldType::kInt64,
                                 .shape = {-1},
                                 .transform = {ops::Identity{}}}});
    made->layout = {.floats = {{"x", 70}, {"label", 1}, {"day", 1}},
                    .bags = {{"keys", 0}},
                    .tables = {TableId(0)}};
    made->targets = {{"label", TargetKind::kBinary, 0}};
    made->data.filter = filter;
    made->data.shuffle = "shard";
    made->data.bad_records = BadRecords::kSkip;
    made->batch_size = batch_size;
    made->holdout = holdout;
    return made;
  };
  for (const uint32_t batch_size : {1U, 7U, 64U, 512U, 4000U}) {
    for (const double holdout : {0.0, 0.3}) {
      const auto range = [](const ReadPlan& p) { return plan::ShardRange{0, 0, p.files[0].bytes}; };
      // With a filter, even one that drops nothing, rows are parsed one by one.
      const auto runs = plan("", batch_size, holdout),
                 singles = plan("day >= 0", batch_size, holdout);
      const ShardRead a = read_shard(runs, range(*runs), {}, Split::kTrain).value();
      const ShardRead b = read_shard(singles, range(*singles), {}, Split::kTrain).value();
      CHECK(a.floats == b.floats);
      CHECK(a.keys == b.keys);
      CHECK(a.totals.counts == b.totals.counts);
      CHECK(a.totals.records_hash == b.totals.records_hash);
      CHECK(a.totals.counts.skipped > 15);
      CHECK(a.floats.size() + a.totals.counts.skipped + a.totals.counts.filtered == kRows);
      for (size_t i = 0; i < std::min(a.batches.size(), b.batches.size()); ++i)
        CHECK(a.batches[i].records_hash == b.batches[i].records_hash);
      // All fields of a record come from the same row.
      for (size_t i = 0; i < a.floats.size(); ++i) {
        const auto row = size_t(a.floats[i][0]);
        REQUIRE(a.floats[i][69] == float(row + 69));
        REQUIRE(a.floats[i][70] == float(label[row]));
        REQUIRE(a.floats[i][71] == std::min(float(row), 500.0F));
        REQUIRE(a.keys[i][0] ==
                std::vector<uint64_t>{uint64_t(keys[2 * row]), uint64_t(keys[2 * row + 1])});
      }
    }
  }
}

TEST_CASE("npy: parsing runs of rows equals parsing single rows for every numeric type", "[data]") {
  const ScratchDir dir;
  constexpr int kRows = 700, kWidth = 5;
  Rng rng(11);
  const auto compare = [&](const std::string& type, const std::string& elements) {
    INFO(type);
    dir.write("x.npy", npy(str("'", type, "'"), str("(", kRows, ", ", kWidth, ")"), elements));
    for (const std::vector<TransformSpec>& ops : std::vector<std::vector<TransformSpec>>{
             {},
             {ops::Clip{.min = 3, .max = 90}},
             {ops::Log1p{}},
             {ops::Standardize{.mean = 4.5, .scale = 0.3}},
             {ops::MinMax{.min = -20, .max = 300}, ops::Clip{.min = 0.1, .max = 0.9}}}) {
      const auto plan = [&](const std::string& filter) {
        auto made = array_plan(
            dir.path(), {{.name = "x", .shape = {kWidth}, .transform = ops},
                         {.name = "id", .type = FieldType::kInt64, .transform = {ops::Clip{}}}});
        made->layout = {.floats = {{"x", kWidth}}};
        made->data.filter = filter;
        made->data.shuffle = "shard";
        made->data.bad_records = BadRecords::kSkip;
        made->batch_size = 64;
        return made;
      };
      const auto runs = plan(""), singles = plan("id >= 0");
      const ShardRead a = read_file(runs).value(), b = read_file(singles).value();
      CHECK(a.floats == b.floats);
      CHECK(a.floats.size() + a.totals.counts.skipped == kRows);
      CHECK(a.floats.size() > kRows / 2);
      CHECK(a.totals.counts.skipped == b.totals.counts.skipped);
    }
  };
  std::vector<int64_t> ids(kRows);
  std::iota(ids.begin(), ids.end(), 0);
  dir.write("id.npy", npy("'<i8'", str("(", kRows, ",)"), bytes_of(ids)));
  const auto check = [&]<typename T>(const std::string& code, T rare) {
    std::vector<T> values(kRows * kWidth);
    for (T& value : values) value = rng.below(50 * kWidth) == 0 ? rare : T(rng.below(120));
    for (const bool swap : {false, true}) {
      if (sizeof(T) == 1 && swap) continue;
      compare((sizeof(T) == 1 ? "|" : swap ? ">" : "<") + code, bytes_of(values, swap));
    }
  };
  check("i1", int8_t{-100});
  check("i2", int16_t{-30'000});
  check("i4", int32_t{-2'000'000'000});
  check("i8", std::numeric_limits<int64_t>::min());
  check("u1", uint8_t{255});
  check("u2", uint16_t{65'535});
  check("u4", uint32_t{4'294'967'295});
  check("u8", std::numeric_limits<uint64_t>::max());
  check("f4", std::nanf(""));
  check("f8", 1e300);
  check("f2", uint16_t{0x7c00});  // infinity; the other values are small
  check("b1", uint8_t{1});
}

TEST_CASE("npy: the error for a value that is not finite or out of range names the row", "[data]") {
  const ScratchDir dir;
  const float nan = std::nanf("");
  auto plan = array_plan(dir.write("x.npy", floats_npy({1, nan, 3}, "(3,)")), {{.name = "x"}});
  const Error error = error_of(plan);
  CHECK_THAT(error.where, EndsWith("x.npy:row 1"));
  CHECK_THAT(error.what, Contains("not a finite number"));
  plan->data.bad_records = BadRecords::kSkip;
  CHECK(read_file(plan).value().totals.counts == ReadCounts{.read = 3, .skipped = 1});
  auto wide =
      array_plan(dir.write("d.npy", npy("'<f8'", "(2,)", bytes_of(std::vector<double>{1e300, 1}))),
                 {{.name = "d"}});
  CHECK_THAT(error_of(wide).what, Contains("1e+300"));
  auto classes = array_plan(dir.write("y.npy", npy("'|u1'", "(2,)", "\x02\x09")), {{.name = "y"}});
  classes->targets = {{"y", TargetKind::kClass, 3}};
  CHECK_THAT(error_of(classes).where, EndsWith("row 1"));
}

TEST_CASE("npy: the error for an unreadable array has a reason and a hint", "[data]") {
  const ScratchDir dir;
  const auto what = [&](const std::string& text) {
    const Error error = listing_error(dir.write("x.npy", text), {{.name = "x"}});
    CHECK_THAT(error.where, EndsWith("x.npy"));
    return error.what + " / " + error.hint;
  };
  CHECK_THAT(what(npy("'<f4'", "(2, 2)", std::string(16, '\0'), 1, "True")),
             Contains("Fortran order") && Contains("ascontiguousarray"));
  CHECK_THAT(what(npy("'|O'", "(2,)", "xx")), Contains("\"|O\""));
  CHECK_THAT(what(npy("'<U5'", "(2,)", "xx")),
             Contains("\", but only numeric types are supported"));
  CHECK_THAT(what(npy("'<c8'", "(1,)", "xxxxxxxx")),
             Contains("\", but only numeric types are supported"));
  CHECK_THAT(what(npy("[('a', '<f4')]", "(1,)", "xxxx")), Contains("structured array"));
  CHECK_THAT(what(npy("'<f4'", "()", "xxxx")), Contains("single number"));
  CHECK_THAT(what(npy("'<f4'", "(0,)", "")), Contains("no rows"));
  CHECK_THAT(what(npy("'<f4'", "(3,)", "xxxx")),
             Contains("declares 3 rows, but the file contains 1"));
  CHECK_THAT(what(npy("'<f4'", "(4611686018427387904, 4)", "xxxx")), Contains("contains 0"));
  CHECK_THAT(what(npy("'<f4'", "(1, 99999999999, 99999999999)", "xxxx")), Contains("64 MiB"));
  CHECK_THAT(what(npy("'<f4'", "(99999999999999999999,)", "xxxx")), Contains("can't be read"));
  CHECK_THAT(what("no array at all, but long enough"), Contains("is not an .npy file"));
  std::string lying = npy("'<f4'", "(1,)", "xxxx", 2);
  lying[11] = '\x7f';
  CHECK_THAT(what(lying), Contains("header of"));
  CHECK_THAT(what(npy("'<f4'", "(1,)", "xxxx").replace(6, 1, "\x09")), Contains("version 9"));
}

TEST_CASE("npy: errors name arrays of different lengths and fields that do not match their array",
          "[data]") {
  const ScratchDir dir;
  dir.write("a.npy", floats_npy({1, 2, 3}, "(3,)"));
  dir.write("b.npy", floats_npy({1, 2}, "(2,)"));
  const Error error = listing_error(dir.path(), {{.name = "a"}, {.name = "b"}});
  CHECK_THAT(error.what, Contains("a.npy has 3") && Contains("b.npy has 2"));
  CHECK_THAT(listing_error(dir.path(), {{.name = "z"}}).hint, Contains("a.npy, b.npy"));
  const auto config_error = [&](FieldSpec field) {
    const Error found = error_of(array_plan(dir.path(), {{.name = "a"}, std::move(field)}));
    return found.what + " / " + found.hint;
  };
  CHECK_THAT(config_error({.name = "w", .path = "a.npy", .shape = {2}}),
             Contains("its shape differs") && Contains("[]"));
  CHECK_THAT(config_error({.name = "w", .path = "a.npy", .type = FieldType::kInt64}),
             Contains("contains float32"));
  CHECK_THAT(config_error({.name = "w", .column = "1", .path = "a.npy"}),
             Contains("end after the end of the row"));
  CHECK_THAT(config_error({.name = "w", .path = "nix.npy"}), Contains("no array nix.npy"));
}

TEST_CASE("npy: an array that changes after it was listed is an error that names it", "[data]") {
  const ScratchDir dir;
  auto plan = array_plan(dir.write("x.npy", floats_npy({1, 2, 3}, "(3,)")), {{.name = "x"}});
  dir.write("x.npy", floats_npy({1, 2, 4}, "(3,)"));
  CHECK_THAT(error_of(plan).what, Contains("changed") && Contains("x.npy"));
}

TEST_CASE("npy: the array of a target may be absent in a prediction", "[data]") {
  const ScratchDir dir;
  dir.write("x.npy", floats_npy({1, 2}, "(2,)"));
  auto plan = array_plan(dir.path(), {{.name = "x"}, {.name = "y"}});
  plan->targets = {{"y", TargetKind::kAny}};
  CHECK(error_of(plan).code == ErrorCode::kNoInput);
  CHECK(read_file(for_prediction(*plan)).value().floats == Floats{{1, 0}, {2, 0}});
}

TEST_CASE("sniff: detects a matrix, a folder of arrays and an archive", "[data]") {
  const ScratchDir dir;
  std::string matrix;
  for (int i = 0; i < 50; ++i)
    matrix += bytes_of(std::vector<double>{i * 0.5, i * 0.1, double(i % 2)});
  const FileFacts facts = sniff(dir.write("m.npy", npy("'<f8'", "(50, 3)", matrix))).value();
  CHECK(facts.format == DataFormat::kNpy);
  CHECK(facts.classes == 2);
  CHECK(facts.target == "label");
  CHECK(facts.records_estimated == 50);
  auto plan = array_plan(dir.path() + "/m.npy", facts.fields);
  CHECK(read_file(plan).value().floats[3] == std::vector<float>{1.5F, 0.3F, 1});
  const std::string archive = npz({{"x", floats_npy(std::vector<float>(100, 2), "(50, 2)")},
                                   {"y", npy("'<f8'", "(50,)", std::string(400, '\x11'))},
                                   {"user", npy("'<i4'", "(50,)", std::string(200, '\1'))}});
  const FileFacts found = sniff(dir.write("t.npz", archive)).value();
  CHECK(found.format == DataFormat::kNpz);
  CHECK(found.target == "y");
  CHECK(sniff(dir.path() + "/t.npz", {}, {.targets = {{"user", ""}}}).value().target == "user");
  CHECK(found.fields.size() == 3);
  CHECK_THAT(found.reason, Contains("50 rows of x, y, user"));
  std::filesystem::create_directory(dir.path() + "/in");
  dir.write("in/a.npy", floats_npy({1, 2, 3, 4}, "(2, 2)"));
  dir.write("in/label.npy", floats_npy({0, 1}, "(2,)"));
  const FileFacts folder = sniff(dir.path() + "/in").value();
  CHECK(folder.target == "label");
  CHECK(folder.fields.size() == 2);
}

}  // namespace
}  // namespace downpour::data
