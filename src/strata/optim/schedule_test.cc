#include "strata/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "strata/base/error.h"

namespace strata::optim {
namespace {

// The error that building `config` raises; "" when there is none.
std::string error_id(const ScheduleConfig& config, const std::string& part) {
  try {
    Schedule schedule(config);
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return e.id();
  }
  return "";
}

ScheduleConfig wsd() {
  return {.kind = "wsd", .peak = 1e-3, .end = 1e-5, .warmup = 10, .stable = 50, .decay = 20};
}

TEST(Schedule, ConstantIsThePeakForEver) {
  Schedule s({.peak = 3e-4});
  for (int64_t t : {int64_t{0}, int64_t{1}, int64_t{1000}, INT64_MAX}) EXPECT_EQ(s.at(t), 3e-4);
}

TEST(Schedule, LinearGoesFromPeakToEnd) {
  Schedule s({.kind = "linear", .peak = 1.0, .end = 0.2, .total = 4});
  EXPECT_DOUBLE_EQ(s.at(0), 1.0);
  EXPECT_DOUBLE_EQ(s.at(1), 0.8);
  EXPECT_DOUBLE_EQ(s.at(3), 0.4);
  EXPECT_EQ(s.at(4), 0.2);
  EXPECT_EQ(s.at(INT64_MAX), 0.2);
}

TEST(Schedule, CosineIsTheFormulaWithAlpha) {
  const double peak = 2e-3, alpha = 0.1;
  const int64_t total = 7;
  Schedule s({.kind = "cosine", .peak = peak, .end = alpha * peak, .total = total});
  for (int64_t t = 0; t < 12; ++t) {
    double x = static_cast<double>(std::min(t, total)) / static_cast<double>(total);
    double want = peak * ((1 - alpha) * 0.5 * (1 + std::cos(std::numbers::pi * x)) + alpha);
    EXPECT_NEAR(s.at(t), want, 1e-18) << t;
  }
}

TEST(Schedule, WarmupCosineMeetsPeakAtWAndEndAtD) {
  Schedule s({.kind = "warmup_cosine", .peak = 1e-3, .end = 1e-4, .warmup = 4, .total = 12});
  EXPECT_EQ(s.at(0), 0.0);
  EXPECT_DOUBLE_EQ(s.at(1), 2.5e-4);
  EXPECT_DOUBLE_EQ(s.at(3), 7.5e-4);
  EXPECT_EQ(s.at(4), 1e-3);
  EXPECT_DOUBLE_EQ(s.at(8), 0.5 * (1e-3 + 1e-4));
  EXPECT_GT(s.at(11), 1e-4);
  EXPECT_EQ(s.at(12), 1e-4);
  EXPECT_EQ(s.at(5000), 1e-4);
}

TEST(Schedule, WarmupMayStartAboveZeroOrBeAbsent) {
  Schedule s({.kind = "warmup_cosine", .peak = 1.0, .init = 0.5, .warmup = 2, .total = 3});
  EXPECT_EQ(s.at(0), 0.5);
  EXPECT_EQ(s.at(1), 0.75);
  EXPECT_EQ(s.at(2), 1.0);
  Schedule none({.kind = "warmup_cosine", .peak = 1.0, .warmup = 0, .total = 3});
  EXPECT_EQ(none.at(0), 1.0);
}

TEST(Schedule, WsdHasTheGivenValues) {
  Schedule s(wsd());
  EXPECT_EQ(s.at(0), 0.0);
  EXPECT_DOUBLE_EQ(s.at(9), 9e-4);
  EXPECT_EQ(s.at(10), 1e-3);
  EXPECT_EQ(s.at(60), 1e-3);
  EXPECT_DOUBLE_EQ(s.at(61), 9.505e-4);
  EXPECT_DOUBLE_EQ(s.at(79), 5.95e-5);
  for (int64_t t : {int64_t{80}, int64_t{81}, INT64_MAX}) EXPECT_EQ(s.at(t), 1e-5) << t;
}

TEST(Schedule, HugeCountsDoNotOverflow) {
  Schedule s({.kind = "wsd",
              .peak = 1,
              .warmup = INT64_MAX - 1,
              .stable = INT64_MAX - 1,
              .decay = INT64_MAX});
  EXPECT_EQ(s.at(INT64_MAX), 1.0);
  EXPECT_NEAR(s.at(INT64_MAX / 2), 0.5, 1e-12);
}

TEST(ScheduleErrors, UnknownKindNamesTheNearest) {
  EXPECT_EQ(error_id({.kind = "cosin", .peak = 1}, "Did you mean 'cosine'"), "optim.schedule_kind");
}

TEST(ScheduleErrors, RatesMustBeFiniteAndNotNegative) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error_id({.peak = -1}, "peak"), "optim.schedule_rate");
  EXPECT_EQ(error_id({.peak = nan}, "nan"), "optim.schedule_rate");
  EXPECT_EQ(error_id({.kind = "linear", .peak = 1, .end = HUGE_VAL, .total = 2}, "end"),
            "optim.schedule_rate");
}

TEST(ScheduleErrors, MissingAndUnusedFieldsAreNamed) {
  EXPECT_EQ(error_id({.kind = "cosine", .peak = 1}, "total"), "optim.schedule_missing");
  EXPECT_EQ(error_id({.peak = 1, .warmup = 5}, "Declined: a constant schedule has no warmup"),
            "optim.schedule_declined");
  ScheduleConfig config = wsd();
  config.total = 80;
  EXPECT_EQ(error_id(config, "total"), "optim.schedule_declined");
}

TEST(ScheduleErrors, CountsHaveALeastValue) {
  ScheduleConfig config = wsd();
  config.decay = 0;
  EXPECT_EQ(error_id(config, "decay"), "optim.schedule_count");
  config = wsd();
  config.stable = -1;
  EXPECT_EQ(error_id(config, "stable"), "optim.schedule_count");
  EXPECT_EQ(error_id({.kind = "linear", .peak = 1, .total = 0}, "total"), "optim.schedule_count");
}

TEST(ScheduleErrors, WarmupMustBeShorterThanTheWhole) {
  for (int64_t total : {4, 5}) {
    EXPECT_EQ(
        error_id({.kind = "warmup_cosine", .peak = 1, .warmup = 5, .total = total}, "the 5 of"),
        "optim.schedule_warmup");
  }
}

TEST(ScheduleErrors, NegativeCountIsOutOfRange) {
  Schedule s(wsd());
  try {
    s.at(-1);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "optim.schedule_at");
    EXPECT_EQ(e.code(), Code::out_of_range);
  }
}

}  // namespace
}  // namespace strata::optim
