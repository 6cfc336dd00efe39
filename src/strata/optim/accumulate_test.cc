#include "strata/optim/accumulate.h"

#include <limits>

#include "strata/optim/adamw.h"
#include "strata/optim/sgd.h"
#include "strata/optim/step_counts.h"
#include "strata/optim/step_for_test.h"

namespace strata::optim {
namespace {

struct Micro {
  std::vector<float> gradient;  // summed
  float loss = 0;
  float weight = 1;
};

// An accumulator of one gradient, on the host between micro-steps.
class Accumulating {
 public:
  explicit Accumulating(int64_t size, DType gradient = DType::f32)
      : first_(compile(size, gradient, true)),
        further_(compile(size, gradient, false)),
        gradient_(gradient) {}

  void add(const Micro& micro) {
    bool first = state.empty();
    Tensors inputs;
    for (const HostTensor& t : state) inputs.push_back(t.clone());
    inputs.push_back(convert(tensor(micro.gradient), gradient_));
    inputs.push_back(HostTensor::scalar(micro.loss));
    inputs.push_back(HostTensor::scalar(micro.weight));
    state = newer_plugin().run(first ? first_ : further_, inputs);
  }

  // gradient, loss, weight, added, skipped.
  Tensors state;

 private:
  static pjrt::Executable compile(int64_t size, DType gradient, bool first) {
    std::vector<ir::Type> types;
    if (!first) types = {{DType::f32, {size}}, {}, {}, {DType::i32, {}}, {DType::i32, {}}};
    size_t n = types.size();
    types.insert(types.end(), {{gradient, {size}}, {}, {}});
    auto f = testing::trace(types, [&](ir::Function&, const ir::Values& in) {
      auto split = in.begin() + static_cast<std::ptrdiff_t>(n);
      Sums micro = {split[1], {split[0]}, split[2]};
      return flat(first ? begin(micro)
                        : accumulate(accumulator_of(ir::Values(in.begin(), split)), micro));
    });
    return newer_plugin().compile(*f);
  }

  pjrt::Executable first_, further_;
  DType gradient_;
};

// Case B4: four micro-gradients, two a step, AdamW at 0.1 without decay. Adam's count, the schedule
// and decay advance once a step.
TEST(Accumulate, GivesTheCaseB4Values) {
  auto manifest = manifest_of({{"w", f32_type({2})}});
  Tensors start;
  start.push_back(tensor({1, 1}));
  Stepper s(newer_plugin(), simple_plan(manifest, make_adamw({.weight_decay = 0}), 0.1),
            std::move(start));
  const std::vector<std::vector<float>> micro = {
      {0.4f, -0.4f}, {0, 0.8f}, {0.2f, 0.2f}, {0.6f, -0.6f}};
  Accumulating a(2);
  StepCounts counts;
  for (size_t i = 0; i < micro.size(); ++i) {
    a.add({.gradient = micro[i]});
    if (i % 2 == 0) continue;
    Tensors sums;
    sums.push_back(std::move(a.state[0]));
    Stepper::Report report = s.step(sums, counts.count, float(a.state[2].at(0)));
    record(counts, outcome_of(report.applied, report.weight), 1);
    a.state.clear();
  }
  EXPECT_NEAR(s.parameters[0].at(0), 0.803482, 1e-6);
  EXPECT_NEAR(s.parameters[0].at(1), 0.905263, 1e-6);
  EXPECT_EQ(counts.count, 2);
}

// Three segments, then two: weights 3/5 and 2/5. A mean of means would be (2 + 7) / 2.
TEST(Accumulate, UnequalMicroStepsEqualOneOnTheWholeBatch) {
  Accumulating parts(1);
  parts.add({.gradient = {1 + 2 + 3 + 6 + 8}, .loss = 20, .weight = 5});
  Tensors whole = std::move(parts.state);
  parts.state.clear();
  parts.add({.gradient = {1 + 2 + 3}, .loss = 6, .weight = 3});
  parts.add({.gradient = {6 + 8}, .loss = 14, .weight = 2});
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(parts.state[i], whole[i])) << i;
  EXPECT_EQ(parts.state[3].at(0), 2);
  auto manifest = manifest_of({{"w", f32_type({1})}});
  Tensors start, sums;
  start.push_back(tensor({0}));
  sums.push_back(std::move(parts.state[0]));
  Stepper s(newer_plugin(), simple_plan(manifest, make_sgd(), 1), std::move(start));
  EXPECT_NEAR(s.step(sums, 0, float(parts.state[2].at(0)), 20).loss, 4, 1e-6);
  EXPECT_NEAR(s.parameters[0].at(0), -4, 1e-6);
}

TEST(Accumulate, ANonFiniteMicroStepChangesNoBit) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float inf = std::numeric_limits<float>::infinity();
  const Micro good = {.gradient = {0.1f, -0.2f}, .loss = 0.3f, .weight = 7};
  Accumulating a(2);
  for (const Micro& bad : {Micro{{nan, 1}, 1, 1}, Micro{{1, -inf}, 1, 1}, Micro{{inf, -inf}, 1, 1},
                           Micro{{1, 1}, nan, 1}, Micro{{1, 1}, 1, inf}}) {
    a.state.clear();
    a.add(good);
    a.add(good);
    Tensors before;
    for (const HostTensor& t : a.state) before.push_back(t.clone());
    a.add(bad);
    for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(same_bits(a.state[i], before[i])) << i;
    EXPECT_EQ(a.state[4].at(0), 1);
    a.add(good);
    EXPECT_EQ(a.state[3].at(0), 3);
    EXPECT_EQ(a.state[4].at(0), 1);
  }
}

