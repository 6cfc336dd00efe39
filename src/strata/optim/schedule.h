// Learning-rate schedules: pure functions of the update count, evaluated on the host in double and
// passed to the step as a scalar, so that none of them compiles anything. Constant, linear, cosine
// and warm-up + cosine are those of optax 0.2.8; WSD is warm-up, stable, decay.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::optim {

// What a schedule is made of. Counts are optimiser updates, not micro-steps; rates are absolute.
// A field that the kind does not use must stay empty: it is refused, never ignored.
//
//   kind            uses                          value at count t
//   constant        -                             peak
//   linear          [end], total                  peak -> end over [0, total], then end
//   cosine          [end], total                  half a cosine from peak to end, then end
//   warmup_cosine   [init], [end], warmup, total  linear init -> peak over [0, warmup), then a
//                                                 cosine of total - warmup updates to end
//   wsd             [init], [end], warmup,        linear init -> peak, peak for `stable` updates,
//                   stable, decay                 linear to end over `decay`, then exactly end
//
// `init` and `end` default to 0.
struct ScheduleConfig {
  std::string kind = "constant";
  double peak = 0;
  std::optional<double> init = {};
  std::optional<double> end = {};
  std::optional<int64_t> warmup = {};
  std::optional<int64_t> stable = {};
  std::optional<int64_t> decay = {};
  std::optional<int64_t> total = {};
};

// The names a ScheduleConfig::kind may have.
std::vector<std::string> schedule_kinds();

// A checked schedule. Immutable, so any number of threads may read it.
class Schedule {
 public:
  // Throws invalid_argument: optim.schedule_kind (an unknown kind; names the nearest),
  // optim.schedule_rate (a rate that is negative, infinite or NaN), optim.schedule_missing,
  // optim.schedule_declined (a field the kind does not use), optim.schedule_count (a negative
  // count, or a zero one where a division by it would follow), optim.schedule_warmup
  // (total <= warmup).
  explicit Schedule(const ScheduleConfig& config);

  // The rate of the update that follows `count` finished ones: the first update reads at(0), so a
  // warm-up from 0 makes it a no-op. Throws out_of_range (optim.schedule_at) for a negative count.
  double at(int64_t count) const;

  const ScheduleConfig& config() const { return config_; }

 private:
  enum class Kind { constant, linear, cosine, warmup_cosine, wsd };
  double rise(double count) const;

  ScheduleConfig config_;
  Kind kind_ = Kind::constant;
  double peak_ = 0, init_ = 0, end_ = 0;
  int64_t warmup_ = 0, stable_ = 0, decay_ = 0;
};

}  // namespace strata::optim
