// MappedBytes: ranges of files, and files that are cut short while they are mapped.
#include "shared/data/bytes/mapped_bytes.h"

#include <csignal>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/data/bytes/file.h"
#include "tests/shared/data/support.h"
#include "tests/support/arrays.h"

namespace downpour::data {
namespace {

constexpr size_t kBytes = 64 << 10;

std::string counted_bytes() {
  std::string text(kBytes, '\0');
  for (size_t i = 0; i < kBytes; ++i) text[i] = char(i * 7 + i / 256);
  return text;
}

TEST_CASE("mapped: maps any range of a file, up to the maximum number of ranges", "[data]") {
  const ScratchDir dir;
  const std::string text = counted_bytes();
  const File file = File::open(dir.write("x", text)).value();
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{4096}, size_t{5000}, kBytes - 1}) {
    const size_t size = std::min<size_t>(kBytes - offset, 10'000);
    const auto mapped = MappedBytes::map(file, offset, size);
    REQUIRE(mapped);
    CHECK(std::string(mapped->data(), size) == text.substr(offset, size));
    CHECK_FALSE(mapped->is_torn());
  }
  CHECK_FALSE(MappedBytes::map(file, 0, 0));
  std::vector<MappedBytes> all;
  for (size_t i = 0; i < kMappedBytesMax; ++i) {
    auto one = MappedBytes::map(file, 0, kBytes);
    REQUIRE(one);
    all.push_back(std::move(*one));
  }
  CHECK_FALSE(MappedBytes::map(file, 0, kBytes));  // the list is full
  all.pop_back();
  CHECK(MappedBytes::map(file, 0, kBytes));
}

TEST_CASE("mapped: bytes past the end of a shortened file are zeros and mark the range as torn",
          "[data]") {
  const ScratchDir dir;
  const std::string text = counted_bytes();
  const std::string path = dir.write("x", text);
  const File file = File::open(path).value();
  const auto mapped = MappedBytes::map(file, 0, kBytes);
  const auto other = MappedBytes::map(file, 0, 4096);
  REQUIRE(mapped);
  REQUIRE(other);
  std::filesystem::resize_file(path, 10'000);
  CHECK(file.is_cut());
  CHECK(std::string(mapped->data(), 10'000) == text.substr(0, 10'000));
  CHECK_FALSE(mapped->is_torn());
  volatile const char* const beyond = mapped->data() + 20'000;
  CHECK(*beyond == 0);
  CHECK(mapped->is_torn());
  CHECK(mapped->data()[kBytes - 1] == 0);
  CHECK_FALSE(other->is_torn());
  CHECK_FALSE(MappedBytes::map(file, 0, 4096)->is_torn());  // a new range is not torn
}

TEST_CASE("mapped: SIGBUS outside mapped ranges ends the process as before", "[data]") {
  const ScratchDir dir;
  const File file = File::open(dir.write("x", counted_bytes())).value();
  const auto mapped = MappedBytes::map(file, 0, kBytes);
  REQUIRE(mapped);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDERR_FILENO);  // hides a sanitizer's report
    ::raise(SIGBUS);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : WEXITSTATUS(status) != 0));
}

TEST_CASE("npy: an array that is cut short while a window is read is an error", "[data]") {
  const size_t rows = GENERATE(10'000, 2'000'000);  // the window is read, or mapped
  for (const size_t left : {size_t{40'000}, size_t{8192}, size_t{39'999}, size_t{130}}) {
    const ScratchDir dir;
    const std::vector<float> values(rows, 1.0F);
    const std::string path = dir.write("x.npy", testing::floats_npy(values, str("(", rows, ",)")));
    auto plan = std::make_shared<ReadPlan>();
    plan->data.format = DataFormat::kNpy;
    plan->data.source.paths = {path};
    plan->data.fields = {{.name = "x"}};
    plan->batch_size = 100;
    plan->layout.floats = {{"x", 1}};
    plan->files = list_files(plan->data, plan->data.source, "/").value();
    const plan::ShardRange range{.file = 0, .begin = 0, .end = plan->files[0].bytes};
    auto reader = open_shard(plan, Split::kAll, {}, range, 0).value();
    Batch batch;
    REQUIRE(reader->next(batch).value());  // the window has been loaded
    std::filesystem::resize_file(path, left);
    INFO(rows << " rows, cut to " << left << " bytes");
    const auto next = reader->next(batch);
    REQUIRE_FALSE(next);
    CHECK_THAT(next.error().what, Catch::Contains("it is shorter now"));
    CHECK_FALSE(reader->failed_batch());
  }
}

}  // namespace
}  // namespace downpour::data
