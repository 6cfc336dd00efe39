#include "strata/rl/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "strata/base/strings.h"
#include "strata/rl/html.h"

namespace strata::rl {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

// Walks the tags of a page: every element that opens closes, in order. Returns what is wrong.
std::string unbalanced(const std::string& html) {
  const std::vector<std::string> kVoid = {"meta", "!DOCTYPE"};
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    size_t end = html.find('>', at);
    if (end == std::string::npos) return "a tag without an end";
    std::string tag = html.substr(at + 1, end - at - 1);
    bool closes = tag[0] == '/', whole = tag.back() == '/';
    std::string name = tag.substr(closes ? 1 : 0, tag.find_first_of(" /", 1) - (closes ? 1 : 0));
    if (std::find(kVoid.begin(), kVoid.end(), name) != kVoid.end() || whole) continue;
    if (!closes) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "</" + name + "> inside <" + (open.empty() ? "nothing" : open.back()) + ">";
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> stays open";
}

// A report with `text` in every place that takes one.
Report filled_with(const std::string& text) {
  Report r;
  r.title = r.headline = r.summary = text;
  r.figures = r.files = r.configuration = r.machine = {{text, text}};
  r.samples = {{text, text, text, text, true, false}};
  r.phases = {{text, 1.5, 10}};
  Series s{text, {{0, 1}, {1, 2}}};
  r.charts = {{.title = text, .unit = text, .series = {s, s}}};
  return r;
}

TEST(Html, Escapes) {
  EXPECT_EQ(escape_html("a < b & \"c\" > 'd'"), "a &lt; b &amp; &quot;c&quot; &gt; &#39;d&#39;");
  EXPECT_EQ(escape_html("line\n\tx\r"), "line\n\tx\xe2\x90\x8d");
  EXPECT_EQ(escape_html(std::string("\0\x1b\x7f", 3)), "\xe2\x90\x80\xe2\x90\x9b\xe2\x90\xa1");
  EXPECT_EQ(escape_html("\xffz\xe4\xb8"), "\xef\xbf\xbdz\xef\xbf\xbd");
  EXPECT_EQ(escape_html("\xe4\xb8\xad"), "\xe4\xb8\xad");
}

TEST(Report, NothingOfTheRunBecomesMarkup) {
  const std::string evil = "</pre><script>alert('1')</script>\"><!-- &amp; {} {0} \xff";
  std::string html = html_report(filled_with(evil));
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("<!--"), std::string::npos);
  EXPECT_EQ(html.find("alert('"), std::string::npos);
  EXPECT_NE(html.find("&amp;amp; {} {0} \xef\xbf\xbd"), std::string::npos);
  EXPECT_TRUE(is_utf8(html));
  EXPECT_EQ(unbalanced(html), "");
}

TEST(Report, ReferencesNothingOutside) {
  std::string html = html_report(filled_with("x"));
  for (const char* word :
       {"http:", "https:", "src=", "href=", "url(", "@import", "<link", "<script"}) {
    EXPECT_EQ(html.find(word), std::string::npos) << word;
  }
}

TEST(Report, EmptyPartsAreLeftOut) {
  std::string html = html_report({.title = "Nothing"});
  EXPECT_EQ(html.find("<h2>"), std::string::npos);
  EXPECT_EQ(html.find("<svg"), std::string::npos);
  EXPECT_EQ(html.find("<table"), std::string::npos);
  EXPECT_EQ(unbalanced(html), "");
}

TEST(Report, PropertyAnyBytesGiveABalancedPage) {
  std::mt19937_64 random(3);
  const std::string alphabet = std::string("<>&\"'/!-= \n\0\x7f\xff\xc3\xa9", 17) + "ab{}";
  for (int round = 0; round < 200; ++round) {
    std::string text = "x";
    for (size_t n = random() % 30; n > 0; --n) text += alphabet[random() % alphabet.size()];
    std::string html = html_report(filled_with(text));
    EXPECT_EQ(unbalanced(html), "") << "round " << round;
    EXPECT_TRUE(is_utf8(html)) << "round " << round;
  }
}

TEST(Report, TheBalanceCheckCanFail) {
  EXPECT_NE(unbalanced("<p><b></p></b>"), "");
  EXPECT_NE(unbalanced("<p>"), "");
  EXPECT_EQ(unbalanced("<p><br/></p>"), "");
}

