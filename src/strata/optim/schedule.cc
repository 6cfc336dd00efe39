#include "strata/optim/schedule.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::optim {
namespace {

// Whether a kind leaves a field out, may have it or must have it.
enum class Use { no, may, must };

// One row for each kind, in the order of Schedule::Kind.
struct Row {
  std::string_view name;
  Use init, end, warmup, stable, decay, total;
};
constexpr std::array<Row, 5> kRows = {{
    {"constant", Use::no, Use::no, Use::no, Use::no, Use::no, Use::no},
    {"linear", Use::no, Use::may, Use::no, Use::no, Use::no, Use::must},
    {"cosine", Use::no, Use::may, Use::no, Use::no, Use::no, Use::must},
    {"warmup_cosine", Use::may, Use::may, Use::must, Use::no, Use::no, Use::must},
    {"wsd", Use::may, Use::may, Use::must, Use::must, Use::must, Use::no},
}};

size_t find_row(const std::string& kind) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == kind) return i;
  }
  std::vector<std::string> known = schedule_kinds();
  fail({.id = "optim.schedule_kind",
        .where = "schedule",
        .expected = "one of " + join(known, ", "),
        .got = "'" + kind + "'",
        .cure = "Did you mean '" + nearest(kind, known) + "'?"});
}

std::string where_of(const Row& row, std::string_view field) {
  return fmt::format("schedule '{}', {}", row.name, field);
}

void check_use(const Row& row, std::string_view field, Use use, bool given) {
  require(use != Use::must || given, {.id = "optim.schedule_missing",
                                      .where = where_of(row, field),
                                      .expected = "a number of updates",
                                      .got = "nothing"});
  require(
      use != Use::no || !given,
      {.id = "optim.schedule_declined",
       .where = where_of(row, field),
       .expected = "no such field",
       .got = "one",
       .cure = fmt::format("Declined: a {} schedule has no {}; leave it out", row.name, field)});
}

void check_rate(const Row& row, std::string_view field, double rate) {
  require(std::isfinite(rate) && rate >= 0, {.id = "optim.schedule_rate",
                                             .where = where_of(row, field),
                                             .expected = "a finite rate >= 0",
                                             .got = fmt::format("{}", rate)});
}

void check_count(const Row& row, std::string_view field, int64_t count, int64_t least) {
  require(count >= least, {.id = "optim.schedule_count",
                           .where = where_of(row, field),
                           .expected = fmt::format("at least {} updates", least),
                           .got = fmt::format("{}", count)});
}

// From `from` at left = 1 to exactly `to` at left = 0. The share that is left, and not 1 - x, keeps
// the last bits.
double line(double from, double to, double left) { return to + (from - to) * left; }

double half_cosine(double from, double to, double left) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * (1 - left)));
}

}  // namespace

std::vector<std::string> schedule_kinds() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

Schedule::Schedule(const ScheduleConfig& config) : config_(config) {
  size_t index = find_row(config.kind);
  kind_ = static_cast<Kind>(index);
  const Row& row = kRows[index];
  check_use(row, "init", row.init, config.init.has_value());
  check_use(row, "end", row.end, config.end.has_value());
  check_use(row, "warmup", row.warmup, config.warmup.has_value());
  check_use(row, "stable", row.stable, config.stable.has_value());
  check_use(row, "decay", row.decay, config.decay.has_value());
  check_use(row, "total", row.total, config.total.has_value());
  peak_ = config.peak;
  init_ = config.init.value_or(0);
  end_ = config.end.value_or(0);
  check_rate(row, "peak", peak_);
  check_rate(row, "init", init_);
  check_rate(row, "end", end_);
  warmup_ = config.warmup.value_or(0);
  stable_ = config.stable.value_or(0);
  decay_ = config.decay.value_or(1);
  check_count(row, "warmup", warmup_, 0);
  check_count(row, "stable", stable_, 0);
  check_count(row, "decay", decay_, 1);
  if (!config.total) return;
  check_count(row, "total", *config.total, 1);
  require(*config.total > warmup_,
          {.id = "optim.schedule_warmup",
           .where = where_of(row, "total"),
           .expected = fmt::format("more updates in total than the {} of the warm-up", warmup_),
           .got = fmt::format("{}", *config.total),
           .cure = "Shorten the warm-up or train longer"});
  decay_ = *config.total - warmup_;
}

double Schedule::rise(double count) const {
  return init_ + (peak_ - init_) * (count / static_cast<double>(warmup_));
}

double Schedule::at(int64_t count) const {
  if (count < 0) {
    fail({.id = "optim.schedule_at",
          .where = "schedule '" + config_.kind + "'",
          .expected = "a count of finished updates >= 0",
          .got = fmt::format("{}", count),
          .code = Code::out_of_range});
  }
  if (kind_ == Kind::constant) return peak_;
  if (count < warmup_) return rise(static_cast<double>(count));
  // Differences, not sums: warmup + stable + decay could overflow.
  int64_t past = count - warmup_;
  if (past < stable_) return peak_;
  past -= stable_;
  if (past >= decay_) return end_;
  double left = static_cast<double>(decay_ - past) / static_cast<double>(decay_);
  bool straight = kind_ == Kind::linear || kind_ == Kind::wsd;
  return straight ? line(peak_, end_, left) : half_cosine(peak_, end_, left);
}

}  // namespace strata::optim
