// Seconds and tokens by phase (sample, reward, score, train, sync, ...): for the metrics of a step
// and for the table of the whole run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/log.h"
#include "strata/rl/metrics.h"

namespace strata::rl {

struct PhaseTotals {
  std::string name;
  double seconds = 0;
  int64_t tokens = 0;
};

// Phases may nest; each then counts its own whole time. Not thread-safe.
class PhaseClock {
 public:
  // Measures from its making to its end.
  class Scope {
   public:
    Scope(PhaseClock& clock, std::string_view phase) : clock_(clock), phase_(phase) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { clock_.add_seconds(phase_, watch_.seconds()); }

   private:
    PhaseClock& clock_;
    std::string phase_;
    Stopwatch watch_;
  };

  void add_seconds(std::string_view phase, double seconds);
  void add_tokens(std::string_view phase, int64_t tokens);

  // Adds seconds/<phase>, and tokens_per_second/<phase> where tokens were counted, of what came
  // since the last call; then starts anew. A phase without time in this step is left out.
  void report_step(StepMetrics& metrics);

  // Of the whole run, in the order in which the phases first came.
  const std::vector<PhaseTotals>& totals() const { return totals_; }

 private:
  std::vector<PhaseTotals> step_;
  std::vector<PhaseTotals> totals_;
};

// "step 12/60 | reward 0.62 | solved 41% | KL 0.0012 | 812 tok/s"; what the step does not report
// is left out (a run without a reference has no KL). Speed is that of phase "step".
std::string step_text(const StepMetrics& metrics, int64_t last_step);

// The live line of a run: a bar with an ETA on a terminal, else one log line a step.
class LiveLine : public MetricsSink {
 public:
  // Steps first_step .. last_step - 1 are to come.
  LiveLine(std::string label, int64_t first_step, int64_t last_step);
  void write(const StepMetrics& metrics) override;

 private:
  int64_t first_step_, last_step_;
  Stopwatch clock_;
  Progress progress_;
};

// "3:07", "1:02:09".
std::string duration_text(double seconds);

}  // namespace strata::rl
