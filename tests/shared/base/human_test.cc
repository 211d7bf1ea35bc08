#include "shared/base/human.h"

#include <catch2/catch.hpp>

TEST_CASE("human_bytes uses the largest unit in which the value is at least one", "[base]") {
  using downpour::human_bytes;
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.0 KiB");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes((1 << 20) - 1) == "1.0 MiB");
  CHECK(human_bytes(UINT64_MAX) == "16.0 EiB");
}

TEST_CASE("table_text aligns the first columns to the left and the others to the right", "[base]") {
  using downpour::table_text;
  CHECK(table_text({{"name", "n"}, {"é", "1,000"}, {"x", ""}}, 1) ==
        "  name      n\n  é     1,000\n  x\n");
  CHECK(downpour::grouped(0) == "0");
  CHECK(downpour::grouped(1234567) == "1,234,567");
  CHECK(downpour::text_width("naïve…") == 6);
}
