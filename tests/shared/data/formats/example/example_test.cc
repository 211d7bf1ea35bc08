// tf.train.Example and serialized tensors: parsing of values, and malformed records.
#include "shared/base/rng.h"
#include "tests/shared/data/formats/example/tfrecord_support.h"

namespace downpour::data {
namespace {

using Catch::Contains;
using Floats = std::vector<std::vector<float>>;
using Keys = std::vector<std::vector<std::vector<uint64_t>>>;

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += char(value | 0x80);
  return out + char(value);
}
std::string lengthed(char tag, const std::string& bytes) {
  return tag + varint(bytes.size()) + bytes;
}
/// Returns the map entry of a feature. `list` has the bytes of its list. `kind` is 1 for bytes, 2
/// for floats, 3 for integers.
std::string entry(const std::string& name, int kind, const std::string& list) {
  const std::string feature = lengthed(char(kind << 3 | 2), list);
  return lengthed('\x0a', lengthed('\x0a', name) + lengthed('\x12', feature));
}
std::string example(const std::string& entries) { return lengthed('\x0a', entries); }

std::string floats(std::vector<float> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4);
}

/// Reads one record with one field, as keys or as floats.
Result<ShardRead> read_one(const std::string& record, const FieldSpec& field, bool keys = false) {
  const ScratchDir dir;
  auto plan = example_plan(dir.write("f", framed({record})));
  plan->data.fields = {field};
  if (keys) {
    plan->layout.bags = {{field.name, 0}};
    plan->layout.tables = {TableId(0)};
  } else {
    plan->layout.floats = {{field.name, uint32_t(elements_of(field.shape))}};
  }
  return read_file(plan);
}
std::vector<float> floats_of(const std::string& record, const FieldSpec& field) {
  auto read = read_one(record, field);
  if (!read) FAIL(read.error().what);
  return read->floats.at(0);
}
std::vector<uint64_t> keys_of(const std::string& record, const FieldSpec& field) {
  auto read = read_one(record, field, true);
  if (!read) FAIL(read.error().what);
  return read->keys.at(0).at(0);
}
std::string fault_of(const std::string& record, const FieldSpec& field, bool keys = false) {
  auto read = read_one(record, field, keys);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::kBadData);
  CHECK_FALSE(read.error().hint.empty());
  return read.error().what;
}

const FieldSpec kIdentityBag{
    .name = "i", .type = FieldType::kInt64, .shape = {-1}, .transform = {ops::Identity{}}};

TEST_CASE("Example: packed, unpacked and mixed lists give the same values", "[data]") {
  const std::string big = varint(1ULL << 62), huge = varint(12345678901234567890ULL);
  const std::string packed = entry("i", 3, lengthed('\x0a', varint(7) + big));
  const std::string unpacked = entry("i", 3, "\x08" + varint(7) + "\x08" + big);
  const std::string mixed = entry("i", 3, "\x08" + varint(7) + lengthed('\x0a', big));
  for (const std::string& list : {packed, unpacked, mixed})
    CHECK(keys_of(example(list), kIdentityBag) == std::vector<uint64_t>{7, 1ULL << 62});
  CHECK_THAT(fault_of(example(entry("i", 3, "\x08" + huge)), kIdentityBag, true),
             Contains("is not a non-negative integer"));
  const FieldSpec pair{.name = "f", .shape = {2}};
  const std::string one = floats({1.5F}), two = floats({-2.25F});
  for (const std::string& list : {lengthed('\x0a', one + two), "\x0d" + one + "\x0d" + two,
                                  "\x0d" + one + lengthed('\x0a', two)})
    CHECK(floats_of(example(entry("f", 2, list)), pair) == std::vector<float>{1.5F, -2.25F});
}