TEST(Accumulate, ANonFiniteFirstMicroStepLeavesZeros) {
  Accumulating a(2);
  a.add({.gradient = {std::numeric_limits<float>::infinity(), 1}, .loss = 5, .weight = 3});
  EXPECT_EQ(values_of(a.state[0]), (std::vector<float>{0, 0}));
  EXPECT_EQ(a.state[1].at(0), 0);
  EXPECT_EQ(a.state[2].at(0), 0);
  EXPECT_EQ(a.state[3].at(0), 0);
  EXPECT_EQ(a.state[4].at(0), 1);
  // A step on nothing else is a skipped one, not an empty one.
  EXPECT_EQ(outcome_of(false, 0, 1), StepOutcome::non_finite);
}

TEST(Accumulate, Bf16GradientsAreSummedInFloat32) {
  Accumulating a(1, DType::bf16);
  for (int i = 0; i < 300; ++i) a.add({.gradient = {1}});
  EXPECT_EQ(a.state[0].at(0), 300);  // a bf16 sum stops at 256
}

TEST(Accumulate, ADonatedAccumulatorIsAddedToInPlace) {
  std::vector<ir::Type> types = {
      {DType::f32, {64, 96}}, {}, {}, {DType::i32, {}}, {DType::i32, {}}};
  types.insert(types.end(), {{DType::f32, {64, 96}}, {}, {}});
  auto f = testing::trace(types, [](ir::Function&, const ir::Values& in) {
    Accumulator before = accumulator_of(ir::Values(in.begin(), in.begin() + 5));
    return flat(accumulate(before, {in[6], {in[5]}, in[7]}));
  });
  f->argument_ports()[0].attributes = "tf.aliasing_output = 0 : i32";
  auto stats = newer_plugin().compile(*f).memory_stats();
  ASSERT_TRUE(stats.value) << stats.declined;
  EXPECT_EQ(stats.value->aliases, 4 * 64 * 96);
  EXPECT_LT(stats.value->temporaries, 4096);
}

TEST(Accumulate, SlotsDescribeTheFlatList) {
  sharding::ParamType type = f32_type({2, 3});
  type.dims[0].role = sharding::Role::layer;
  type.dims[1].axes = {"fsdp"};
  std::vector<Parameter> parameters = {{"w", type, 0}};
  std::vector<SlotSpec> slots = accumulator_slots(parameters);
  ASSERT_EQ(slots.size(), 5u);
  EXPECT_EQ(slots[0].name, "accumulator.gradient/w");
  EXPECT_EQ(slots[0].type, type);
  EXPECT_EQ(slots[1].name, "accumulator.loss");
  EXPECT_EQ(slots[4].name, "accumulator.skipped");
  EXPECT_EQ(slots[4].type.dtype, DType::i32);
  EXPECT_EQ(slots[4].type.rank(), 0);
}

}  // namespace
}  // namespace strata::optim
