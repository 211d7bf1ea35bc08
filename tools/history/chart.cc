#include "tools/history/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "shared/base/error_text.h"
#include "shared/base/human.h"
#include "shared/base/str.h"

namespace downpour::tools {
namespace {

// Medium lightness, so that lines have a contrast of at least 3:1 to white and to near-black.
constexpr std::array kColors = {"#2f7fd8", "#d9622b", "#25935f", "#a45ad0",
                                "#cf4060", "#1d8f9c", "#9a7b1e", "#777f8c"};
constexpr const char* kInk = "#7a8290";  // texts and axes

// Sizes in pixels.
constexpr double kPanelWidth = 400, kPanelHeight = 230;
constexpr double kLeft = 64, kRight = 16, kTop = 34, kBottom = 42;  // around the area of a panel
constexpr double kMargin = 12, kLegendLine = 20, kCharacter = 7;
constexpr size_t kMarkersMax = 40;  // points of a series that get a marker each

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

std::string px(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// Where the values of a panel are drawn.
struct Area {
  double left = 0, top = 0;
  Extent x, y;
  double width() const { return kPanelWidth - kLeft - kRight; }
  double height() const { return kPanelHeight - kTop - kBottom; }
  double at_x(double value) const { return left + (value - x.low) / (x.high - x.low) * width(); }
  double at_y(double value) const {
    return top + height() - (value - y.low) / (y.high - y.low) * height();
  }
};

/// Returns the interval with some space around it, also for a single value.
Extent padded(Extent values, double share) {
  if (values.empty()) return {0, 1};
  double space = (values.high - values.low) * share;
  if (values.low == values.high)
    space = values.low == 0 ? 1 : std::max(std::fabs(values.low) * 0.1, 1e-300);
  return {values.low - space, values.high + space};
}

std::string label(double x, double y, const char* anchor, const std::string& text,
                  const char* more = "") {
  return str("<text x=\"", px(x), "\" y=\"", px(y), "\" text-anchor=\"", anchor, "\"", more, ">",
             xml_text(text), "</text>\n");
}

std::string line(double x1, double y1, double x2, double y2, const char* more) {
  return str("<line x1=\"", px(x1), "\" y1=\"", px(y1), "\" x2=\"", px(x2), "\" y2=\"", px(y2),
             "\" stroke=\"", kInk, "\"", more, "/>\n");
}

/// Returns the distance of ticks; 1 if there is only one.
double step_of(const std::vector<double>& ticks) {
  return ticks.size() < 2 ? 1 : ticks[1] - ticks[0];
}

std::string axes_svg(const Area& area, const std::string& x_title, bool whole_numbers) {
  const double bottom = area.top + area.height(), right = area.left + area.width();
  std::string svg;
  const std::vector<double> rows = round_ticks(area.y.low, area.y.high, 6);
  for (const double tick : rows) {
    svg += line(area.left, area.at_y(tick), right, area.at_y(tick), " stroke-opacity=\"0.25\"");
    svg += label(area.left - 6, area.at_y(tick) + 4, "end", tick_text(tick, step_of(rows)));
  }
  std::vector<double> columns = round_ticks(area.x.low, area.x.high, 8);
  if (whole_numbers) std::erase_if(columns, [](double tick) { return tick != std::round(tick); });
  const double column_step = whole_numbers ? 1 : step_of(columns);
  for (const double tick : columns) {
    svg += line(area.at_x(tick), bottom, area.at_x(tick), bottom + 4, "");
    svg += label(area.at_x(tick), bottom + 17, "middle", tick_text(tick, column_step));
  }
  svg += line(area.left, bottom, right, bottom, "");
  return svg + label((area.left + right) / 2, bottom + 33, "middle", x_title);
}

std::string series_svg(const Area& area, const ChartSeries& series) {
  const char* const color = series.neutral ? kInk : kColors[series.color % kColors.size()];
  std::string path, markers;
  bool drawing = false;
  for (const ChartPoint& point : series.points) {
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) {
      drawing = false;
      continue;
    }
    const std::string x = px(area.at_x(point.x)), y = px(area.at_y(point.y));
    path += str(path.empty() ? "" : " ", drawing ? "L" : "M", x, " ", y);
    drawing = true;
    if (series.points.size() <= kMarkersMax && !series.neutral)
      markers += str("<circle cx=\"", x, "\" cy=\"", y, "\" r=\"2.2\" fill=\"", color, "\"/>\n");
  }
  if (path.empty()) return {};
  return str("<path d=\"", path, "\" fill=\"none\" stroke=\"", color,
             "\" stroke-width=\"1.8\" stroke-linejoin=\"round\"",
             series.dashed ? " stroke-dasharray=\"5 4\"" : "", "/>\n", markers);
}

std::string panel_svg(const ChartPanel& panel, const std::string& x_title, double left,
                      double top) {
  Extent x, y;
  for (const ChartSeries& series : panel.series) {
    for (const ChartPoint& point : series.points) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      x.add(point.x);
      y.add(point.y);
    }
  }
  Area area{left + kLeft, top + kTop, padded(x, 0), padded(y, 0.06)};
  if (x.low == x.high) area.x = {x.low - 1, x.high + 1};
  std::string svg =
      label(area.left, top + 20, "start", panel.title, " font-weight=\"600\" font-size=\"13\"");
  if (y.empty()) return svg + label(area.left, top + kTop + 20, "start", "no values");
  const bool own_x = !panel.x_title.empty();
  svg += axes_svg(area, own_x ? panel.x_title : x_title, /*whole_numbers=*/!own_x);
  for (const ChartSeries& series : panel.series) svg += series_svg(area, series);
  return svg;
}

/// Draws the legend in lines of at most `width`. `top` is moved below it.
std::string legend_svg(const std::vector<ChartKey>& legend, double width, double& top) {
  constexpr double kSample = 26, kGap = 22;
  std::string svg;
  double x = kMargin;
  for (const ChartKey& key : legend) {
    const double length = kSample + 6 + kCharacter * double(text_width(printable_line(key.label)));
    if (x > kMargin && x + length > width - kMargin) {
      x = kMargin;
      top += kLegendLine;
    }
    const char* const color = key.neutral ? kInk : kColors[key.color % kColors.size()];
    svg += str("<line x1=\"", px(x), "\" y1=\"", px(top + 10), "\" x2=\"", px(x + kSample),
               "\" y2=\"", px(top + 10), "\" stroke=\"", color, "\" stroke-width=\"2\"",
               key.dashed ? " stroke-dasharray=\"5 4\"" : "", "/>\n");
    svg += label(x + kSample + 6, top + 14, "start", key.label);
    x += length + kGap;
  }
  if (!legend.empty()) top += kLegendLine + 6;
  return svg;
}

}  // namespace