TEST_CASE("Example: reads negative integers as floats, and texts as labels", "[data]") {
  const std::string minus = entry("i", 3, lengthed('\x0a', varint(uint64_t(-3))));
  CHECK(floats_of(example(minus), {.name = "i"}) == std::vector<float>{-3});
  CHECK(floats_of(example(minus), {.name = "i", .type = FieldType::kInt64}) ==
        std::vector<float>{-3});
  const FieldSpec label{.name = "l", .type = FieldType::kString, .positive = {"yes"}};
  CHECK(floats_of(example(entry("l", 1, lengthed('\x0a', "yes"))), label) == std::vector<float>{1});
  CHECK(floats_of(example(entry("l", 1, lengthed('\x0a', "no"))), label) == std::vector<float>{0});
  // An empty string is a value.
  const std::string blank = example(entry("l", 1, lengthed('\x0a', "")));
  CHECK(floats_of(blank, label) == std::vector<float>{0});
  const FieldSpec classes{
      .name = "l", .type = FieldType::kString, .fallback = "yes", .classes = {"yes", ""}};
  CHECK(floats_of(blank, classes) == std::vector<float>{1});
}

TEST_CASE("Example: a single value reads the same packed and unpacked, as a key and in a bag",
          "[data]") {
  const FieldSpec key{.name = "i", .type = FieldType::kInt64, .transform = {ops::Identity{}}};
  std::vector<uint64_t> numbers = {0};
  for (uint32_t bits = 1; bits < 63; ++bits)
    for (const uint64_t low : {0U, 1U}) numbers.push_back((1ULL << bits) - low);
  for (const uint64_t number : numbers) {
    CAPTURE(number);
    const std::string packed = example(entry("i", 3, lengthed('\x0a', varint(number))));
    const std::string unpacked = example(entry("i", 3, "\x08" + varint(number)));
    for (const std::string& record : {packed, unpacked}) {
      CHECK(keys_of(record, key) == std::vector<uint64_t>{number});
      CHECK(keys_of(record, kIdentityBag) == std::vector<uint64_t>{number});
      CHECK(floats_of(record, {.name = "i"}) == std::vector<float>{float(number)});
    }
  }
  // A varint that is longer than necessary, and one without an end.
  CHECK(keys_of(example(entry("i", 3, lengthed('\x0a', "\x85\x80" + std::string(1, '\0')))), key) ==
        std::vector<uint64_t>{5});
  CHECK_THAT(fault_of(example(entry("i", 3, lengthed('\x0a', "\x85\x80"))), key, true),
             Contains("list of values"));
  CHECK_THAT(fault_of(example(entry("i", 3, lengthed('\x0a', varint(uint64_t(-1))))), key, true),
             Contains("is not a non-negative integer"));
  CHECK_THAT(fault_of(example(entry("i", 3, lengthed('\x0a', "\x05\x06"))), key, true),
             Contains("more values"));
  // A list of two texts that is as long as a list of one text of 6 bytes.
  const FieldSpec text{.name = "s", .type = FieldType::kString};
  const std::string two = lengthed('\x0a', "ab") + lengthed('\x0a', "cd");
  CHECK_THAT(fault_of(example(entry("s", 1, two)), text, true), Contains("more values"));
  for (const size_t size : {1U, 121U, 122U, 123U, 200U}) {
    CAPTURE(size);
    const std::string word(size, 'x');
    CHECK(keys_of(example(entry("s", 1, lengthed('\x0a', word))), text) ==
          std::vector<uint64_t>{hash_combine(hash_string("s"), hash_string(word))});
  }
}

TEST_CASE("Example: every byte of a feature name counts", "[data]") {
  // Names of 1, 7 to 9, 16, 17 and 121 bytes. Some differ only in the middle.
  const std::vector<std::string> names = {"a",
                                          "b",
                                          "abcdefg",
                                          "abcdefgh",
                                          "abcdefghi",
                                          "abcdefgx",
                                          "abcdefghijklmnop",
                                          "abcdefghxjklmnop",
                                          "abcdefgh_jklmnopq",
                                          "abcdefgh-jklmnopq",
                                          std::string(100, 'n') + "1" + std::string(20, 'n'),
                                          std::string(100, 'n') + "2" + std::string(20, 'n')};
  const ScratchDir dir;
  std::string entries;
  for (size_t i = 0; i < names.size(); ++i)
    entries += entry(names[i], 3, lengthed('\x0a', varint(i + 1)));
  auto plan = example_plan(dir.write("f", framed({example(entries)})));
  std::vector<float> wanted;
  for (size_t i = 0; i < names.size(); ++i) {
    plan->data.fields.push_back({.name = names[i]});
    plan->layout.floats.push_back({names[i], 1});
    wanted.push_back(float(i + 1));
  }
  CHECK(read_file(plan).value().floats == Floats{wanted});
}

