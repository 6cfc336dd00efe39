#include "strata/rl/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "strata/rl/html.h"

namespace strata::rl {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr double kWidth = 560, kHeight = 240;
constexpr double kLeft = 52, kRight = 16, kTop = 12, kBottom = 28;
constexpr size_t kMostSeries = 6;
constexpr size_t kMostPoints = 300;

struct Frame {
  double x0 = 0, x1 = 1, y0 = 0, y1 = 1;
  bool empty = true;

  double x(double value) const {
    return kLeft + (value - x0) / (x1 - x0) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - (value - y0) / (y1 - y0) * (kHeight - kTop - kBottom);
  }
};

bool finite(const std::pair<double, double>& p) {
  // Beyond 1e30, sums and differences of a chart could overflow.
  return std::fabs(p.first) <= 1e30 && std::fabs(p.second) <= 1e30;
}

Frame frame_of(const Chart& chart) {
  Frame f;
  for (const Series& s : chart.series) {
    for (const auto& p : s.points) {
      if (!finite(p)) continue;
      if (f.empty) f = {p.first, p.first, p.second, p.second, false};
      f.x0 = std::min(f.x0, p.first), f.x1 = std::max(f.x1, p.first);
      f.y0 = std::min(f.y0, p.second), f.y1 = std::max(f.y1, p.second);
    }
  }
  // Zero belongs to the picture unless the values lie far from it.
  if (f.y0 > 0 && f.y0 < 0.5 * f.y1) f.y0 = 0;
  double room = f.y1 > f.y0 ? 0.06 * (f.y1 - f.y0) : std::max(std::fabs(f.y1), 1e-3) * 0.5;
  f.y1 += room;
  if (f.y0 != 0) f.y0 -= room;
  if (f.x1 <= f.x0) f.x1 = f.x0 + 1;
  return f;
}

Points running_mean(const Points& points, int window) {
  Points out;
  double sum = 0;
  std::vector<double> last;
  for (const auto& p : points) {
    if (!finite(p)) continue;
    last.push_back(p.second);
    sum += p.second;
    auto w = static_cast<size_t>(window);
    if (last.size() > w) sum -= last[last.size() - 1 - w];
    out.emplace_back(p.first, sum / static_cast<double>(std::min(last.size(), w)));
  }
  return out;
}

std::string path_of(const Points& points, const Frame& f) {
  std::string path;
  bool pen_down = false;
  for (const auto& p : points) {
    if (!finite(p)) {
      pen_down = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", f.x(p.first), f.y(p.second));
    pen_down = true;
  }
  return path;
}

std::string grid_of(const Chart& chart, const Frame& f) {
  std::string svg;
  for (double mark : axis_marks(f.y0, f.y1, 6)) {
    double y = f.y(mark);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"axis\" x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, kWidth - kRight, y, kLeft - 8, y + 4, short_number(mark, chart.percent));
  }
  for (double mark : axis_marks(f.x0, f.x1, 6)) {
    svg += fmt::format(
        "<text class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
        f.x(mark), kHeight - 8, short_number(mark, false));
  }
  return svg;
}

std::string series_of(const Chart& chart, const Series& series, size_t index, const Frame& f) {
  Points points = thinned(series.points, kMostPoints);
  bool smooth = chart.smooth > 0 && points.size() > static_cast<size_t>(chart.smooth);
  std::string svg = fmt::format("<g class=\"s{}\"><path class=\"{}\" d=\"{}\"/>", index,
                                smooth ? "raw" : "line", path_of(points, f));
  if (smooth) {
    svg += fmt::format("<path class=\"line\" d=\"{}\"/>",
                       path_of(running_mean(points, chart.smooth), f));
  }
  for (const auto& p : points) {
    if (!finite(p)) continue;
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"><title>{}step {}: {}</title>"
        "</circle>",
        f.x(p.first), f.y(p.second), chart.series.size() > 1 ? escape_html(series.name) + ", " : "",
        short_number(p.first, false), short_number(p.second, chart.percent));
  }
  return svg + "</g>\n";
}

// What of a run is drawn together.
struct Wanted {
  const char* title;
  const char* unit;
  bool percent;
  int smooth;
  std::vector<const char*> names;
};

std::vector<Wanted> wanted_charts() {
  return {
      {"Reward", "mean of the step", false, 5, {"reward/mean"}},
      {"Solved", "share of the samples", true, 5, {"solved/samples"}},
      {"Accuracy", "greedy, validation", true, 0, {"eval/accuracy"}},
      {"Loss", "", false, 5, {"loss/train", "loss/eval"}},
      {"Groups", "share", true, 0, {"solved/all", "solved/none", "solved/zero_std"}},
      {"Completion length", "tokens", false, 0, {"completion/mean", "completion/max"}},
      {"Cut completions", "share", true, 0, {"completion/truncated"}},
      {"KL to the reference", "per token", false, 0, {"loss/kl"}},
      {"Entropy", "nats per token", false, 0, {"loss/entropy"}},
      {"Clipped tokens", "share", true, 0, {"loss/clip_low", "loss/clip_high"}},
      {"Gradient norm", "", false, 5, {"loss/grad_norm"}},
      {"Learning rate", "", false, 0, {"loss/lr"}},
      {"Sampler against trainer",
       "mean and max difference of log-probs",
       false,
       0,
       {"mismatch/mean", "mismatch/max"}},
      {"Memory", "GiB", false, 0, {"memory/resident_gib", "memory/peak_gib"}},
  };
}

Series series_named(std::span<const StepMetrics> history, const std::string& name) {
  Series s;
  s.name = name.substr(name.find('/') + 1);
  for (const StepMetrics& m : history) {
    std::optional<double> value = m.find(name);
    if (value) s.points.emplace_back(static_cast<double>(m.step), *value);
  }
  return s;
}

// Every name of the form PREFIX/x that a step reported, in the order of their coming.
std::vector<std::string> names_under(std::span<const StepMetrics> history,
                                     const std::string& prefix) {
  std::vector<std::string> names;
  for (const StepMetrics& m : history) {
    for (const Scalar& s : m.scalars) {
      if (s.name.rfind(prefix, 0) != 0) continue;
      if (std::find(names.begin(), names.end(), s.name) == names.end()) names.push_back(s.name);
    }
  }
  return names;
}

void add_chart(std::vector<Chart>& charts, Chart chart, std::span<const StepMetrics> history,
               const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    Series s = series_named(history, name);
    if (!s.points.empty()) chart.series.push_back(std::move(s));
  }
  if (!chart.series.empty()) charts.push_back(std::move(chart));
}

}  // namespace

