// Line charts as SVG text, for the report. They take their colours from the page's style sheet
// (classes s0..s5, grid, axis) and reference nothing outside the page.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/rl/metrics.h"

namespace strata::rl {

struct Series {
  std::string name;
  // x rising. Points that are not finite leave a gap.
  std::vector<std::pair<double, double>> points;
};

struct Chart {
  std::string title;
  // Behind the title: "tokens", "s".
  std::string unit;
  // Values are shares: 0.41 is shown as 41%.
  bool percent = false;
  // With more than this many points, the running mean of so many is drawn boldly over a faint raw
  // line. 0: never.
  int smooth = 0;
  // At most six are drawn.
  std::vector<Series> series;
};

// The positions of the axis marks: round numbers within [low, high], about `count` of them.
std::vector<double> axis_marks(double low, double high, int count);

// "12", "0.0012", "41%", "1.2M": short enough for an axis.
std::string short_number(double value, bool percent);

// At most `most` points: neighbours are averaged, so that nothing is left out.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               size_t most);

// A whole <svg> element of 560 x 240 units that scales with its column. Each point answers the
// mouse with its step and value.
std::string chart_svg(const Chart& chart);

// The charts of a run, by the names of metrics.h: what no step reported gives no chart.
std::vector<Chart> charts_of(std::span<const StepMetrics> history);

}  // namespace strata::rl