TEST_CASE("Example: the values of a record do not depend on the records before it", "[data]") {
  // The longest name for which the parser predicts an entry, and a longer one.
  const std::string fits(22, 'f'), longer(23, 'l');
  const std::vector<std::string> names = {"i", "k10", "x", fits, longer, "text"};
  Rng rng(5);
  std::vector<std::string> records;
  Floats floats_wanted;
  Keys keys_wanted;
  std::vector<size_t> order = {0, 1, 2, 3, 4, 5};
  for (int record = 0; record < 600; ++record) {
    // Most records keep the order of the one before. Some have another order, one feature twice,
    // one missing, or one that no field reads.
    const uint64_t chance = rng.below(10);
    const size_t swaps = record / 200 == 1 ? 6 : chance == 0;  // records 200 to 399 are shuffled
    for (size_t i = 0; i < swaps; ++i) std::swap(order[rng.below(6)], order[rng.below(6)]);
    std::string entries;
    std::vector<float> numbers = {0, 9, 0, 0};
    std::vector<std::vector<uint64_t>> keys(2);
    for (size_t place = 0; place < 6; ++place) {
      if (chance == 1 && place == 3) entries += entry("other", 3, lengthed('\x0a', varint(record)));
      const size_t field = order[place];
      if (chance == 2 && field == 2) continue;  // missing; its default is 9
      for (int time = 0; time < (chance == 3 && place == 1 ? 2 : 1); ++time) {
        const uint64_t number = rng.next() >> (1 + rng.below(63));
        const bool bare = rng.below(20) == 0;  // not packed
        if (field == 2) {
          const auto value = float(number % 1000) / 8;
          entries += entry(names[2], 2, (bare ? "\x0d" : "\x0a\x04") + floats({value}));
          numbers[1] = value;
        } else if (field == 5) {
          const std::string text(1 + (rng.below(4) == 0 ? 90 + rng.below(20) : rng.below(20)), 't');
          entries += entry(names[5], 1, lengthed('\x0a', text));
          keys[1] = {hash_combine(hash_string("text"), hash_string(text))};
        } else {
          entries += entry(names[field], 3,
                           bare ? "\x08" + varint(number) : lengthed('\x0a', varint(number)));
          if (field == 1) {
            keys[0] = {number};
          } else {
            numbers[field == 0 ? 0 : field - 1] = float(int64_t(number));
          }
        }
      }
    }
    records.push_back(example(entries));
    floats_wanted.push_back(numbers);
    keys_wanted.push_back(keys);
  }
  const ScratchDir dir;
  auto plan = example_plan(dir.write("f", framed(records)));
  plan->data.shuffle = "off";
  plan->data.fields = {
      {.name = names[0], .type = FieldType::kInt64},
      {.name = names[1], .type = FieldType::kInt64, .transform = {ops::Identity{}}},
      {.name = names[2], .fallback = "9"},
      {.name = names[3], .type = FieldType::kInt64},
      {.name = names[4], .type = FieldType::kInt64},
      {.name = names[5], .type = FieldType::kString}};
  plan->layout = {.floats = {{names[0], 1}, {names[2], 1}, {names[3], 1}, {names[4], 1}},
                  .bags = {{names[1], 0}, {names[5], 0}},
                  .tables = {TableId(0)}};
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == floats_wanted);
  CHECK(read.keys == keys_wanted);
}

