// Codecs: a decoder and the parser of a format read the same values from the same records.
#include <algorithm>
#include <cstring>

#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/base/str.h"
#include "shared/data/formats/codec.h"
#include "shared/data/formats/example/tfrecord.h"
#include "shared/data/formats/numpy/npy_header.h"
#include "shared/data/records/window.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

constexpr size_t kRecords = 500;
constexpr float kFallback = 7;

/// The values of a record. `features` are those of libsvm and libffm.
struct Sample {
  float label = 0;
  std::optional<float> x;  // nothing: missing
  int64_t id = 0;
  std::string text;
  std::vector<uint64_t> groups, keys;
  std::vector<float> values;
};

float random_float(Rng& rng) {
  switch (rng.below(4)) {
    case 0:
      return float(rng.below(100));
    case 1:
      return -float(rng.below(1000)) / 8;
    case 2:
      return float(rng.normal()) * 1e-12F;
    default:
      return float(rng.normal() * 1e20);
  }
}

std::string random_text(Rng& rng, bool quotes) {
  static const std::vector<std::string> kPlain = {"a", "Z\xc3\xbc", "007", "1e5", ";", "x y", "'"};
  static const std::vector<std::string> kQuoted = {",", "\"", " ", "\"\"", ",,"};
  std::string text = "t";
  for (uint64_t i = rng.below(6); i > 0; --i) {
    const auto& from = quotes && rng.below(2) == 0 ? kQuoted : kPlain;
    text += from[rng.below(from.size())];
  }
  return text;
}

Sample random_sample(Rng& rng, bool quotes) {
  Sample out{.label = float(rng.below(2)),
             .x = random_float(rng),
             .id = int64_t(rng.below(uint64_t{1} << 40)),
             .text = random_text(rng, quotes)};
  if (rng.below(8) == 0) out.x.reset();
  uint64_t key = 0;
  for (uint64_t i = rng.below(9); i > 0; --i) {
    out.groups.push_back(rng.below(5));
    out.keys.push_back(key += 1 + rng.below(uint64_t{1} << (rng.below(20) + 1)));
    out.values.push_back(rng.below(2) == 0 ? 1 : random_float(rng));
  }
  return out;
}

/// Returns the bytes that a window has for an encoded record: without line break or frame.
std::string_view record_in(DataFormat format, std::string_view encoded) {
  if (is_lines(format)) return encoded.substr(0, encoded.size() - 1);
  if (!is_frames(format)) return encoded;
  encoded.remove_prefix(kFrameHeaderBytes);
  return encoded.substr(0, encoded.size() - kFrameTailBytes);
}

/// Decodes an encoded record. `buffer` holds its bytes and those that must be readable after it.
void decode(RecordDecoder& decoder, DataFormat format, std::string_view encoded,
            std::string& buffer, std::vector<FieldValues>& values) {
  const std::string_view record = record_in(format, encoded);
  buffer.assign(encoded.substr(size_t(record.data() - encoded.data())));
  buffer.append(kPadBytes, '\0');
  Fault fault;
  const bool good = decoder.decode({.bytes = {buffer.data(), record.size()}}, values, fault);
  INFO(buffer);
  REQUIRE(good);
}

uint64_t key_of(const std::string& field, std::string_view text) {
  return hash_combine(hash_string(field), hash_string(text));
}

/// Writes the records as files that the format's parser reads. Returns their path.
std::string write_records(const ScratchDir& dir, DataFormat format, const RecordEncoder& encoder,
                          const std::vector<std::string>& encoded) {
  if (!is_arrays(format)) {
    std::string all = encoder.preamble();
    for (const std::string& each : encoded) all += each;
    return dir.write(str("f.", traits_of(format).name), all);
  }
  std::filesystem::create_directories(dir.path() + "/arrays");
  size_t begin = 0;
  for (const ArrayForm& form : encoder.arrays()) {
    std::string all = npy_header(form, encoded.size());
    for (const std::string& each : encoded) all += each.substr(begin, form.row_bytes);
    begin += form.row_bytes;
    dir.write("arrays/" + form.file, all);
  }
  return dir.path() + "/arrays";
}

std::vector<FieldValues> values_of(const Sample& sample, bool with_text) {
  std::vector<FieldValues> values(with_text ? 4 : 3);
  values[0].add(sample.id);
  values[1].add_real(double(sample.label), true);
  if (sample.x) values[2].add_real(double(*sample.x), true);
  if (with_text) values[3].add_text(sample.text);
  return values;
}

}  // namespace

