#include "tools/history/chart.h"

#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

namespace downpour::tools {
namespace {

TEST_CASE("ticks are multiples of 1, 2 or 5 times a power of ten", "[chart]") {
  CHECK(round_ticks(0, 10, 6) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(round_ticks(1, 40, 8).front() == 5);
  const std::vector<double> small = round_ticks(0.3121, 0.3189, 6);
  REQUIRE(small.size() == 3);
  CHECK(small[0] == Approx(0.314));
  for (size_t i = 1; i < small.size(); ++i) CHECK(small[i] - small[i - 1] == Approx(0.002));
  for (const double high : {1.0, 3.7, 42.0, 1e-7, 6e9}) {
    const std::vector<double> ticks = round_ticks(-high / 3, high, 6);
    CHECK(ticks.size() >= 2);
    CHECK(ticks.size() <= 6);
    CHECK(ticks.front() >= -high / 3 - high * 1e-6);
    CHECK(ticks.back() <= high + high * 1e-6);
  }
}

TEST_CASE("an interval without an inside has no ticks", "[chart]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(round_ticks(1, 1, 6).empty());
  CHECK(round_ticks(2, 1, 6).empty());
  CHECK(round_ticks(0, kInfinity, 6).empty());
  CHECK(round_ticks(0, 1, 1).empty());
}

TEST_CASE("a tick has as many digits as its step", "[chart]") {
  CHECK(tick_text(0.5, 0.5) == "0.5");
  CHECK(tick_text(0.5, 0.05) == "0.50");
  CHECK(tick_text(200, 50) == "200");
  CHECK(tick_text(-1e-17, 0.1) == "0.0");
  CHECK(tick_text(3e7, 1e7) == "3e+07");
  CHECK(tick_text(2e-6, 1e-6) == "2e-06");
}

TEST_CASE("texts of a chart are escaped", "[chart]") {
  CHECK(xml_text("a<b & \"c\"") == "a&lt;b &amp; &quot;c&quot;");
  CHECK(xml_text(std::string("x\x01\xff", 3)) == "x\\x01\\xff");
  Chart chart;
  chart.legend.push_back({.label = "</text><script>"});
  chart.panels.push_back({.title = "<b>", .series = {{.points = {{1, 2}, {2, 1}}}}});
  const std::string svg = to_svg(chart);
  CHECK(svg.find("<script>") == std::string::npos);
  CHECK(svg.find("<b>") == std::string::npos);
  CHECK(svg.find("&lt;/text&gt;&lt;script&gt;") != std::string::npos);
}

TEST_CASE("a value that is not finite interrupts its line", "[chart]") {
  Chart chart;
  chart.panels.push_back(
      {.title = "loss", .series = {{.points = {{1, 4}, {2, 3}, {3, NAN}, {4, 2}, {5, 1}}}}});
  const std::string svg = to_svg(chart);
  const size_t path = svg.find("<path d=\"");
  REQUIRE(path != std::string::npos);
  const std::string line = svg.substr(path, svg.find("\" fill", path) - path);
  CHECK(std::count(line.begin(), line.end(), 'M') == 2);
  CHECK(std::count(line.begin(), line.end(), 'L') == 2);
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("a panel with one value, and one without values, are drawn", "[chart]") {
  Chart chart;
  chart.panels.push_back({.title = "one", .series = {{.points = {{1, 0.25}}}}});
  chart.panels.push_back({.title = "none"});
  const std::string svg = to_svg(chart);
  CHECK(svg.find("<circle") != std::string::npos);
  CHECK(svg.find("no values") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
}

}  // namespace
}  // namespace downpour::tools