TEST_CASE("Example: whether a record is bad does not depend on the record before it", "[data]") {
  const ScratchDir dir;
  const auto outcome_of_last = [&](const std::vector<std::string>& records) {
    auto plan = example_plan(dir.write("f", framed(records)));
    plan->data.shuffle = "off";
    plan->data.fields = {{.name = "text", .type = FieldType::kString, .fallback = "none"},
                         {.name = "x", .fallback = "9"}};
    plan->layout = {.floats = {{"x", 1}}, .bags = {{"text", 0}}, .tables = {TableId(0)}};
    const auto read = read_file(plan);
    if (!read) return read.error().what;
    return str(read->floats.back().at(0), " ", read->keys.back().at(0).at(0));
  };
  const auto text_of = [](size_t size) {
    return entry("text", 1, lengthed('\x0a', std::string(size, 't')));
  };
  const std::string x = entry("x", 2, lengthed('\x0a', floats({1.5F})));
  const std::string good = example(text_of(20) + x);
  std::vector<std::string> others;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int other : {good[at] + 1, good[at] - 1, good[at] ^ 0x80, 0, 0x7f}) {
      others.push_back(good);
      others.back()[at] = char(other);
    }
    others.push_back(good.substr(0, at));
    others.push_back(lengthed('\x0a', good.substr(2, at)) +
                     good.substr(std::min(2 + at, good.size())));
  }
  // Lengths written as one byte. From 0x80 on a length needs two bytes, so these records are
  // malformed.
  for (const int size : {0x61, 0x72, 0x73, 0x74, 0x78, 0x7a, 0x7f, 0x80, 0x90, 0xff}) {
    std::string lies = text_of(20).substr(0, 14) + std::string(size_t(size), 't');
    for (const auto& [place, more] : {std::pair{1, 12}, {9, 4}, {11, 2}, {13, 0}})
      lies[size_t(place)] = char(size + more);
    others.push_back(example(lies));
    others.push_back(example(lies) + good);
  }
  size_t bad = 0;
  for (const std::string& other : others) {
    const std::string alone = outcome_of_last({other});
    CAPTURE(other);
    CHECK(outcome_of_last({good, other}) == alone);
    bad += alone.find("1.5 ") != 0 && alone.find("9 ") != 0;
  }
  CHECK(bad > 100);
}

TEST_CASE("a value has the same key in an Example and in a table", "[data]") {
  const ScratchDir dir;
  auto csv = plan_of(dir.write("f.csv", "red,-17\n"), DataFormat::kCsv);
  const std::vector<FieldSpec> fields = {
      {.name = "s", .type = FieldType::kString},
      {.name = "n", .type = FieldType::kInt64, .transform = {ops::Hash{.buckets = 1000}}}};
  csv->data.columns = {"s", "n"};
  csv->data.fields = fields;
  csv->layout.bags = {{"s", 0}, {"n", 0}};
  csv->layout.tables = {TableId(0)};
  const Keys keys = read_file(csv).value().keys;
  const std::string record = example(entry("s", 1, lengthed('\x0a', "red")) +
                                     entry("n", 3, lengthed('\x0a', varint(uint64_t(-17)))));
  CHECK(keys_of(record, fields[0]) == keys[0][0]);
  CHECK(keys_of(record, fields[1]) == keys[0][1]);
}

TEST_CASE("Example: missing, empty and repeated features", "[data]") {
  const std::string nothing = example("");
  CHECK_THAT(fault_of(nothing, {.name = "x"}), Contains("field x is missing"));
  CHECK(floats_of(nothing, {.name = "x", .shape = {2}, .fallback = "4"}) ==
        std::vector<float>{4, 4});
  CHECK(keys_of(nothing, kIdentityBag).empty());
  CHECK_THAT(fault_of(nothing, {.name = "s", .type = FieldType::kString}, true),
             Contains("missing"));
  // A feature without a list, and one with an empty list, count as missing.
  for (const std::string& empty :
       {entry("x", 2, ""), lengthed('\x0a', lengthed('\x0a', "x") + lengthed('\x12', ""))})
    CHECK(floats_of(example(empty), {.name = "x", .fallback = "9"}) == std::vector<float>{9});
  // If an entry is repeated, the last one counts, as in any protobuf map.
  const std::string twice = entry("i", 3, lengthed('\x0a', varint(1) + varint(2))) +
                            entry("i", 3, lengthed('\x0a', varint(3)));
  CHECK(keys_of(example(twice), kIdentityBag) == std::vector<uint64_t>{3});
  // The features may be split into two messages, an entry may have its value before its name, and
  // unknown fields may come in between.
  const std::string reversed =
      lengthed('\x0a', lengthed('\x12', lengthed('\x1a', lengthed('\x0a', varint(5)))) +
                           lengthed('\x0a', "i"));
  CHECK(keys_of("\x18\x01" + example(entry("other", 1, lengthed('\x0a', "z"))) + example(reversed),
                kIdentityBag) == std::vector<uint64_t>{5});
}

