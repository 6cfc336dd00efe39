// The style sheet of the report.
#pragma once

#include <string_view>

namespace strata::rl {

inline constexpr std::string_view kReportStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f7f7f5; --card: #ffffff; --ink: #1c1c1a; --soft: #63635e; --line: #e3e2de;
  --good: #1a7f37; --bad: #b42318;
  --c0: #2a78d6; --c1: #d9652b; --c2: #1b9e77; --c3: #8a5cd0; --c4: #b8860b; --c5: #c2407f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #161615; --card: #1f1f1d; --ink: #ececea; --soft: #a3a29c; --line: #343431;
    --good: #4cc26c; --bad: #ff7b72;
    --c0: #5fa2ee; --c1: #f08d57; --c2: #3cc39a; --c3: #b08bf0; --c4: #d9ab3a; --c5: #e873a8;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 17px; font-weight: 600; color: var(--soft); margin: 0; }
h2 { font-size: 19px; margin: 44px 0 14px; }
h3 { font-size: 14px; margin: 0 0 6px; }
h3 small { font-weight: 400; color: var(--soft); }
.headline { font-size: 46px; font-weight: 700; letter-spacing: -0.02em; line-height: 1.15;
  margin: 6px 0 2px; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.summary { color: var(--soft); margin: 0; max-width: 70ch; }
.figures, .charts { display: grid; gap: 14px; }
.figures { grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); margin-top: 26px; }
.charts { grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 14px 16px; min-width: 0; }
.figures dt { color: var(--soft); font-size: 13px; }
.figures dd { margin: 0; font-size: 24px; font-weight: 600; font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: auto; }
.grid { stroke: var(--line); stroke-width: 1; }
.axis { fill: var(--soft); font-size: 11px; font-variant-numeric: tabular-nums; }
.line, .raw { fill: none; stroke: currentColor; stroke-linejoin: round; stroke-linecap: round; }
.line { stroke-width: 2; }
.raw { stroke-width: 1.2; opacity: 0.35; }
circle { fill: currentColor; opacity: 0; }
circle:hover { opacity: 1; }
.s0 { color: var(--c0); } .s1 { color: var(--c1); } .s2 { color: var(--c2); }
.s3 { color: var(--c3); } .s4 { color: var(--c4); } .s5 { color: var(--c5); }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; margin: 6px 0 0; padding: 0;
  list-style: none; font-size: 12.5px; }
.legend span { color: var(--soft); }
.legend li::before { content: ""; display: inline-block; width: 14px; height: 3px;
  border-radius: 2px; background: currentColor; margin-right: 6px; vertical-align: middle; }
.sample { margin-bottom: 14px; }
.sample .prompt { font-weight: 600; margin: 0 0 10px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.sample .prompt span { color: var(--soft); font-weight: 400; }
.replies { display: grid; grid-template-columns: 1fr 1fr; gap: 14px; }
.replies > div { min-width: 0; }
.verdict { font-size: 13px; color: var(--soft); margin: 0 0 4px; }
.right { color: var(--good); } .wrong { color: var(--bad); }
pre { margin: 0; padding: 10px 12px; background: var(--page); border-radius: 7px;
  font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 260px; overflow: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 6px 10px 6px 0; border-top: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
tr:first-child > * { border-top: 0; }
thead th { color: var(--soft); font-weight: 500; font-size: 13px; }
tbody th { font-weight: 500; color: var(--soft); width: 34%; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar { height: 8px; border-radius: 4px; background: var(--c0); min-width: 2px; }
.barcell { width: 40%; padding-top: 13px; }
details summary { cursor: pointer; font-weight: 600; }
details[open] summary { margin-bottom: 8px; }
footer { margin-top: 40px; color: var(--soft); font-size: 13px; }
@media (max-width: 640px) {
  .replies { grid-template-columns: 1fr; }
  .headline { font-size: 34px; }
}
@media print { body { background: #fff; } .card { break-inside: avoid; } }
)css";

}  // namespace strata::rl
