// Ops on values: the same results in every format. The expected values are from NumPy.
#include <algorithm>
#include <bit>
#include <cmath>

#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/data/values/number_ops.h"
#include "shared/data/values/quantiles.h"
#include "tests/shared/data/values/transform_support.h"

namespace downpour::data {
namespace {

using Catch::Contains;

Keys singles(const std::vector<uint64_t>& keys) {
  Keys out;
  for (const uint64_t key : keys) out.push_back({key});
  return out;
}

TEST_CASE("bucketize: counts the boundaries up to the value, like np.digitize",
          "[data][transform]") {
  const FieldSpec field{
      .name = "x", .transform = {ops::Bucketize{.boundaries = {-1.5, 0.7, 0.7000002, 18, 65}}}};
  CHECK(keys_of<float>({-2, -1.5F, 0, 0.7F, 17.5F, 18, 18.5F, 64.5F, 65, 1e30F}, field) ==
        singles({0, 1, 1, 2, 3, 4, 4, 4, 5, 5}));
  // After ops for numbers, it applies to their result.
  FieldSpec scaled = field;
  scaled.transform = {ops::Clip{.min = 0.0}, ops::Log1p{}, ops::Bucketize{.boundaries = {0.5, 1}}};
  CHECK(keys_of<float>({-7, 0.6F, 0.7F, 1.7F, 1.8F}, scaled) == singles({0, 0, 1, 1, 2}));
}

TEST_CASE("bucketize: integers are compared exactly, not as 32-bit floats", "[data][transform]") {
  const FieldSpec field{
      .name = "x",
      .type = FieldType::kInt64,
      .transform = {ops::Bucketize{.boundaries = {20240101, 20240102, 20240201}}}};
  CHECK(keys_of<int64_t>({20240100, 20240101, 20240102, 20240131, 20240201, -5}, field) ==
        singles({0, 1, 2, 2, 3, 0}));
}

TEST_CASE("log1p, standardize, min_max and clip give NumPy's values", "[data][transform]") {
  const std::vector<float> x = {0, 1e-7F, 0.5F, 3, 41.25F, 1e6F};
  const auto of = [&](const TransformSpec& op) {
    return numbers_of<float>(x, {.name = "x", .transform = {op}});
  };
  const auto close = [](const std::vector<float>& got, const std::vector<double>& wanted) {
    REQUIRE(got.size() == wanted.size());
    for (size_t i = 0; i < got.size(); ++i)  // the last bit of a 32-bit float
      CHECK(double(got[i]) == Approx(wanted[i]).epsilon(1.2e-7).margin(0));
  };
  close(of(ops::Log1p{}), {0, 9.999999406318238e-08, 0.40546512603759766, 1.3862943649291992,
                           3.7436044216156006, 13.815511703491211});
  close(of(ops::Standardize{.mean = 40.25, .scale = 12.5}),
        {-3.2200000286102295, -3.2200000286102295, -3.180000066757202, -2.9800000190734863,
         0.07999999821186066, 79996.78125});
  close(of(ops::MinMax{.min = -2, .max = 50}),
        {0.03846153989434242, 0.03846153989434242, 0.048076923936605453, 0.09615384787321091,
         0.8317308306694031, 19230.80859375});
  close(of(ops::Clip{.min = 0.5, .max = 41}), {0.5, 0.5, 0.5, 3, 41, 41});
  // np.interp(x, [0.25, 1, 3, 40, 100], np.linspace(0, 1, 5))
  close(of(ops::Quantile{.boundaries = {0.25, 1, 3, 40, 100}}),
        {0, 0, 0.08333333333333333, 0.5, 0.7552083333333334, 1});
}

TEST_CASE("ops keep the digits of large numbers until they have subtracted the offset",
          "[data][transform]") {
  std::vector<int64_t> times;
  for (int64_t i = 0; i < 100; ++i) times.push_back(1'700'000'000 + i * 37 % 100);
  const auto check = [&](const FieldSpec& field, const std::function<double(double)>& wanted) {
    const std::vector<float> got = numbers_of<int64_t>(times, field);
    REQUIRE(got.size() == times.size());
    for (size_t i = 0; i < got.size(); ++i)
      CHECK(double(got[i]) == Approx(wanted(double(times[i]))).epsilon(1e-6).margin(1e-7));
  };
  for (const FieldType type : {FieldType::kFloat32, FieldType::kInt64}) {
    const auto field = [&](const std::vector<TransformSpec>& ops) {
      return FieldSpec{.name = "x", .type = type, .transform = ops};
    };
    const ops::Standardize standardize{.mean = 1'700'000'049.5, .scale = 28.8660700};
    check(field({standardize}), [](double x) { return (x - 1'700'000'049.5) / 28.8660700; });
    check(field({ops::MinMax{.min = 1.7e9, .max = 1.7e9 + 99}}),
          [](double x) { return (x - 1.7e9) / 99; });
    check(field({ops::Quantile{.boundaries = {1.7e9, 1.7e9 + 50, 1.7e9 + 100}}}),
          [](double x) { return (x - 1.7e9) / 100; });
    check(field({ops::Clip{.min = 1'700'000'010.0}, standardize}),
          [](double x) { return (std::max(x, 1'700'000'010.0) - 1'700'000'049.5) / 28.8660700; });
  }
  // A field of a list, its default, and digits after the point.
  const ScratchDir dir;
  auto plan = x_plan(dir.write("f", "1700000000.25 1700000001.5\nNA\n"), DataFormat::kTsv,
                     {.name = "x",
                      .shape = {2},
                      .fallback = "1700000003",
                      .transform = {ops::Standardize{.mean = 1.7e9, .scale = 2}}},
                     false);
  plan->data.missing = {"NA"};
  plan->layout.floats = {{"x", 2}};
  CHECK(read_file(plan)->floats == std::vector<std::vector<float>>{{0.125F, 0.75F}, {1.5F, 1.5F}});
}

TEST_CASE("quantiles divide values into intervals with equally many, each boundary once",
          "[data][transform]") {
  std::vector<double> values;
  for (int i = 1000; i >= 0; --i) values.push_back(i);
  CHECK(quantiles(values, 4) == std::vector<double>{0, 250, 500, 750, 1000});
  CHECK(quantiles({3, 1, 1, 1, 1, 1, 2}, 3) == std::vector<double>{1, 3});
  CHECK(quantiles({5, 5}, 8) == std::vector<double>{0, 5});
  CHECK(quantiles({-5}, 8) == std::vector<double>{-5, 0});
  CHECK(quantiles({}, 8) == std::vector<double>{0, 1});
}

TEST_CASE("log1p differs from the library by at most the last bit of a float, at every magnitude",
          "[data][transform]") {
  NumberOps ops;
  ops.add(ops::Log1p{});
  std::vector<float> values = {-0.5F, -0.25F, -0x1p-24F, 0x1p-24F, 0x1.7ffffep0F, 0x1.8p-1F};
  for (uint32_t bits = 0; bits < 0x7f800000; bits += 9973)
    values.push_back(std::bit_cast<float>(bits));
  for (uint32_t bits = 0; bits < 0x7f800000; bits += 0x00800000) {  // around each power of two
    for (uint32_t i = 0; i < 5 && bits > 2; ++i)
      values.push_back(std::bit_cast<float>(bits + i - 2));
  }
  float worst = 0;
  for (const float x : values) {
    const float wanted = float(std::log1p(double(x))), got = ops.apply(x);
    const float ulp = std::nextafter(std::abs(wanted), 1e38F) - std::abs(wanted);
    worst = std::max(worst, std::abs(got - wanted) / ulp);
  }
  CHECK(worst <= 1);
  CHECK_FALSE(std::isfinite(ops.apply(-1)));
  CHECK_FALSE(std::isfinite(ops.apply(-2)));
}

TEST_CASE("applying ops to a column equals applying them to each number", "[data][transform]") {
  NumberOps ops;
  CHECK(ops.is_total());
  ops.add(ops::Log1p{});
  CHECK_FALSE(ops.is_total());  // log1p(-1) is not finite
  NumberOps clipped;
  for (const TransformSpec& op :
       {TransformSpec(ops::Clip{.min = 0.0, .max = 5000.0}), TransformSpec(ops::Log1p{}),
        TransformSpec(ops::Standardize{.mean = 1.5, .scale = 0.7}),
        TransformSpec(ops::MinMax{.min = -3.0, .max = 9.0}),
        TransformSpec(ops::Quantile{.boundaries = {0.0, 0.3, 0.5, 1.0}})}) {
    clipped.add(op);
    CHECK(clipped.is_total());
  }
  NumberOps huge;
  huge.add(ops::Standardize{.mean = 0, .scale = 1e-30});
  CHECK_FALSE(huge.is_total());
  Rng rng(7);
  std::vector<float> values(1003), each;
  for (float& x : values) x = float(rng.normal() * std::pow(10.0, double(rng.below(7))));
  for (const float x : values) each.push_back(clipped.apply(x));
  clipped.apply_to_all(values);
  CHECK(values == each);
}

TEST_CASE("hash: the key of a text in any number of buckets, and of the default if it is missing",
          "[data][transform]") {
  const ScratchDir dir;
  const std::vector<std::string> texts = {"a", "12345678", "NA", "more than eight bytes", "none"};
  FieldSpec field{.name = "x", .type = FieldType::kString, .fallback = "none"};
  for (const uint64_t buckets : {0, 1 << 20, 1000, 1}) {
    INFO(buckets);
    field.transform = {ops::Hash{.buckets = buckets}};
    if (buckets == 0) field.transform.clear();
    const auto plan = x_plan(dir.write("f", as_tsv(texts)), DataFormat::kTsv, field, true);
    plan->data.missing = {"NA"};
    Keys want;
    for (const std::string& text : texts) {
      const uint64_t key =
          hash_combine(hash_string("x"), hash_string(text == "NA" ? "none" : text));
      want.push_back({buckets == 0 ? key : key % buckets});
    }
    Keys got;
    const ShardRead read = read_file(plan).value();
    for (const auto& record : read.keys) got.push_back(record[0]);
    CHECK(got == want);
  }
}

TEST_CASE("hash: with integers = true, an integer that is written as a float has its key",
          "[data][transform]") {
  const FieldSpec field{
      .name = "x", .type = FieldType::kString, .transform = {ops::Hash{.integers = true}}};
  const auto key_of = [](const char* text) {
    return hash_combine(hash_string("x"), hash_string(text));
  };
  const std::vector<const char*> texts = {"12",    "12.0", "-12.000", "0.0", "12.",  "12.5",
                                          "12.50", "120",  ".0",      "-.0", "a1.0", "1.0.0"};
  const std::vector<const char*> same = {"12",    "12",  "-12", "0",   "12.",  "12.5",
                                         "12.50", "120", ".0",  "-.0", "a1.0", "1.0.0"};
  Keys want;
  for (const char* text : same) want.push_back({key_of(text)});
  CHECK(keys_of(texts, field) == want);
}

TEST_CASE("vocabulary: a key is the number of the line; the job decides about unknown words",
          "[data][transform]") {
  const ScratchDir dir;
  FieldSpec field{.name = "x",
                  .type = FieldType::kString,
                  .transform = {ops::Vocabulary{.file = dir.write("v", "red\ngreen\nblue\n")}}};
  auto& op = std::get<ops::Vocabulary>(field.transform[0]);
  const std::vector<const char*> known = {"blue", "red", "green"};
  const std::vector<const char*> strange = {"blue", "pink", "red"};
  CHECK(keys_of(known, field) == singles({2, 0, 1}));
  CHECK_THAT(refused(strange, field, true), Contains("field x \"pink\" is not in the vocabulary"));
  op.unknown = UnknownWord::kDefault;
  op.fallback = 77;
  CHECK(keys_of(strange, field) == singles({2, 77, 0}));
  op.unknown = UnknownWord::kDrop;
  CHECK(keys_of(strange, field) == Keys{{2}, {}, {0}});
  op.unknown = UnknownWord::kHash;
  op.buckets = 5;
  const Keys hashed = keys_of(strange, field);
  CHECK(hashed == singles({2, 3 + hash_combine(hash_string("x"), hash_string("pink")) % 5, 0}));

  op = ops::Vocabulary{.words = {"7", "-3"}};
  field.type = FieldType::kInt64;
  CHECK(keys_of<int64_t>({-3, 7}, field) == singles({1, 0}));
  CHECK_THAT(refused<int64_t>({-3, 8}, field, true), Contains("\"8\" is not in the vocabulary"));
}

TEST_CASE("vocabulary: each word of a list has a key, except for dropped words",
          "[data][transform]") {
  const ScratchDir dir;
  FieldSpec field{
      .name = "x",
      .type = FieldType::kString,
      .shape = {-1},
      .transform = {ops::Vocabulary{.words = {"a", "b"}, .unknown = UnknownWord::kDrop}}};
  const Keys wanted = {{1, 0}, {}, {}, {0}};
  const auto keys = [&](DataFormat format, const std::string& text) {
    const ShardRead read = read_file(x_plan(dir.write("f", text), format, field, true)).value();
    Keys out;
    for (const auto& record : read.keys) out.push_back(record[0]);
    return out;
  };
  CHECK(keys(DataFormat::kTsv, "b c a\nc\n \n a \n") == wanted);
  CHECK(keys(DataFormat::kJsonl,
             "{\"x\":[\"b\",\"c\",\"a\"]}\n{\"x\":[\"c\"]}\n{\"x\":[]}\n{\"x\":\"a\"}\n") ==
        wanted);
}

TEST_CASE("identity: a value out of range is a bad record, or gets the default of the op",
          "[data][transform]") {
  FieldSpec field{
      .name = "x", .type = FieldType::kInt64, .transform = {ops::Identity{.buckets = 10}}};
  CHECK(keys_of<int64_t>({0, 9, 3}, field) == singles({0, 9, 3}));
  CHECK_THAT(refused<int64_t>({0, 10}, field, true),
             Contains("field x \"10\" is not less than the op's `buckets`"));
  CHECK_THAT(refused<int64_t>({-1}, field, true), Contains("is not a non-negative integer"));
  std::get<ops::Identity>(field.transform[0]).fallback = 4;
  CHECK(keys_of<int64_t>({0, 10, -1, INT64_MAX, INT64_MIN}, field) == singles({0, 4, 4, 4, 4}));
}

TEST_CASE("the default of a missing value goes through the ops", "[data][transform]") {
  const ScratchDir dir;
  const auto first = [&](const FieldSpec& field) {
    auto plan = plan_of(dir.write("f", "\ty\n"), DataFormat::kTsv);
    plan->data.columns = {"x", "y"};
    plan->data.fields = {field};
    plan->layout = {.bags = {{"x", 0}}, .tables = {TableId(0)}};
    return read_file(plan).value().keys.at(0).at(0);
  };
  using Key = std::vector<uint64_t>;
  CHECK(first({.name = "x",
               .fallback = "3",
               .transform = {ops::Bucketize{.boundaries = {2, 3, 4}}}}) == Key{2});
  CHECK(first({.name = "x",
               .type = FieldType::kString,
               .fallback = "b",
               .transform = {ops::Vocabulary{.words = {"a", "b"}}}}) == Key{1});
  CHECK(first({.name = "x",
               .type = FieldType::kInt64,
               .fallback = "50",
               .transform = {ops::Identity{.buckets = 5, .fallback = 2}}}) == Key{2});
  CHECK(first({.name = "x",
               .type = FieldType::kString,
               .fallback = "",
               .transform = {ops::Vocabulary{.words = {"a"}, .unknown = UnknownWord::kDrop}}}) ==
        Key{});
}

TEST_CASE("a default that the ops reject is a configuration error", "[data][transform]") {
  const ScratchDir dir;
  auto plan = x_plan(dir.write("f", "a\n"), DataFormat::kTsv,
                     {.name = "x",
                      .type = FieldType::kString,
                      .fallback = "c",
                      .transform = {ops::Vocabulary{.words = {"a", "b"}}}},
                     true);
  const Error error = error_of(plan);
  CHECK(error.code == ErrorCode::kConfig);
  CHECK_THAT(error.what, Contains("default = \"c\" is not a key: it is not in the vocabulary"));
}

TEST_CASE("NaN is a bad record, unless data.missing lists it as missing", "[data][transform]") {
  const ScratchDir dir;
  const float nan = std::nanf("");
  auto plan = x_plan(dir.write("f", as_examples<float>({1, nan})), DataFormat::kTfrecord,
                     {.name = "x", .fallback = "5", .transform = {ops::Log1p{}}}, false);
  CHECK_THAT(error_of(plan).what, Contains("is not a finite number"));
  plan->data.missing = {"nan"};
  CHECK(read_file(plan).value().floats[1][0] == Approx(std::log1p(5.0F)));
  plan->data.fields[0].fallback.reset();
  CHECK_THAT(error_of(plan).what, Contains("is missing"));
  auto table =
      x_plan(dir.write("g", "1\nnan\n"), DataFormat::kTsv, {.name = "x", .fallback = "5"}, false);
  CHECK_THAT(error_of(table).what, Contains("is not a finite number"));
  table->data.missing = {"nan"};
  CHECK(read_file(table).value().floats[1][0] == 5);
}

TEST_CASE("libsvm: features keep their values with vocabulary and identity", "[data][transform]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", "1 3:2 13:7 4:5\n"));
  reads_libsvm(*plan);
  plan->data.fields = {
      {.name = "features",
       .type = FieldType::kInt64,
       .shape = {-1},
       .transform = {ops::Vocabulary{.words = {"4", "13"}, .unknown = UnknownWord::kDrop}}}};
  ShardRead read = read_file(plan).value();
  CHECK(read.keys[0][0] == std::vector<uint64_t>{1, 0});
  CHECK(read.values[0][0] == std::vector<float>{7, 5});
  plan->data.fields[0].transform = {ops::Identity{.buckets = 10, .fallback = 0}};
  read = read_file(plan).value();
  CHECK(read.keys[0][0] == std::vector<uint64_t>{3, 0, 4});
  plan->data.fields[0].transform = {ops::Identity{.buckets = 10}};
  CHECK_THAT(error_of(plan).what, Contains("\"13\" is not less than the op's `buckets`"));
}

TEST_CASE("the plan hash depends on the ops", "[data][transform]") {
  const ScratchDir dir;
  auto plan = x_plan(dir.write("f", "1\n"), DataFormat::kTsv,
                     {.name = "x", .transform = {ops::Bucketize{.boundaries = {1, 2}}}}, true);
  const uint64_t before = plan_hash(*plan, {});
  plan->data.fields[0].transform = {ops::Bucketize{.boundaries = {1, 3}}};
  CHECK(plan_hash(*plan, {}) != before);
}

}  // namespace
}  // namespace downpour::data