TEST_CASE("Example: a wrong type or number of values is a bad record, and the error says so",
          "[data]") {
  const std::string strings = example(entry("v", 1, lengthed('\x0a', "7")));
  const std::string integers = example(entry("v", 3, lengthed('\x0a', varint(7) + varint(8))));
  const std::string reals = example(entry("v", 2, lengthed('\x0a', floats({7}))));
  CHECK_THAT(fault_of(strings, {.name = "v"}),
             Contains("\"7\" is a string, but the field is declared float32"));
  CHECK_THAT(fault_of(reals, {.name = "v", .type = FieldType::kInt64}),
             Contains("\"7\" is not an integer, but the field is declared int64"));
  CHECK_THAT(fault_of(reals, {.name = "v", .type = FieldType::kString}, true),
             Contains("\"7\" is a float, but the field is declared string"));
  CHECK_THAT(fault_of(integers, {.name = "v"}), Contains("more values"));
  CHECK_THAT(fault_of(integers, {.name = "v", .shape = {3}}), Contains("fewer values"));
  const float infinite = std::numeric_limits<float>::infinity();
  CHECK_THAT(fault_of(example(entry("v", 2, lengthed('\x0a', floats({infinite})))), {.name = "v"}),
             Contains("\"inf\" is not a finite number"));
  CHECK_THAT(fault_of("\x0a\x7f", {.name = "v"}), Contains("is not a tf.train.Example"));
  CHECK_THAT(fault_of(example(entry("v", 2, lengthed('\x0a', "abc"))), {.name = "v"}),
             Contains("list of values"));
}

TEST_CASE("several fields may read the same feature, under names of their own", "[data]") {
  const ScratchDir dir;
  auto plan = example_plan(
      dir.write("f", framed({example(entry("item/id", 3, lengthed('\x0a', varint(300))))})));
  plan->data.fields = {{.name = "number", .feature = "item/id"},
                       {.name = "key",
                        .feature = "item/id",
                        .type = FieldType::kInt64,
                        .transform = {ops::Identity{}}}};
  plan->layout = {.floats = {{"number", 1}}, .bags = {{"key", 0}}, .tables = {TableId(0)}};
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == Floats{{300}});
  CHECK(read.keys == Keys{{{300}}});
}

TEST_CASE("a serialized tensor must have the type and shape of its field", "[data]") {
  const auto with = [](const std::string& tensor) {
    return example(entry("t", 1, lengthed('\x0a', tensor)));
  };
  const std::vector<int64_t> shape = {2, 2};
  const std::string content = floats({1, 2, 3, 4});
  FieldSpec field{.name = "t", .shape = {2, 2}, .encoding = "tensor"};
  const std::string tensor = serialized_tensor(TensorType::kFloat, shape, content);
  CHECK(floats_of(with(tensor), field) == std::vector<float>{1, 2, 3, 4});
  field.shape = {4};
  CHECK_THAT(fault_of(with(tensor), field), Contains("\"[2, 2]\"") && Contains("shape"));
  field.shape = {2, 2};
  field.type = FieldType::kInt64;
  CHECK_THAT(fault_of(with(tensor), field), Contains("\"float32\"") && Contains("type"));
  field.type = FieldType::kFloat32;
  CHECK_THAT(fault_of(with(serialized_tensor(TensorType::kFloat, shape, content.substr(4))), field),
             Contains("fewer values than its shape"));
  // Values listed one by one. The last one fills the rest of the tensor.
  const std::string listed =
      tensor.substr(0, tensor.size() - 18) + "\x2d" + floats({5}) + "\x2d" + floats({6});
  CHECK(floats_of(with(listed), field) == std::vector<float>{5, 6, 6, 6});
  // A bag of keys of any length.
  FieldSpec bag = kIdentityBag;
  bag.encoding = "tensor";
  const int64_t ids[] = {3, 9, 27};
  const std::vector<int64_t> three = {3};
  CHECK(keys_of(example(entry(
                    "i", 1,
                    lengthed('\x0a', serialized_tensor(TensorType::kInt64, three,
                                                       {reinterpret_cast<const char*>(ids), 24})))),
                bag) == std::vector<uint64_t>{3, 9, 27});
  // A tensor that lists more values than its shape has is a bad record; the rest is not ignored.
  CHECK_THAT(
      fault_of(with(listed + "\x2d" + floats({7}) + "\x2d" + floats({8}) + "\x2d" + floats({9})),
               field),
      Contains("more values than"));
  // A shape of 2^64 elements, which is 0 in a uint64, is not taken for an empty tensor.
  const std::vector<int64_t> square = {int64_t{1} << 32, int64_t{1} << 32};
  CHECK_THAT(
      fault_of(example(entry("i", 1,
                             lengthed('\x0a', serialized_tensor(TensorType::kInt64, square, {})))),
               bag, true),
      Contains("more than 4 billion elements"));
  // A tensor whose shape has 2^30 elements, without any values.
  const std::vector<int64_t> billion = {1 << 30};
  CHECK_THAT(
      fault_of(example(entry("i", 1,
                             lengthed('\x0a', serialized_tensor(TensorType::kInt64, billion, {})))),
               bag, true),
      Contains("is a tensor whose shape has more elements than it contains"));
}

