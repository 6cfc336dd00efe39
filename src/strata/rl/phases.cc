#include "strata/rl/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace strata::rl {
namespace {

PhaseTotals& find_or_add(std::vector<PhaseTotals>& phases, std::string_view name) {
  for (PhaseTotals& p : phases) {
    if (p.name == name) return p;
  }
  return phases.emplace_back(PhaseTotals{.name = std::string(name)});
}

}  // namespace

void PhaseClock::add_seconds(std::string_view phase, double seconds) {
  find_or_add(step_, phase).seconds += seconds;
  find_or_add(totals_, phase).seconds += seconds;
}

void PhaseClock::add_tokens(std::string_view phase, int64_t tokens) {
  find_or_add(step_, phase).tokens += tokens;
  find_or_add(totals_, phase).tokens += tokens;
}

void PhaseClock::report_step(StepMetrics& metrics) {
  for (const PhaseTotals& p : step_) {
    if (p.seconds <= 0) continue;
    metrics.add("seconds/" + p.name, p.seconds);
    if (p.tokens > 0) {
      metrics.add("tokens_per_second/" + p.name, static_cast<double>(p.tokens) / p.seconds);
    }
  }
  step_.clear();
}

std::string step_text(const StepMetrics& metrics, int64_t last_step) {
  std::string text = fmt::format("step {}/{}", metrics.step + 1, last_step);
  auto reward = metrics.find("reward/mean");
  if (reward) text += fmt::format(" | reward {:.3f}", *reward);
  auto solved = metrics.find("solved/samples");
  if (solved) text += fmt::format(" | solved {:.0f}%", 100 * *solved);
  auto kl = metrics.find("loss/kl");
  if (kl) text += fmt::format(" | KL {:.2g}", *kl);
  auto speed = metrics.find("tokens_per_second/step");
  if (speed) text += fmt::format(" | {:.0f} tok/s", *speed);
  return text;
}

LiveLine::LiveLine(std::string label, int64_t first_step, int64_t last_step)
    : first_step_(first_step), last_step_(last_step), progress_(std::move(label)) {}

void LiveLine::write(const StepMetrics& metrics) {
  auto done = static_cast<double>(metrics.step + 1 - first_step_);
  auto total = static_cast<double>(last_step_ - first_step_);
  std::string text = step_text(metrics, last_step_);
  progress_.update(std::min(done, total), total, text);
  if (progress_.live()) return;
  if (done > 0 && done < total) {
    text += " | ETA " + duration_text(clock_.seconds() / done * (total - done));
  }
  log_line(text);
}

std::string duration_text(double seconds) {
  // 1e9 s is past any run; it also keeps NaN and infinity out of the conversion.
  auto s = static_cast<int64_t>(std::llround(seconds >= 0 ? std::min(seconds, 1e9) : 0));
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace strata::rl
