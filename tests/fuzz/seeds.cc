#include "tests/fuzz/seeds.h"

#include <cstring>

#include "shared/base/str.h"
#include "shared/data/formats/example/tfrecord.h"
#include "shared/data/formats/example/tfrecord_writer.h"
#include "tests/support/arrays.h"

namespace downpour::fuzz {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kNumbers[] = {"0",
                                         "1",
                                         "-1",
                                         "+1",
                                         "7",
                                         "0.5",
                                         "-0.0",
                                         "1e3",
                                         ".5",
                                         "5.",
                                         "1e-45",
                                         "3.4028235e38",
                                         "3.5e38",
                                         "1e309",
                                         "-1e309",
                                         "1e-400",
                                         "nan",
                                         "NaN",
                                         "inf",
                                         "-inf",
                                         "Infinity",
                                         "0x10",
                                         "1_000",
                                         "1e",
                                         "--1",
                                         "2147483648",
                                         "4294967296",
                                         "9007199254740993",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "-9223372036854775808",
                                         "-9223372036854775809",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "00000000000000000000000000000001",
                                         "0.00000000000000000000000000000000000000000000000001",
                                         "123456789012345678901234567890",
                                         "1e99999999999999999999",
                                         "",
                                         "true",
                                         "null"};
constexpr std::string_view kLines[] = {"\n",
                                       "\r\n",
                                       "\r",
                                       "\n\n",
                                       " ",
                                       "\t",
                                       ",",
                                       ";",
                                       "|",
                                       ":",
                                       "#",
                                       "\"",
                                       "\"\"",
                                       "'",
                                       "\\",
                                       "\0"sv,
                                       "\xff",
                                       "\xef\xbb\xbf",
                                       "\xc0\x80",
                                       "\xed\xa0\x80",
                                       "\xf4\x90\x80\x80",
                                       "qid:3",
                                       "1:1",
                                       ":1",
                                       "1:",
                                       "1:1:1",
                                       "18446744073709551615:1",
                                       "-1:1",
                                       "1:nan",
                                       "\xe2\x80\xa8",
                                       "nan",
                                       "inf",
                                       "1e309",
                                       "-0",
                                       "\",\"",
                                       "\"\n\"",
                                       "\n\"",
                                       "9223372036854775808",
                                       "label",
                                       "age",
                                       "color",
                                       "red",
                                       "0x1p3"};
constexpr std::string_view kJson[] = {"{",
                                      "}",
                                      "[",
                                      "]",
                                      ":",
                                      ",",
                                      "\"",
                                      "\\",
                                      "\\u0000",
                                      "\\ud800",
                                      "\\udc00",
                                      "\\ud83d\\ude00",
                                      "null",
                                      "true",
                                      "false",
                                      "1e309",
                                      "-0",
                                      "1E400",
                                      "0.1e-9999",
                                      "[[",
                                      "]]",
                                      "{\"a\":",
                                      "{}",
                                      "[]",
                                      "\"x\":",
                                      "\"id\":",
                                      "\"user\":{\"age\":3}",
                                      "\"tags\":[\"a\"]",
                                      "\n",
                                      "\r\n",
                                      "\xff",
                                      "\xef\xbb\xbf",
                                      "\0"sv,
                                      "18446744073709551616",
                                      "[[[[[[[[[[[[[[[[",
                                      "{\"user\":{\"user\":{\"user\":",
                                      "-",
                                      "01",
                                      "1.",
                                      "tru",
                                      "//",
                                      "NaN",
                                      "Infinity"};
constexpr std::string_view kProto[] = {
    "\xff\xff\xff\xff\x0f",
    "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
    "\x0a",
    "\x12",
    "\x1a",
    "\x22",
    "\x0a\x00"sv,
    "\x08\x01",
    "\x0d\x00\x00\xc0\x7f"sv,
    "\x0b",
    "\x0c",
    "\x0a\x02id",
    "\x0a\x01x",
    "\x0a\x05words",
    "\x0a\x03vec",
    "\x0a\x04keys",
    "\x12\x02\x1a\x00"sv,
    "\x1a\x02\x08\x01",
    "\x08\x09",
    "\x12\x04\x12\x02\x08\x03",
    "\x22\x0c",
    "\x00\x00\x00\x00\x00\x00\x00\x00"sv,
    "\x80\x00"sv,
    "\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"};
constexpr std::string_view kNpy[] = {"\x93NUMPY\x01\x00"sv,
                                     "\x93NUMPY\x02\x00"sv,
                                     "\x93NUMPY\x03\x00"sv,
                                     "'descr'",
                                     "'shape'",
                                     "'fortran_order'",
                                     "True",
                                     "False",
                                     "'<f4'",
                                     "'>i8'",
                                     "'|b1'",
                                     "'|O'",
                                     "'<f2'",
                                     "'<c8'",
                                     "[('a', '<f4')]",
                                     "(",
                                     ")",
                                     ",)",
                                     "(0,)",
                                     "(3, 0)",
                                     "(18446744073709551615,)",
                                     "(4294967296, 4294967296)",
                                     "(9223372036854775807, 2)",
                                     "()",
                                     "{",
                                     "}",
                                     "'",
                                     "\"",
                                     "L",
                                     "-1",
                                     "PK\x05\x06",
                                     "PK\x01\x02",
                                     "PK\x03\x04",
                                     "PK\x06\x06",
                                     "PK\x06\x07",
                                     "\xff\xff\xff\xff",
                                     "\xff\xff",
                                     "\x01\x00\x18\x00"sv};

std::string number(Rng& rng) {
  switch (rng.below(6)) {
    case 0:
      return std::string(one_of(kNumberTokens, rng));
    case 1:
      return str(rng.uniform64() * 1e3 - 500);
    case 2:
      return str(rng.next());
    default:
      return str(rng.below(100));
  }
}
std::string word(Rng& rng) {
  static constexpr std::string_view kWords[] = {
      "red", "green", "blue", "a b", "x", "\xc3\xa9t\xc3\xa9", "", "NA"};
  return std::string(kWords[rng.below(std::size(kWords))]);
}
std::string line_end(Rng& rng) { return one_in(rng, 20) ? "\r\n" : "\n"; }
uint64_t few(Rng& rng) { return rng.below(uint64_t{1} << (1 + rng.below(5))); }

}  // namespace