TEST_CASE("A decoder and the parser of a format read the same values from encoded records",
          "[data]") {
  const auto format = GENERATE(DataFormat::kCsv, DataFormat::kTsv, DataFormat::kJsonl,
                               DataFormat::kTfrecord, DataFormat::kNpy);
  CAPTURE(traits_of(format).name);
  const bool with_text = !is_arrays(format);
  // Arrays are read in the order of their names, so the fields have this order, too.
  std::vector<FieldSpec> specs = {
      {.name = "id", .type = FieldType::kInt64, .transform = {ops::Identity{}}},
      {.name = "label"},
      {.name = "x", .fallback = str(kFallback)},
      {.name = "text", .type = FieldType::kString}};
  const std::vector<ValueKind> kinds = {ValueKind::kInteger, ValueKind::kReal, ValueKind::kReal,
                                        ValueKind::kText};
  if (!with_text) specs.pop_back();
  std::vector<ValueField> fields;
  for (size_t i = 0; i < specs.size(); ++i)
    fields.push_back({.name = specs[i].name, .kind = kinds[i], .spec = specs[i]});

  Rng rng(11);
  const auto encoder = make_encoder({.format = format, .fields = fields}).value();
  std::vector<Sample> samples;
  std::vector<std::string> encoded;
  for (size_t i = 0; i < kRecords; ++i) {
    samples.push_back(random_sample(rng, format != DataFormat::kTsv));
    Fault fault;
    REQUIRE(encoder->encode(values_of(samples.back(), with_text), encoded.emplace_back(), fault));
  }
  const ScratchDir dir;
  const std::string path = write_records(dir, format, *encoder, encoded);
  auto plan = plan_of(path, format);
  plan->data.header = is_table(format);
  plan->data.fields = specs;
  plan->layout = {.floats = {{"label", 1}, {"x", 1}}, .bags = {{"id", 0}}, .tables = {TableId(0)}};
  if (with_text) plan->layout.bags.push_back({"text", 0});
  const ShardRead parsed = read_file(plan).value();
  REQUIRE(parsed.floats.size() == kRecords);

  const auto decoder = make_decoder(plan->data, path, fields, Unnamed::kRefuse).value();
  std::vector<FieldValues> values;
  std::string buffer;
  for (size_t i = 0; i < kRecords; ++i) {
    decode(*decoder, format, encoded[i], buffer, values);
    const bool filled = is_arrays(format);  // the encoder writes the fallback
    REQUIRE(values[2].missing() == (!samples[i].x && !filled));
    const auto x = values[2].missing() ? kFallback : float(values[2].number(0));
    REQUIRE(parsed.floats[i] == std::vector<float>{float(values[1].number(0)), x});
    REQUIRE(parsed.floats[i] ==
            std::vector<float>{samples[i].label, samples[i].x.value_or(kFallback)});
    REQUIRE(values[0].integers == std::vector<int64_t>{samples[i].id});
    REQUIRE(parsed.keys[i][0] == std::vector<uint64_t>{uint64_t(values[0].integers[0])});
    if (!with_text) continue;
    REQUIRE(values[3].texts == std::vector<std::string_view>{samples[i].text});
    REQUIRE(parsed.keys[i][1] == std::vector<uint64_t>{key_of("text", values[3].texts[0])});
  }
}

TEST_CASE("A decoder and the parser of sparse lines read the same features", "[data]") {
  const auto format = GENERATE(DataFormat::kLibsvm, DataFormat::kLibffm);
  const bool ffm = format == DataFormat::kLibffm;
  CAPTURE(ffm);
  Rng rng(12);
  std::vector<Sample> samples;
  std::vector<std::string> lines;
  std::string all;
  for (size_t i = 0; i < kRecords; ++i) {
    const Sample& sample = samples.emplace_back(random_sample(rng, false));
    std::string& line = lines.emplace_back(str(sample.label));
    for (size_t f = 0; f < sample.keys.size(); ++f) {
      line += rng.below(4) == 0 ? " \t" : " ";
      line += str(ffm ? str(sample.groups[f], ":") : "", sample.keys[f], ":");
      append_number(line, double(sample.values[f]), true);
    }
    line += rng.below(4) == 0 ? " # 3:4\n" : "\n";
    all += line;
  }
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", all), format);
  reads_libsvm(*plan);
  const ShardRead parsed = read_file(plan).value();
  REQUIRE(parsed.floats.size() == kRecords);
  const auto decoder = make_decoder(plan->data, "f", {}, Unnamed::kAdd).value();
  std::vector<FieldValues> values;
  std::string buffer;
  for (size_t i = 0; i < kRecords; ++i) {
    decode(*decoder, format, lines[i], buffer, values);
    REQUIRE(parsed.floats[i] == std::vector<float>{float(values[0].number(0))});
    REQUIRE(parsed.keys[i][0] ==
            std::vector<uint64_t>(values[1].integers.begin(), values[1].integers.end()));
    REQUIRE(parsed.values[i][0] ==
            std::vector<float>(values[1].reals.begin(), values[1].reals.end()));
    REQUIRE(parsed.keys[i][0] == samples[i].keys);
    REQUIRE(parsed.values[i][0] == samples[i].values);
    if (ffm) REQUIRE(values[1].groups == samples[i].groups);
  }
}

TEST_CASE("A decoder of tables splits the cells of declared vectors and lists", "[data]") {
  DataSpec data{.format = DataFormat::kCsv, .columns = {"v", "l", "s"}};
  std::vector<ValueField> fields;
  for (const FieldSpec& spec : {FieldSpec{.name = "v", .shape = {2}},
                                FieldSpec{.name = "l", .type = FieldType::kInt64, .shape = {-1}},
                                FieldSpec{.name = "s", .type = FieldType::kString, .shape = {-1}}})
    fields.push_back({.name = spec.name, .spec = spec});
  const auto decoder = make_decoder(data, "f", fields, Unnamed::kIgnore).value();
  std::vector<FieldValues> values;
  std::string buffer;
  decode(*decoder, data.format, "1 2.5,3 0 7,1 b\n", buffer, values);
  CHECK((values[0].list && values[0].reals == std::vector<double>{1, 2.5}));
  CHECK((values[1].list && values[1].integers == std::vector<int64_t>{3, 0, 7}));
  CHECK((values[2].list && values[2].texts == std::vector<std::string_view>{"1", "b"}));
}

TEST_CASE("An encodable format has an encoder, and a format that is not names those that are",
          "[data]") {
  for (const FormatTraits& traits : kFormats) {
    CAPTURE(traits.name);
    const std::vector<ValueField> fields = {{.name = "label", .kind = ValueKind::kReal}};
    const auto made = make_encoder({.format = traits.format, .fields = fields});
    REQUIRE(bool(made) == traits.encodable);
    if (!made) REQUIRE(made.error().hint == "to libsvm, csv, tsv, tfrecord, npy or jsonl");
  }
}

}  // namespace downpour::data
