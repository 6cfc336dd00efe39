#include "strata/rl/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/rl/html.h"
#include "strata/rl/report_style.h"

namespace strata::rl {
namespace {

constexpr size_t kMostDrawn = 6;

std::string header(const Report& r) {
  std::string html = "<header>\n<h1>" + escape_html(r.title) + "</h1>\n";
  if (!r.headline.empty()) {
    html += "<p class=\"headline\">" + escape_html(r.headline) + "</p>\n";
  }
  if (!r.summary.empty()) html += "<p class=\"summary\">" + escape_html(r.summary) + "</p>\n";
  if (!r.figures.empty()) {
    html += "<dl class=\"figures\">\n";
    for (const Fact& f : r.figures) {
      html += fmt::format("<div class=\"card\"><dt>{}</dt><dd>{}</dd></div>\n", escape_html(f.name),
                          escape_html(f.value));
    }
    html += "</dl>\n";
  }
  return html + "</header>\n";
}

std::string legend(const Chart& chart) {
  std::string html;
  if (chart.series.size() > 1) {
    html += "<ul class=\"legend\">";
    for (size_t i = 0; i < std::min(chart.series.size(), kMostDrawn); ++i) {
      html += fmt::format("<li class=\"s{}\"><span>{}</span></li>", i,
                          escape_html(chart.series[i].name));
    }
    html += "</ul>\n";
  }
  return html;
}

std::string charts(const Report& r) {
  if (r.charts.empty()) return "";
  std::string html = "<section>\n<h2>Curves</h2>\n<div class=\"charts\">\n";
  for (const Chart& chart : r.charts) {
    std::string unit = chart.unit;
    bool smooth = chart.smooth > 0 && !chart.series.empty() &&
                  chart.series[0].points.size() > static_cast<size_t>(chart.smooth);
    if (smooth) {
      unit += fmt::format("{}bold: mean of {}", unit.empty() ? "" : "; ", chart.smooth);
    }
    html += fmt::format("<figure class=\"card\" style=\"margin:0\"><h3>{} <small>{}</small></h3>\n",
                        escape_html(chart.title), escape_html(unit));
    html += chart_svg(chart) + legend(chart) + "</figure>\n";
  }
  return html + "</div>\n</section>\n";
}

std::string reply(const char* when, const std::string& text, bool right) {
  return fmt::format(
      "<div><p class=\"verdict\">{} <span class=\"{}\">{}</span></p><pre>{}</pre></div>\n", when,
      right ? "right" : "wrong", right ? "\u2713 right" : "\u2717 wrong", escape_html(text));
}

std::string samples(const Report& r) {
  if (r.samples.empty()) return "";
  std::string html = "<section>\n<h2>Replies before and after</h2>\n";
  for (const SampleReply& s : r.samples) {
    html += "<article class=\"card sample\">\n<p class=\"prompt\">" + escape_html(s.prompt);
    if (!s.answer.empty()) html += " <span>(answer: " + escape_html(s.answer) + ")</span>";
    html += "</p>\n<div class=\"replies\">\n" + reply("before", s.before, s.before_right) +
            reply("after", s.after, s.after_right) + "</div>\n</article>\n";
  }
  return html + "</section>\n";
}

std::string phases(const Report& r) {
  double sum = 0;
  for (const PhaseTotals& p : r.phases) sum += p.seconds;
  if (sum <= 0) return "";
  std::string html =
      "<section>\n<h2>Where the time went</h2>\n<div class=\"card\">\n<table>\n<thead><tr>"
      "<th>phase</th><th class=\"number\">seconds</th><th class=\"number\">share</th>"
      "<th class=\"number\">tokens/s</th><th></th></tr></thead>\n<tbody>\n";
  for (const PhaseTotals& p : r.phases) {
    double share = 100 * p.seconds / sum;
    std::string speed = p.tokens > 0 && p.seconds > 0
                            ? fmt::format("{:.0f}", static_cast<double>(p.tokens) / p.seconds)
                            : "";
    html += fmt::format(
        "<tr><th>{}</th><td class=\"number\">{:.1f}</td><td class=\"number\">{:.0f}%</td>"
        "<td class=\"number\">{}</td><td class=\"barcell\"><div class=\"bar\" "
        "style=\"width:{:.1f}%\"></div></td></tr>\n",
        escape_html(p.name), p.seconds, share, speed, share);
  }
  html += fmt::format(
      "<tr><th>sum</th><td class=\"number\">{:.1f}</td><td></td><td></td><td></td>"
      "</tr>\n",
      sum);
  return html + "</tbody>\n</table>\n</div>\n</section>\n";
}

std::string facts(const char* title, const std::vector<Fact>& rows, bool folded) {
  if (rows.empty()) return "";
  std::string html = "<section>\n";
  html += folded ? fmt::format(
                       "<details class=\"card\" style=\"margin-top:14px\">"
                       "<summary>{}</summary>\n",
                       title)
                 : fmt::format("<h2>{}</h2>\n<div class=\"card\">\n", title);
  html += "<table>\n<tbody>\n";
  for (const Fact& f : rows) {
    html += "<tr><th>" + escape_html(f.name) + "</th><td>" + escape_html(f.value) + "</td></tr>\n";
  }
  html += "</tbody>\n</table>\n";
  return html + (folded ? "</details>\n</section>\n" : "</div>\n</section>\n");
}

void flatten(const Json& value, const std::string& prefix, std::vector<Fact>& out) {
  if (!value.is_object()) {
    std::string text = value.is_string()
                           ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
    out.push_back({prefix, text});
    return;
  }
  for (const auto& item : value.items()) {
    flatten(item.value(), prefix.empty() ? item.key() : prefix + "." + item.key(), out);
  }
}

}  // namespace

std::string html_report(const Report& r) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
  html += escape_html(r.title) + "</title>\n<style>" + std::string(kReportStyle) +
          "</style>\n</head>\n<body>\n<main>\n";
  html += header(r) + charts(r) + samples(r) + phases(r);
  html += facts("Files", r.files, false) + facts("Machine", r.machine, false) +
          facts("Configuration", r.configuration, true);
  return html + "<footer>Written by Strata.</footer>\n</main>\n</body>\n</html>\n";
}

void write_report(const std::filesystem::path& path, const Report& report) {
  write_file_atomically(path, html_report(report));
}

std::vector<Fact> facts_of(const Json& object) {
  std::vector<Fact> facts;
  flatten(object, "", facts);
  return facts;
}

}  // namespace strata::rl