TEST(Report, FactsOfNestedConfiguration) {
  Json config = {{"train", {{"lr", 2e-5}, {"steps", 40}}}, {"model", "smol"}, {"list", {1, 2}}};
  std::vector<Fact> facts = facts_of(config);
  ASSERT_EQ(facts.size(), 4u);
  EXPECT_EQ(facts[0].name, "train.lr");
  EXPECT_EQ(facts[0].value, "2e-05");
  EXPECT_EQ(facts[2].value, "smol");
  EXPECT_EQ(facts[3].value, "[1,2]");
}

TEST(Chart, AxisMarksAreRoundAndInside) {
  EXPECT_EQ(axis_marks(0, 1, 4), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(axis_marks(0, 100, 5), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_TRUE(axis_marks(1, 1, 4).empty());
  EXPECT_TRUE(axis_marks(0, HUGE_VAL, 4).empty());
  std::mt19937_64 random(9);
  for (int round = 0; round < 1000; ++round) {
    double low = std::ldexp(static_cast<double>(random() % 1000) - 500, int(random() % 60) - 30);
    double high =
        low + std::ldexp(1 + static_cast<double>(random() % 1000), int(random() % 60) - 30);
    for (double mark : axis_marks(low, high, 4)) {
      EXPECT_TRUE(mark >= low - 1e-6 * (high - low) && mark <= high + 1e-6 * (high - low))
          << low << " " << high;
    }
  }
}

TEST(Chart, ShortNumbers) {
  EXPECT_EQ(short_number(0.41, true), "41%");
  EXPECT_EQ(short_number(1234567, false), "1.23M");
  EXPECT_EQ(short_number(0.00012345, false), "0.0001234");
  EXPECT_EQ(short_number(12, false), "12");
}

TEST(Chart, ThinningAveragesNeighbours) {
  std::vector<std::pair<double, double>> points = {{0, 1}, {1, 3}, {2, 5}, {3, 7}};
  auto thin = thinned(points, 2);
  ASSERT_EQ(thin.size(), 2u);
  EXPECT_EQ(thin[0], std::make_pair(0.5, 2.0));
  EXPECT_EQ(thin[1], std::make_pair(2.5, 6.0));
  EXPECT_EQ(thinned(points, 4), points);
}

TEST(Chart, GapsBreakTheLineAndReachNothingElse) {
  Chart chart{.title = "x", .series = {{"a", {{0, 1}, {1, kNan}, {2, 3}, {3, HUGE_VAL}, {4, 2}}}}};
  std::string svg = chart_svg(chart);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  size_t circles = 0;
  for (size_t i = 0; i + 7 < svg.size(); ++i) circles += svg.compare(i, 7, "<circle") == 0 ? 1 : 0;
  EXPECT_EQ(circles, 3u);
  size_t begin = svg.find(" d=\"") + 4;
  std::string path = svg.substr(begin, svg.find('"', begin) - begin);
  EXPECT_EQ(std::count(path.begin(), path.end(), 'M'), 3) << path;
  EXPECT_EQ(std::count(path.begin(), path.end(), 'L'), 0) << path;
}

TEST(Chart, WithoutDataItSaysSo) {
  EXPECT_NE(chart_svg({.title = "x"}).find("no data"), std::string::npos);
  Chart chart{.title = "x", .series = {{"a", {{0, kNan}}}}};
  EXPECT_NE(chart_svg(chart).find("no data"), std::string::npos);
}

TEST(Chart, OnePointAndConstantValuesAreDrawn) {
  for (double value : {0.0, 5.0, -3.0, 1e300}) {
    Chart one{.title = "x", .series = {{"a", {{7, value}}}}};
    std::string svg = chart_svg(one);
    EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
    EXPECT_EQ(svg.find("<circle") != std::string::npos, value < 1e30);
  }
}

TEST(Chart, ARunHasTheChartsItReports) {
  std::vector<StepMetrics> history;
  for (int64_t step = 0; step < 3; ++step) {
    StepMetrics m;
    m.step = step;
    m.add("reward/mean", 0.1);
    m.add("reward/exact", 0.1);
    m.add("seconds/train", 2);
    if (step == 2) m.add("eval/accuracy", 0.5);
    history.push_back(m);
  }
  std::vector<std::string> titles;
  for (const Chart& c : charts_of(history)) titles.push_back(c.title);
  EXPECT_EQ(titles, (std::vector<std::string>{"Reward", "Accuracy", "Seconds by phase"}));
  history[0].add("reward/format", 1);
  EXPECT_EQ(charts_of(history)[2].title, "Rewards by name");
  EXPECT_EQ(charts_of(history)[2].series.size(), 2u);
  EXPECT_TRUE(charts_of({}).empty());
}

}  // namespace
}  // namespace strata::rl
