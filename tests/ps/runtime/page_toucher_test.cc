// PageToucher: requested pages keep their contents, and no thread touches memory after forget().
#include "ps/runtime/page_toucher.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/units.h"

namespace downpour::ps {
namespace {

constexpr size_t kPage = 4 * kKiB;

class Mapping {
 public:
  explicit Mapping(size_t bytes)
      : bytes_(bytes),
        begin_(static_cast<uint8_t*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    REQUIRE(begin_ != MAP_FAILED);
  }
  ~Mapping() { ::munmap(begin_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  uint8_t* begin() const { return begin_; }
  size_t present_pages() const {
    std::vector<unsigned char> present(bytes_ / kPage);
    REQUIRE(::mincore(begin_, bytes_, present.data()) == 0);
    size_t pages = 0;
    for (const unsigned char page : present) pages += page & 1;
    return pages;
  }

 private:
  size_t bytes_;
  uint8_t* begin_;
};

bool eventually(const std::function<bool()>& is_so) {
  for (int i = 0; i < 3000; ++i) {
    if (is_so()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE("requested pages become present and keep their contents, and other pages stay absent",
          "[ps][toucher]") {
  constexpr size_t kBytes = 8 * kMiB;
  const bool huge_pages = GENERATE(false, true);
  const Mapping mapping(kBytes);
  // A quarter in the middle. It begins and ends inside huge pages.
  uint8_t* const first = mapping.begin() + 3 * kMiB + 5 * kPage;
  constexpr size_t kAsked = 2 * kMiB;
  std::memset(first + kPage, 7, kPage);
  PageToucher toucher;
  toucher.ask(first, kAsked, huge_pages);
  CHECK(eventually([&] { return mapping.present_pages() >= kAsked / kPage; }));
  for (size_t at = 0; at < kAsked; ++at) {
    REQUIRE(first[at] == (at / kPage == 1 ? 7 : 0));
  }
  // Huge pages may extend beyond the requested range, but not this far.
  CHECK(mapping.present_pages() < kBytes / kPage - kMiB / kPage);
}

TEST_CASE("data that a core writes while its pages are made present is kept", "[ps][toucher]") {
  constexpr size_t kBytes = 16 * kMiB;
  const Mapping mapping(kBytes);
  PageToucher toucher;
  toucher.ask(mapping.begin(), kBytes, true);
  for (size_t at = 0; at < kBytes; at += 64) mapping.begin()[at] = uint8_t(at / 64 + 1);
  CHECK(eventually([&] { return mapping.present_pages() == kBytes / kPage; }));
  toucher.forget(mapping.begin(), kBytes);
  for (size_t at = 0; at < kBytes; at += 64) {
    REQUIRE(mapping.begin()[at] == uint8_t(at / 64 + 1));
  }
}

TEST_CASE("memory may be unmapped right after forget(), again and again", "[ps][toucher]") {
  PageToucher toucher;
  for (int i = 0; i < 200; ++i) {
    const Mapping mapping(4 * kMiB);
    const Mapping other(kMiB);
    toucher.ask(mapping.begin(), 4 * kMiB, i % 2 == 0);
    toucher.ask(other.begin(), kMiB, false);
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50 * (i % 20)));
    toucher.forget(mapping.begin(), 4 * kMiB);  // a later touch would crash the process
    toucher.forget(other.begin(), kMiB);
  }
}

}  // namespace downpour::ps
