#include "strata/optim/update.h"

#include <fmt/format.h>

#include <limits>

#include "strata/optim/adafactor.h"
#include "strata/optim/adamw.h"
#include "strata/optim/lion.h"
#include "strata/optim/muon.h"
#include "strata/optim/sgd.h"
#include "strata/optim/step_counts.h"
#include "strata/optim/step_for_test.h"

namespace strata::optim {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensors list(HostTensor a) {
  Tensors all;
  all.push_back(std::move(a));
  return all;
}

Tensors list(HostTensor a, HostTensor b) {
  Tensors all = list(std::move(a));
  all.push_back(std::move(b));
  return all;
}

// The value of a scalar input by name; NaN when there is none.
double scalar_of(const UpdatePlan& plan, int64_t count, const std::string& name) {
  for (const NamedScalar& s : plan.scalars(count)) {
    if (s.name == name) return s.value;
  }
  return kNan;
}

// Case B4: p after each step as the case's generator gives it.
TEST(Update, AdamWGivesTheCaseB4Values) {
  auto manifest = manifest_of({{"w", f32_type({4})}});
  Stepper s(newer_plugin(), simple_plan(manifest, make_adamw({.weight_decay = 0.1}), 0.01),
            list(tensor({1, -2, 0.5, 0})));
  const std::vector<std::vector<float>> gradients = {
      {0.1f, -0.2f, 0, 1e-9f}, {0.3f, 0.1f, 0, 1e-9f}, {-0.2f, 0.05f, 0, 1e-9f}};
  std::vector<double> first;
  for (int64_t count = 0; count < 3; ++count) {
    s.step(list(tensor(gradients[static_cast<size_t>(count)])), count);
    first.push_back(s.parameters[0].at(0));
    // Decay alone: (1 - lr wd) a step.
    EXPECT_NEAR(s.parameters[0].at(2), 0.5 * std::pow(0.999, count + 1), 1e-7);
  }
  EXPECT_NEAR(first[0], 0.989000001, 1e-7);
  EXPECT_NEAR(first[2], 0.975275319, 1e-7);
}

TEST(Update, ZeroGradientsAndZeroWeightsStayZero) {
  auto manifest = manifest_of({{"w", f32_type({1, 3})}});
  for (auto& optimizer : {make_adamw(), make_lion(), make_sgd({.momentum = 0.9}), make_adafactor(),
                          make_adafactor({.min_factored = 1}), make_muon()}) {
    Stepper s(newer_plugin(), simple_plan(manifest, optimizer, 0.1),
              list(tensor({0, 0, 0}, {1, 3})));
    Stepper::Report report = s.step(list(tensor({0, 0, 0}, {1, 3})), 0);
    EXPECT_TRUE(report.applied) << optimizer->name();
    EXPECT_EQ(values_of(s.parameters[0]), (std::vector<float>{0, 0, 0})) << optimizer->name();
  }
}

// Case B4: lr wd = 1e-5 on p = 1 with no gradient.
TEST(Update, SmallDecayMovesTheFloat32Master) {
  auto manifest = manifest_of({{"w", f32_type({1})}});
  Stepper s(newer_plugin(), simple_plan(manifest, make_adamw({.weight_decay = 0.01}), 1e-3),
            list(tensor({1})));
  for (int64_t count = 0; count < 1000; ++count) s.step(list(tensor({0})), count);
  EXPECT_NEAR(s.parameters[0].at(0), 0.9900498, 3e-6);
}

// Case B4: the second moment of g = 1, and its decay from 1, over 2,000 steps.
TEST(Update, SecondMomentGrowsAndDecays) {
  auto manifest = manifest_of({{"w", f32_type({2})}});
  Stepper s(newer_plugin(), simple_plan(manifest, make_adamw(), 0), list(tensor({1, 1})));
  s.slots[1] = tensor({0, 1});
  for (int64_t count = 0; count < 2000; ++count) s.step(list(tensor({1, 0})), count);
  EXPECT_NEAR(s.slots[1].at(0), 0.8648, 1e-4);
  EXPECT_NEAR(s.slots[1].at(1), std::pow(0.999, 2000), 1e-4);
}

// Case B4: a stacked norm [L, D] of ones, no gradient, lr 0.1, wd 0.1.
TEST(Update, StackedNormsAreExemptFromDecay) {
  sharding::ParamType norm = f32_type({2, 4});
  norm.dims[0].role = sharding::Role::layer;
  auto manifest = manifest_of({{"layers[0:2:1].norm.weight", norm}, {"w", f32_type({2, 4})}});
  UpdatePlan plan(make_adamw({.weight_decay = 0.1}), Groups(manifest, default_groups()),
                  Schedule({.peak = 0.1}));
  std::vector<float> ones(8, 1);
  Stepper s(newer_plugin(), plan, list(tensor(ones, {2, 4}), tensor(ones, {2, 4})));
  std::vector<float> zeros(8, 0);
  s.step(list(tensor(zeros, {2, 4}), tensor(zeros, {2, 4})), 0);
  EXPECT_EQ(values_of(s.parameters[0]), ones);
  EXPECT_NEAR(s.parameters[1].at(0), 0.99, 1e-7);
}

TEST(Update, TheScheduleIsReadBeforeTheIncrement) {
  auto manifest = manifest_of({{"w", f32_type({2})}});
  Schedule schedule({.kind = "warmup_cosine", .peak = 1e-2, .warmup = 2, .total = 10});
  UpdatePlan plan(make_adamw(), Groups(manifest, one_group()), schedule);
  EXPECT_EQ(scalar_of(plan, 0, "lr/all"), 0);
  EXPECT_EQ(scalar_of(plan, 2, "lr/all"), 1e-2);
  EXPECT_EQ(scalar_of(plan, 0, "c1"), 1 - std::pow(0.9, 1));
  EXPECT_EQ(scalar_of(plan, 4, "c2"), 1 - std::pow(0.999, 5));
  Stepper s(newer_plugin(), plan, list(tensor({1, 2})));
  HostTensor before = s.parameters[0].clone();
  EXPECT_TRUE(s.step(list(tensor({1, 1})), 0).applied);
  EXPECT_TRUE(same_bits(s.parameters[0], before));
  EXPECT_NEAR(s.slots[0].at(0), 0.1, 1e-7);
  s.step(list(tensor({1, 1})), 1);
  EXPECT_FALSE(same_bits(s.parameters[0], before));
}

TEST(Update, NothingMovesWhenAnythingIsNotFinite) {
  auto manifest = manifest_of({{"a", f32_type({1, 3})}, {"b", f32_type({2})}});
  for (auto& optimizer :
       {make_adamw(), make_lion(), make_sgd({.momentum = 0.9}), make_muon(), make_adafactor(),
        make_adafactor({.min_factored = 1, .momentum = 0.9, .weight_decay = 0.1})}) {
    Stepper s(newer_plugin(), simple_plan(manifest, optimizer, 0.1, 1.0),
              list(tensor({1, 2, 3}, {1, 3}), tensor({4, 5})));
    s.step(list(tensor({1, 1, 1}, {1, 3}), tensor({1, 1})), 0);
    Tensors before;
    for (Tensors* all : {&s.parameters, &s.slots}) {
      for (HostTensor& t : *all) before.push_back(t.clone());
    }
    struct Row {
      float a, b, weight, loss;
    };
    for (Row row : {Row{kNan, 1, 1, 0}, Row{1, kInf, 1, 0}, Row{1, -kInf, 1, 0}, Row{1, 1, kNan, 0},
                    Row{1, 1, kInf, 0}, Row{1, 1, 1, kNan}, Row{1, 1, 0, 0}, Row{1, 1, -1, 0}}) {
      Stepper::Report report =
          s.step(list(tensor({0, row.a, 0}, {1, 3}), tensor({row.b, 0})), 1, row.weight, row.loss);
      EXPECT_FALSE(report.applied);
      size_t i = 0;
      for (Tensors* all : {&s.parameters, &s.slots}) {
        for (HostTensor& t : *all) EXPECT_TRUE(same_bits(t, before[i++])) << optimizer->name();
      }
    }
  }
}

// The weight average over twenty steps, some of which are skipped, with a decay that changes.
TEST(Update, TheAverageFollowsTheParameters) {
  auto manifest = manifest_of({{"a", f32_type({3, 2})}, {"b", f32_type({5})}});
  for (auto& optimizer : {make_adamw(), make_lion(), make_sgd(), make_muon(),
                          make_adafactor({.min_factored = 1, .momentum = 0.9})}) {
    UpdatePlan plan = simple_plan(manifest, optimizer, 0.1, 1.0);
    const size_t own = plan.slots().size();
    plan = plan.with_average(0.9);
    ASSERT_EQ(plan.slots().size(), own + 2);
    EXPECT_EQ(plan.first_average(), own);
    EXPECT_EQ(plan.slots()[own + 1].name, "ema/b");
    EXPECT_EQ(plan.slots()[own + 1].parameter, 1);
    Stepper s(newer_plugin(), plan,
              list(tensor({1, 2, 3, 4, 5, 6}, {3, 2}), tensor({7, 8, 9, 10, 11})));
    std::vector<std::vector<double>> want(2);
    for (size_t k = 0; k < 2; ++k) {
      s.slots[own + k] = s.parameters[k].clone();
      for (float x : values_of(s.parameters[k])) want[k].push_back(x);
    }
    for (int step = 0; step < 20; ++step) {
      const float g = step % 7 == 3 ? kNan : 0.1f * float(step - 9);
      HostTensor before = s.slots[own].clone();
      bool applied =
          s.step(list(tensor({1, g, -1, 2, 0, g}, {3, 2}), tensor({g, 1, -1, 0.5f, 2})), step)
              .applied;
      EXPECT_EQ(same_bits(s.slots[own], before), !applied);
      for (size_t k = 0; k < 2 && applied; ++k) {
        for (size_t i = 0; i < want[k].size(); ++i) {
          double p = s.parameters[k].at(static_cast<int64_t>(i));
          want[k][i] = static_cast<float>(0.9 * want[k][i] + (1 - 0.9) * p);
        }
        EXPECT_LT(relative_l2(s.slots[own + k], want[k]), 1e-6) << optimizer->name();
      }
    }
  }
}

// Its decay compiles nothing, and the plan's other numbers stay where they were.
TEST(Update, TheAveragesDecayIsAScalar) {
  auto manifest = manifest_of({{"w", f32_type({2})}});
  UpdatePlan plan = simple_plan(manifest, make_adamw(), 1e-2);
  UpdatePlan a = plan.with_average(0.5), b = plan.with_average(0.999);
  EXPECT_EQ(ir::print_module(*step_function(a)), ir::print_module(*step_function(b)));
  EXPECT_EQ(scalar_of(b, 0, "ema_decay"), 0.999);
  EXPECT_EQ(scalar_of(b, 0, "one_minus_ema_decay"), 1 - 0.999);
  EXPECT_EQ(scalar_of(b, 0, "lr/all"), 1e-2);
  EXPECT_FALSE(plan.keeps_average());
}

// Case B3 on one device. With plain descent at rate 1 from 0, the parameter is minus the clipped
// gradient.
TEST(Update, ClipGivesTheCaseB3Values) {
  auto manifest = manifest_of({{"sharded", f32_type({4})}, {"replicated", f32_type({1})}});
  Stepper s(newer_plugin(), simple_plan(manifest, make_sgd(), 1, 1.0),
            list(tensor({0, 0, 0, 0}), tensor({0})));
  Stepper::Report report = s.step(list(tensor({3, 0, 4, 12}), tensor({0.8f})), 0);
  const double norm = 13.024592;
  EXPECT_NEAR(report.norms.at(0), norm, 1e-6 * norm);
  EXPECT_NEAR(s.parameters[0].at(3), -12 / norm, 1e-6);
  EXPECT_NEAR(s.parameters[1].at(0), -0.8 / norm, 1e-6);
}

TEST(Update, SmallNormsAreNotClipped) {
  auto manifest = manifest_of({{"w", f32_type({1})}});
  Stepper s(newer_plugin(), simple_plan(manifest, make_sgd(), 1, 1.0), list(tensor({0})));
  Stepper::Report report = s.step(list(tensor({0.8f})), 0);
  EXPECT_EQ(report.norms.at(0), 0.8f);
  EXPECT_EQ(s.parameters[0].at(0), -0.8f);
  // Norm 0: scale 1, not NaN.
  report = s.step(list(tensor({0})), 0);
  EXPECT_EQ(report.norms.at(0), 0);
  EXPECT_EQ(s.parameters[0].at(0), -0.8f);
}

// Case B3, tied: one slot of the manifest, one gradient (the sum of both uses), one count.
TEST(Update, TiedParametersCountOnce) {
  auto manifest = manifest_of({{"embed.weight", f32_type({2})}}, {{"head.weight", "embed.weight"}});
  UpdatePlan plan = simple_plan(manifest, make_sgd(), 1, 1.0);
  ASSERT_EQ(plan.parameters().size(), 1u);
  Stepper s(newer_plugin(), plan, list(tensor({0, 0})));
  EXPECT_EQ(s.step(list(tensor({3, 4})), 0).norms.at(0), 5.0f);
  EXPECT_NEAR(s.parameters[0].at(1), -0.8, 1e-7);
}

TEST(Update, AGroupMayBeClippedByItsOwnNorm) {
  auto manifest =
      manifest_of({{"lora.a", f32_type({2})}, {"w.a", f32_type({2})}, {"w.b", f32_type({1})}});
  GroupsConfig config = {
      .groups = {{.name = "adapter", .clip_norm = 0.5}, {.name = "rest"}, {.name = "rest2"}},
      .rules = {{.group = "adapter", .glob = "lora.*"},
                {.group = "rest", .glob = "w.a"},
                {.group = "rest2", .glob = "w.b"}}};
  UpdatePlan plan(make_sgd(), Groups(manifest, config), Schedule({.peak = 1}), 13);
  EXPECT_EQ(plan.norms(), (std::vector<std::string>{"grad_norm/adapter", "grad_norm"}));
  EXPECT_EQ(scalar_of(plan, 0, "clip_norm/adapter"), 0.5);
  EXPECT_EQ(scalar_of(plan, 0, "clip_norm"), 13);
  Tensors start = list(tensor({0, 0}), tensor({0, 0}));
  start.push_back(tensor({0}));
  Stepper s(newer_plugin(), plan, std::move(start));
  Tensors gradients = list(tensor({3, 4}), tensor({3, 4}));
  gradients.push_back(tensor({12}));
  Stepper::Report report = s.step(gradients, 0);
  EXPECT_EQ(report.norms, (std::vector<float>{5, 13}));
  EXPECT_NEAR(s.parameters[0].at(0), -0.3, 1e-7);
  EXPECT_EQ(values_of(s.parameters[1]), (std::vector<float>{-3, -4}));
}

TEST(Update, SumsAreDividedOnceByTheSummedWeight) {
  auto manifest = manifest_of({{"w", f32_type({2})}});
  Stepper s(newer_plugin(), simple_plan(manifest, make_sgd(), 1), list(tensor({0, 0})));
  Stepper::Report report = s.step(list(tensor({10, -20})), 0, 5, 15);
  EXPECT_EQ(report.loss, 3.0f);
  EXPECT_EQ(report.weight, 5.0f);
  EXPECT_NEAR(report.norms.at(0), std::sqrt(20.0), 1e-6);
  EXPECT_NEAR(s.parameters[0].at(0), -2, 1e-6);
  EXPECT_NEAR(s.parameters[0].at(1), 4, 1e-6);
}

TEST(Update, Bf16GradientsAreReadInFloat32) {
  auto manifest = manifest_of({{"w", f32_type({1000})}});
  Stepper s(newer_plugin(), simple_plan(manifest, make_sgd(), 1),
            list(HostTensor(DType::f32, {1000})), DType::bf16);
  Tensors ones = list(convert(tensor(std::vector<float>(1000, 1)), DType::bf16));
  // A norm summed in bf16 gets no further than 16.
  EXPECT_NEAR(s.step(ones, 0).norms.at(0), 31.622777, 1e-5);
}

TEST(Update, AdafactorFactorsLargeArraysOfALayer) {
  sharding::ParamType small = f32_type({200, 127, 128}), large = f32_type({2, 128, 130});
  small.dims[0].role = large.dims[0].role = sharding::Role::layer;
  large.dims[2].axes = {"tensor"};
  auto manifest = manifest_of({{"layers[0:200:1].a", small}, {"layers[0:2:1].b", large}});
  UpdatePlan plan = simple_plan(manifest, make_adafactor({.momentum = 0.9}), 1);
  ASSERT_EQ(plan.slots().size(), 5u);
  EXPECT_EQ(plan.slots()[0].name, "adafactor.v/layers[0:200:1].a");
  EXPECT_EQ(plan.slots()[1].name, "adafactor.m/layers[0:200:1].a");
  EXPECT_EQ(plan.slots()[2].name, "adafactor.v_row/layers[0:2:1].b");
  EXPECT_EQ(sharding::text_of(plan.slots()[2].type), "f32[(layer):2, 128]");
  EXPECT_EQ(sharding::text_of(plan.slots()[3].type), "f32[(layer):2, 130@tensor]");
  EXPECT_EQ(sharding::text_of(plan.slots()[4].type), "f32[(layer):2, 128, 130@tensor]");
}

TEST(Update, FrozenParametersHaveNoSlotsAndNoScalars) {
  auto manifest = manifest_of({{"base.w", f32_type({2})}, {"lora.a", f32_type({3})}});
  GroupsConfig config = {
      .groups = {{.name = "frozen", .frozen = true}, {.name = "adapter", .lr_multiplier = 2}},
      .rules = {{.group = "frozen", .glob = "base.*"}, {.group = "adapter", .glob = "lora.*"}}};
  UpdatePlan plan(make_adamw(), Groups(manifest, config), Schedule({.peak = 0.25}));
  ASSERT_EQ(plan.parameters().size(), 1u);
  ASSERT_EQ(plan.slots().size(), 2u);
  EXPECT_EQ(plan.slots()[0].name, "adam.m/lora.a");
  EXPECT_EQ(plan.slots()[1].name, "adam.v/lora.a");
  EXPECT_EQ(scalar_of(plan, 0, "lr/adapter"), 0.5);
  EXPECT_EQ(scalar_of(plan, 0, "weight_decay/adapter"), 1e-4);
  EXPECT_TRUE(std::isnan(scalar_of(plan, 0, "lr/frozen")));
}

TEST(Update, OtherNumbersTraceTheSameProgram) {
  auto manifest = manifest_of({{"w", f32_type({2})}});
  UpdatePlan a = simple_plan(manifest, make_adamw(), 0.1);
  UpdatePlan b = simple_plan(
      manifest, make_adamw({.b1 = 0.8, .b2 = 0.9, .eps = 1e-6, .weight_decay = 0}), 0.3, 1.0);
  EXPECT_EQ(ir::print_module(*step_function(a)), ir::print_module(*step_function(b)));
  EXPECT_NE(a.scalar_values(0), b.scalar_values(0));
  a = simple_plan(manifest, make_adafactor({.momentum = 0.9}), 0.1);
  b = simple_plan(manifest,
                  make_adafactor({.decay_power = 0.7,
                                  .eps = 1e-20,
                                  .clip_rms = 2,
                                  .least_scale = 1e-2,
                                  .momentum = 0.8,
                                  .weight_decay = 1e-4}),
                  0.1);
  EXPECT_EQ(ir::print_module(*step_function(a)), ir::print_module(*step_function(b)));
  a = simple_plan(manifest, make_muon(), 0.1);
  b = simple_plan(manifest, make_muon({.beta = 0.9, .eps = 1e-7, .weight_decay = 0.1}), 0.1);
  EXPECT_EQ(ir::print_module(*step_function(a)), ir::print_module(*step_function(b)));
}

// Bytes of all parameters and slots, and what a step of so many copies of two matrices needs when
// old and new state share memory.
struct InPlace {
  int64_t state = 0, aliases = 0, temporaries = 0;
};

InPlace in_place(const std::shared_ptr<const Optimizer>& optimizer, int copies = 1) {
  std::vector<std::pair<std::string, sharding::ParamType>> rows;
  for (int i = 0; i < copies; ++i) {
    rows.emplace_back(fmt::format("a{}", i), f32_type({64, 96}));
    rows.emplace_back(fmt::format("b{}", i), f32_type({128, 32}));
  }
  auto manifest = manifest_of(rows);
  UpdatePlan plan = simple_plan(manifest, optimizer, 0.1, 1.0);
  auto f = step_function(plan);
  size_t count = plan.parameters().size() + plan.slots().size();
  for (size_t i = 0; i < count; ++i) {
    f->argument_ports()[i].attributes = fmt::format("tf.aliasing_output = {} : i32", i);
  }
  auto stats = newer_plugin().compile(*f).memory_stats();
  EXPECT_TRUE(stats.value) << stats.declined;
  InPlace out = {copies * 4 * (64 * 96 + 128 * 32), stats.value->aliases, stats.value->temporaries};
  for (const SlotSpec& slot : plan.slots()) out.state += slot.type.bytes();
  return out;
}

// The newer plug-in needs no temporary of a parameter's size.
TEST(Update, DonatedStateIsUpdatedInPlace) {
  for (auto& optimizer :
       {make_adamw(), make_adamw({.nesterov = true}), make_sgd(),
        make_sgd({.momentum = 0.9, .nesterov = true}), make_lion(),
        make_adamw({.m_dtype = DType::bf16}), make_lion({.m_dtype = DType::bf16})}) {
    InPlace memory = in_place(optimizer);
    EXPECT_EQ(memory.aliases, memory.state) << optimizer->name();
    EXPECT_LT(memory.temporaries, 4096) << optimizer->name();
  }
}

// Updates of matrices run one after the other: what one needs does not add up over parameters.
TEST(Update, CoupledUpdatesNeedTheTemporariesOfOneParameter) {
  constexpr int64_t largest = 4 * 64 * 96;
  for (auto& optimizer : {make_adafactor({.min_factored = 16}), make_adafactor({.momentum = 0.9}),
                          make_adafactor({.min_factored = 16, .momentum = 0.9}), make_muon()}) {
    InPlace few = in_place(optimizer), many = in_place(optimizer, 4);
    EXPECT_EQ(few.aliases, few.state) << optimizer->name();
    EXPECT_EQ(many.aliases, many.state) << optimizer->name();
    EXPECT_LT(few.temporaries, 4 * largest) << optimizer->name();
    EXPECT_LT(many.temporaries, few.temporaries + largest / 10) << optimizer->name();
  }
}

TEST(StepCounts, CountsAndStopsAfterTooManyInARow) {
  StepCounts counts;
  record(counts, outcome_of(true, 3), 2);
  record(counts, outcome_of(false, 3), 2);
  record(counts, outcome_of(false, 0), 2);
  record(counts, outcome_of(true, 3), 2);
  EXPECT_EQ(counts, (StepCounts{2, 1, 1, 0}));
}

}  // namespace
}  // namespace strata::optim
