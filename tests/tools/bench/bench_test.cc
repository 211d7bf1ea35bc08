#include "tools/bench/bench.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "tools/bench/report.h"

namespace downpour::tools {
namespace {

TEST_CASE("every part runs with small sizes and reports finite figures next to their limits",
          "[bench]") {
  for (const std::string& part : bench_parts()) {
    CAPTURE(part);
    const std::vector<BenchResult> results = run_bench(part, {.quick = true});
    CHECK(!results.empty());
    for (const BenchResult& result : results) {
      CAPTURE(result.name, result.value, result.limit_value);
      CHECK(std::isfinite(result.value));
      CHECK(result.value >= 0);
      CHECK(!result.unit.empty());
      if (result.limit_name.empty()) continue;
      CHECK(std::isfinite(result.ratio()));
      CHECK(result.ratio() > 0);
    }
  }
}

TEST_CASE("a repeated figure shows its median and its range", "[bench]") {
  const BenchResult result{"pull", 2.5, "GB/s", "raw TCP", 5, false, 2, 3};
  const std::string text = bench_text({&result, 1});
  CHECK(text.find("2.50 GB/s") != std::string::npos);
  CHECK(text.find("0.50 of raw TCP (5.00)") != std::string::npos);
  CHECK(text.find("[2.00 .. 3.00]") != std::string::npos);
  const std::string json = bench_json({&result, 1});
  CHECK(json.find("\"ratio\":0.5") != std::string::npos);
  CHECK(json.find("\"low\":2.0") != std::string::npos);
}

}  // namespace
}  // namespace downpour::tools
