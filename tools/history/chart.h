// Charts: line charts as one self-contained SVG file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace downpour::tools {

struct ChartPoint {
  double x = 0, y = 0;
};

/// A line of a panel. Points that are not finite interrupt it.
struct ChartSeries {
  size_t color = 0;  // number of the color; the colors repeat
  bool dashed = false;
  bool neutral = false;  // gray instead of the color
  std::vector<ChartPoint> points;
};

/// One diagram with its own axes.
struct ChartPanel {
  std::string title;
  std::vector<ChartSeries> series;
  std::string x_title;  // empty: that of the chart, whose values of x are whole numbers
};

/// An entry of the legend above the panels.
struct ChartKey {
  std::string label;
  size_t color = 0;
  bool dashed = false;
  bool neutral = false;  // gray instead of the color: explains the dashes
};

struct Chart {
  std::vector<ChartKey> legend;
  std::vector<ChartPanel> panels;
  std::string x_title;
};

/// Returns the multiples of 1, 2 or 5 times a power of ten in [low, high], at most `count_max` of
/// them (at least 2). An empty or infinite interval has none.
std::vector<double> round_ticks(double low, double high, size_t count_max);

/// Returns the text of a tick: as many digits as its distance to the next tick needs.
std::string tick_text(double value, double step);

/// Returns the text with the characters that XML reserves escaped. Control characters and bytes
/// that are not UTF-8 become printable.
std::string xml_text(std::string_view text);

/// Returns the chart as SVG: two panels in a row, each with round ticks. The background is
/// transparent, and the colors are readable on white and on dark. The file refers to no other file
/// and contains no script.
std::string to_svg(const Chart& chart);

}  // namespace downpour::tools