std::vector<double> round_ticks(double low, double high, size_t count_max) {
  if (!std::isfinite(low) || !std::isfinite(high) || !(low < high) || count_max < 2) return {};
  const double smallest = (high - low) / double(count_max);
  const double power = std::pow(10, std::floor(std::log10(smallest)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0, 20.0}) {
    const double step = factor * power;
    const double first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
    if (step < smallest || last - first + 1 > double(count_max)) continue;
    std::vector<double> ticks;
    for (double i = first; i <= last; ++i) ticks.push_back(i * step);
    return ticks;
  }
  return {};
}

std::string tick_text(double value, double step) {
  char text[64];
  const double size = std::fabs(value);
  if (size != 0 && (size >= 1e6 || step < 1e-5)) {
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
  }
  const int digits = step >= 1 ? 0 : int(std::ceil(-std::log10(step) - 1e-9));
  std::snprintf(text, sizeof text, "%.*f", digits, size < step * 1e-6 ? 0.0 : value);
  return text;
}

std::string xml_text(std::string_view text) {
  constexpr size_t kBytesMax = 200;
  std::string escaped;
  for (const char c : printable_line(text, kBytesMax)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      case '\t':
        escaped += ' ';
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string to_svg(const Chart& chart) {
  const size_t columns = std::min<size_t>(2, std::max<size_t>(1, chart.panels.size()));
  const size_t rows = (chart.panels.size() + columns - 1) / columns;
  const double width = 2 * kMargin + double(columns) * kPanelWidth;
  double top = kMargin;
  std::string body = legend_svg(chart.legend, width, top);
  for (size_t i = 0; i < chart.panels.size(); ++i) {
    body += panel_svg(chart.panels[i], chart.x_title, kMargin + double(i % columns) * kPanelWidth,
                      top + double(i / columns) * kPanelHeight);
  }
  const std::string height = px(top + double(rows) * kPanelHeight + kMargin);
  return str("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", px(width), "\" height=\"",
             height, "\" viewBox=\"0 0 ", px(width), " ", height,
             "\" font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" "
             "font-size=\"12\" fill=\"",
             kInk, "\">\n", body, "</svg>\n");
}

}  // namespace downpour::tools