const Dictionary kNumberTokens = kNumbers, kLineTokens = kLines, kJsonTokens = kJson,
                 kProtoTokens = kProto, kNpyTokens = kNpy;

std::string libsvm_seed(Rng& rng) {
  std::string out = one_in(rng, 20) ? "\xef\xbb\xbf" : "";
  for (uint64_t n = 1 + few(rng); n > 0; --n) {
    if (one_in(rng, 15)) out += "# a comment\n";
    if (one_in(rng, 15)) out += "\n";
    out += one_in(rng, 10) ? number(rng) : rng.below(2) == 0 ? "-1" : "1";
    if (one_in(rng, 15)) out += " qid:7";
    for (uint64_t f = few(rng), key = 0; f > 0; --f) {
      key += 1 + rng.below(1000);
      out += str(" ", one_in(rng, 20) ? number(rng) : str(key), ":",
                 one_in(rng, 3) ? number(rng) : "1");
    }
    if (one_in(rng, 15)) out += " # behind";
    out += line_end(rng);
  }
  return out;
}

std::string libffm_seed(Rng& rng) {
  std::string out;
  for (uint64_t n = 1 + few(rng); n > 0; --n) {
    out += rng.below(2) == 0 ? "0" : "1";
    for (uint64_t f = few(rng); f > 0; --f)
      out += str(" ", rng.below(5), ":", rng.below(1000), ":", one_in(rng, 3) ? number(rng) : "1");
    out += line_end(rng);
  }
  return out;
}

std::string table_seed(Rng& rng, char delimiter, bool header, bool breaks) {
  const std::string d(1, delimiter);
  const auto text = [&](std::string value) {
    if (breaks && one_in(rng, 3)) return "\"" + value + line_end(rng) + value + "\"";
    return delimiter == ',' && one_in(rng, 4) ? "\"" + value + (one_in(rng, 3) ? "\"\"x\"" : "\"")
                                              : value;
  };
  std::string out;
  if (header) out = "label" + d + "age" + d + "color" + d + "title" + d + "list" + line_end(rng);
  for (uint64_t n = 1 + few(rng); n > 0; --n) {
    std::string list, title;
    for (uint64_t i = few(rng); i > 0; --i) {
      list += (list.empty() ? "" : " ") + number(rng);
      title += (title.empty() ? "" : " ") + word(rng);
    }
    out += str(rng.below(2), d, number(rng), d, text(word(rng)), d, text(title), d, text(list));
    out += line_end(rng);
  }
  return out;
}

std::string criteo_seed(Rng& rng) {
  std::string out;
  for (uint64_t n = 1 + few(rng) / 2; n > 0; --n) {
    out += str(rng.below(2));
    for (int i = 0; i < 13; ++i)
      out += "\t" + (one_in(rng, 4) ? "" : one_in(rng, 8) ? number(rng) : str(rng.below(5000)));
    for (int i = 0; i < 26; ++i) out += "\t" + (one_in(rng, 4) ? "" : hex(rng.next() >> 32));
    out += line_end(rng);
  }
  return out;
}

