// Compressed files: recognized by their first bytes, read like plain files, and limited in size.
#include <set>

#include "shared/base/rng.h"
#include "shared/data/bytes/open_bytes.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Contains;
using Compress = std::string (*)(const std::string&);

std::string gzip_of(const std::string& text) { return gzipped(text); }
constexpr Compress kAll[] = {gzip_of, zlib_compressed, zstd_compressed};

std::shared_ptr<ReadPlan> libsvm_plan(const std::string& path) {
  auto plan = plan_of(path);
  reads_libsvm(*plan);
  return plan;
}

std::string numbered_lines(uint32_t count) {
  std::string text;
  for (uint32_t i = 0; i < count; ++i) text += str(i, " ", i * 7 % 1000, ":1\n");
  return text;
}

TEST_CASE("a compressed file reads like the plain one, with one member or several", "[data]") {
  const ScratchDir dir;
  const std::string text = numbered_lines(200'000);  // 2 MB, more than one window
  const ShardRead plain = read_file(libsvm_plan(dir.write("plain", text))).value();
  REQUIRE(plain.floats.size() == 200'000);
  for (const Compress compress : kAll) {
    // One file has a single gzip member, zlib stream or zstd frame; the other has two. Their names
    // have no suffix.
    const size_t half = text.size() / 2;
    for (const std::string& bytes :
         {compress(text), compress(text.substr(0, half)) + compress(text.substr(half))}) {
      auto plan = libsvm_plan(dir.write("f", bytes));
      CHECK_FALSE(plan->files[0].splittable);
      const ShardRead read = read_file(plan).value();
      CHECK(read.floats == plain.floats);
      CHECK(read.keys == plain.keys);
      CHECK(read.totals.end_offset == bytes.size());
    }
  }
}

TEST_CASE("the marks of a compressed file do not depend on the sizes of the reads", "[data]") {
  const ScratchDir dir;
  std::string text = numbered_lines(60'000);
  text += std::string(200'000, 'x');  // a few compressed bytes give more than some reads take
  Rng rng(11);
  for (const Compress compress : kAll) {
    const size_t half = text.size() / 2;
    const std::string bytes = compress(text.substr(0, half)) + compress(text.substr(half));
    const std::string path = dir.write("f", bytes);
    std::vector<uint64_t> cuts;
    for (uint64_t cut = 1; cut < bytes.size(); cut += 1 + rng.below(bytes.size() / 20))
      cuts.push_back(cut);
    std::vector<uint64_t> first;
    for (const size_t size : {text.size() + 1, size_t{1}, size_t{300}, size_t{65'536}, size_t{0}}) {
      const auto source = open_bytes(File::open(path).value(), 0, cuts).value();
      std::string out;
      for (;;) {
        const size_t before = out.size(), wanted = size > 0 ? size : 1 + rng.below(5000);
        out.resize(before + wanted);
        const size_t n = source->read(out.data() + before, wanted).value();
        out.resize(before + n);
        if (n == 0) break;
        const auto known = source->marks();
        if (known.size() < cuts.size()) REQUIRE(source->consumed() <= cuts[known.size()]);
      }
      REQUIRE(out == text);
      const std::vector<uint64_t> marks(source->marks().begin(), source->marks().end());
      REQUIRE(marks.size() == cuts.size());
      CHECK(std::is_sorted(marks.begin(), marks.end()));
      CHECK(marks.back() <= text.size());
      CHECK(std::set<uint64_t>(marks.begin(), marks.end()).size() > 3);
      if (first.empty()) first = marks;
      CHECK(marks == first);
    }
  }
}

TEST_CASE("a compressed file with missing or changed bytes is never read as other content",
          "[data]") {
  const ScratchDir dir;
  const std::string text = numbered_lines(300);
  const ShardRead plain = read_file(libsvm_plan(dir.write("plain", text))).value();
  for (const Compress compress : kAll) {
    const std::string whole = compress(text);
    for (size_t size = whole.size() - 40; size < whole.size(); ++size) {
      const Error error = error_of(libsvm_plan(dir.write("f", whole.substr(0, size))));
      CHECK(error.code == ErrorCode::kBadData);
    }
    for (size_t at = 10; at < whole.size(); at += 3) {
      std::string turned = whole;
      turned[at] = char(turned[at] ^ 0x10);
      const auto read = read_file(libsvm_plan(dir.write("f", turned)));
      if (read) CHECK(read->floats == plain.floats);  // an unused bit, for example in a stored name
    }
  }
}

TEST_CASE("a file that expands to more than 200 times its size is rejected", "[data]") {
  const ScratchDir dir;
  const std::string bomb = "1 1:1\n" + std::string(size_t{80} << 20, '\n');
  for (const Compress compress : kAll) {
    const std::string bytes = compress(bomb);
    REQUIRE(bytes.size() < (size_t{80} << 20) / 200);
    CHECK_THAT(error_of(libsvm_plan(dir.write("f", bytes))).what, Contains("200 times"));
  }
}

TEST_CASE("a zstd frame that needs a window of 256 MiB is rejected", "[data]") {
  const ScratchDir dir;
  // Magic number, a header without the size, a window of 2^(10 + 18) bytes, a raw block of 1 byte.
  const std::string bytes("\x28\xb5\x2f\xfd\x00\x90\x09\x00\x00\x0a", 10);
  CHECK_THAT(error_of(libsvm_plan(dir.write("f", bytes))).what, Contains("decompress"));
}

TEST_CASE("text that begins like a zlib stream is read as text", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f.csv", "x^,y\n1,2\n"), DataFormat::kCsv);
  CHECK(plan->files[0].splittable);
  plan->data.header = true;
  plan->data.fields = {{.name = "x^"}};
  plan->layout.floats = {{"x^", 1}};
  CHECK(read_file(plan).value().floats == std::vector<std::vector<float>>{{1}});
}

}  // namespace
}  // namespace downpour::data
