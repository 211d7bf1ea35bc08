// SavePace: how fast a core copies for a checkpoint.
#include "ps/runtime/save_pace.h"

#include <catch2/catch.hpp>

namespace downpour::ps {
namespace {

constexpr uint64_t kImage = 7'000'000;
constexpr uint64_t kRate = 350'000'000;  // an image in 20 ms

/// Returns the number of images copied in the second that begins at 10 s, with one request every
/// `request_ns`.
int copied_in_a_second(int64_t request_ns) {
  SavePace pace;
  int copies = 0;
  for (int64_t now = 10 * kSecond; now < 11 * kSecond; now += kMillisecond / 10) {
    if (request_ns > 0 && now % request_ns == 0) pace.served(now);
    if (now < pace.due_ns()) continue;
    pace.copied(now, kImage, kRate);
    ++copies;
  }
  return copies;
}

TEST_CASE("a serving core copies at its pace, an idle one as fast as it can", "[ps]") {
  CHECK(copied_in_a_second(kMillisecond) == Approx(51).margin(1));
  CHECK(copied_in_a_second(15 * kMillisecond) == Approx(51).margin(1));
  CHECK(copied_in_a_second(0) == 10'000);
}

TEST_CASE("time without copies is not made up for", "[ps]") {
  SavePace pace;
  pace.served(kSecond);
  pace.copied(kSecond, kImage, kRate);
  pace.served(5 * kSecond);
  pace.copied(5 * kSecond, kImage, kRate);
  CHECK(pace.due_ns() == 5 * kSecond);  // one image at once: only 20 ms may be made up for
  pace.copied(5 * kSecond, kImage, kRate);
  CHECK(pace.due_ns() == 5 * kSecond + 20 * kMillisecond);
}

TEST_CASE("the cores of a machine share its pace", "[ps]") {
  wire::View view;
  for (const char* endpoint :
       {"tcp://10.0.0.1:7000", "tcp://10.0.0.1:7001", "tcp://10.0.0.2:7000"}) {
    view.owners.push_back({.endpoint = endpoint});
  }
  CHECK(cores_beside(view, "tcp://10.0.0.1:7001") == 2);
  CHECK(cores_beside(view, "tcp://10.0.0.2:7000") == 1);
  view.owners = {{.endpoint = "inproc://ps-0"}, {.endpoint = "inproc://ps-1"}};
  CHECK(cores_beside(view, "inproc://ps-1") == 2);
  CHECK(SavePace::bytes_per_s(2, 2) == 300'000'000);
  CHECK(SavePace::bytes_per_s(16, 1) == 4'800'000'000);
  CHECK(SavePace::bytes_per_s(2, 0) == 600'000'000);  // not in the view yet
}

}  // namespace
}  // namespace downpour::ps