std::string jsonl_seed(Rng& rng) {
  std::string out;
  for (uint64_t n = 1 + few(rng); n > 0; --n) {
    const auto value = [&] {
      return one_in(rng, 8) ? "null" : one_in(rng, 6) ? number(rng) : str(rng.below(99));
    };
    out += str("{\"id\": ", value(), ", \"x\": ", value(), ", \"user\": {\"age\": ", value(),
               ", \"name\": \"", word(rng), "\"}");
    out += ", \"tags\": [";
    for (uint64_t i = few(rng); i > 0; --i) out += str("\"", word(rng), "\"", i > 1 ? ", " : "");
    out += str("], \"vec\": [", value(), ",", value(), ",", value(), "], \"list\": [", value(),
               ", 2]}", line_end(rng));
  }
  return out;
}

std::string example_seed(Rng& rng) {
  std::string out;
  data::ExampleBuilder builder;
  for (uint64_t n = 1 + few(rng); n > 0; --n) {
    builder.clear();
    const auto id = int64_t(rng.next() >> rng.below(64));
    const float x = float(rng.normal());
    const std::vector<std::string_view> words(size_t(few(rng)), "word");
    const std::vector<float> vec(one_in(rng, 20) ? 3 : 4, x);
    const int64_t dims[] = {3};
    const std::string tensor = data::serialized_tensor(data::TensorType::kFloat, dims,
                                                       testing::bytes_of(std::vector<float>(3, x)));
    const std::string_view tensors[] = {tensor};
    builder.add("id", std::span(&id, 1));
    if (!one_in(rng, 5)) builder.add("x", std::span(&x, 1));
    builder.add("words", words);
    builder.add("vec", vec);
    builder.add("tensor", tensors);
    const int64_t keys[] = {1 + int64_t(rng.below(4))};
    const std::string listed =
        data::serialized_tensor(data::TensorType::kInt64, keys,
                                one_in(rng, 2) ? std::string(size_t(keys[0]) * 8, '\1') : "") +
        (one_in(rng, 4) ? "\x52\x03\x01\x02\x03" : "\x52\x01\x07");
    const std::string_view listed_too[] = {listed};
    builder.add("keys", listed_too);
    data::append_frame(out, builder.bytes());
  }
  return out;
}

std::string tensor_seed(Rng& rng) {
  std::string out;
  for (uint64_t n = 1 + few(rng); n > 0; --n) {
    const int64_t dims[] = {3};
    const std::vector<float> values = {float(rng.normal()), 1, float(rng.below(2))};
    data::append_frame(
        out, data::serialized_tensor(data::TensorType::kFloat, dims, testing::bytes_of(values)));
  }
  return out;
}

std::string npy_seed(Rng& rng, const std::string& type, uint32_t rows, uint32_t columns) {
  const auto width = size_t(type.back() - '0');
  std::string data;
  for (size_t i = 0; i < size_t(rows) * columns; ++i) {
    const float x = float(rng.normal());
    const uint64_t word =
        type[1] == 'f' && width == 4 ? std::bit_cast<uint32_t>(x) : rng.below(200);
    data += testing::little_endian(word, int(width));
  }
  const std::string shape =
      columns == 1 ? str("(", rows, ",)") : str("(", rows, ", ", columns, ")");
  return testing::npy("'" + type + "'", shape, data, 1 + int(rng.below(3)));
}

void mend_frames(std::string& bytes, Rng& rng) {
  constexpr size_t kAround = data::kFrameHeaderBytes + data::kFrameTailBytes;
  for (size_t at = 0; at + kAround <= bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    const uint64_t room = bytes.size() - at - kAround;
    if (length > room && !one_in(rng, 8)) length = one_in(rng, 2) ? room : rng.below(room + 1);
    std::memcpy(bytes.data() + at, &length, sizeof length);
    const uint32_t head = data::masked_crc32c(bytes.data() + at, sizeof length);
    std::memcpy(bytes.data() + at + sizeof length, &head, sizeof head);
    if (length > room) return;
    const uint32_t tail =
        data::masked_crc32c(bytes.data() + at + data::kFrameHeaderBytes, size_t(length));
    std::memcpy(bytes.data() + at + data::kFrameHeaderBytes + length, &tail, sizeof tail);
    at += kAround + size_t(length);
  }
}

}  // namespace downpour::fuzz
