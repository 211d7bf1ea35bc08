#include "shared/base/human.h"

#include <catch2/catch.hpp>

TEST_CASE("bytes are shown in the largest unit that leaves at least one", "[base]") {
  using downpour::human_bytes;
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.0 KiB");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes((1 << 20) - 1) == "1.0 MiB");
  CHECK(human_bytes(UINT64_MAX) == "16.0 EiB");
}