std::vector<double> axis_marks(double low, double high, int count) {
  std::vector<double> marks;
  if (!(high > low) || !std::isfinite(high - low) || count < 1) return marks;
  double rough = (high - low) / count;
  double unit = std::pow(10, std::floor(std::log10(rough)));
  double step = unit;
  for (double factor : {2.0, 5.0, 10.0}) {
    if (step < rough) step = factor * unit;
  }
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k) {
    // Where the interval is narrower than rounding, a mark could fall just outside.
    marks.push_back(k == 0 ? 0.0 : std::clamp(k * step, low, high));
    if (marks.size() > 4 * static_cast<size_t>(count)) break;
  }
  return marks;
}

std::string short_number(double value, bool percent) {
  if (percent) return fmt::format("{:.3g}%", 100 * value);
  double size = std::fabs(value);
  if (size >= 1e6 && size < 1e9) return fmt::format("{:.3g}M", value / 1e6);
  return fmt::format("{:.4g}", value);
}

Points thinned(const Points& points, size_t most) {
  if (points.size() <= most || most == 0) return points;
  Points out;
  for (size_t k = 0; k < most; ++k) {
    size_t begin = k * points.size() / most, end = (k + 1) * points.size() / most;
    double x = 0, y = 0;
    for (size_t i = begin; i < end; ++i) x += points[i].first, y += points[i].second;
    auto n = static_cast<double>(end - begin);
    out.emplace_back(x / n, y / n);
  }
  return out;
}

std::string chart_svg(const Chart& chart) {
  Frame f = frame_of(chart);
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
                                kWidth, kHeight, escape_html(chart.title));
  if (f.empty) {
    svg += fmt::format(
        "<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">no data"
        "</text>\n",
        kWidth / 2, kHeight / 2);
    return svg + "</svg>\n";
  }
  svg += grid_of(chart, f);
  for (size_t i = 0; i < std::min(chart.series.size(), kMostSeries); ++i) {
    svg += series_of(chart, chart.series[i], i, f);
  }
  return svg + "</svg>\n";
}

std::vector<Chart> charts_of(std::span<const StepMetrics> history) {
  std::vector<Chart> charts;
  for (const Wanted& w : wanted_charts()) {
    Chart chart{.title = w.title, .unit = w.unit, .percent = w.percent, .smooth = w.smooth};
    add_chart(charts, chart, history, {w.names.begin(), w.names.end()});
  }
  std::vector<std::string> rewards = names_under(history, "reward/");
  std::erase_if(rewards,
                [](const std::string& n) { return n == "reward/mean" || n == "reward/std"; });
  // A single reward is the sum already.
  if (rewards.size() > 1) add_chart(charts, {.title = "Rewards by name"}, history, rewards);
  add_chart(charts, {.title = "Seconds by phase", .unit = "s a step"}, history,
            names_under(history, "seconds/"));
  add_chart(charts, {.title = "Speed", .unit = "tokens/s by phase"}, history,
            names_under(history, "tokens_per_second/"));
  return charts;
}

}  // namespace strata::rl