TEST_CASE("a record may be a tensor: a field reads all of it or a slice", "[data]") {
  const ScratchDir dir;
  const std::vector<int64_t> shape = {3};
  const std::string record = serialized_tensor(TensorType::kFloat, shape, floats({1, 2, 3}));
  auto plan = example_plan(dir.write("f", framed({record, record})));
  plan->data.record = "tensor";
  plan->data.fields = {{.name = "all", .shape = {3}},
                       {.name = "label", .column = "0"},
                       {.name = "x", .column = "1", .shape = {2}}};
  plan->layout.floats = {{"all", 3}, {"label", 1}, {"x", 2}};
  CHECK(read_file(plan).value().floats == Floats(2, {1, 2, 3, 1, 2, 3}));
  plan->data.fields[2].column = "2";
  CHECK_THAT(error_of(plan).what, Contains("field x") && Contains("fewer values"));
}

TEST_CASE("any bytes with a valid checksum are read or rejected", "[data]") {
  const ScratchDir dir;
  ExampleBuilder builder;
  const int64_t ids[] = {1, 200, 1LL << 40};
  const float xs[] = {1, 2};
  const std::string_view words[] = {"a", "bc"};
  const std::vector<int64_t> shape = {2};
  const std::string tensor = serialized_tensor(TensorType::kFloat, shape, floats({1, 2}));
  const std::string_view tensors[] = {tensor};
  builder.add("i", ids);
  builder.add("x", xs);
  builder.add("s", words);
  builder.add("t", tensors);
  const std::string whole = builder.bytes();
  std::vector<std::string> records;
  Rng rng(7);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      records.push_back(whole);
      records.back()[at] = char(records.back()[at] ^ (1 << bit));
    }
    records.push_back(whole.substr(0, at));
    records.push_back(whole.substr(at));
    records.push_back(whole.substr(0, at) + whole.substr(rng.below(whole.size())));
  }
  auto plan = example_plan(dir.write("f", framed(records)));
  plan->data.bad_records = BadRecords::kSkip;
  plan->data.fields = {kIdentityBag,
                       {.name = "x", .shape = {2}},
                       {.name = "s", .type = FieldType::kString, .shape = {-1}},
                       {.name = "t", .shape = {2}, .encoding = "tensor"}};
  plan->layout = {
      .floats = {{"x", 2}, {"t", 2}}, .bags = {{"i", 0}, {"s", 0}}, .tables = {TableId(0)}};
  const ShardRead read = read_file(plan).value();
  CHECK(read.totals.counts.read == records.size());
  CHECK(read.totals.counts.skipped + read.floats.size() == records.size());
  CHECK(read.totals.counts.skipped > records.size() / 4);
}

}  // namespace
}  // namespace downpour::data
