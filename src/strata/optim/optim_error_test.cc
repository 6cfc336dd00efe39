#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "strata/base/error.h"
#include "strata/optim/adafactor.h"
#include "strata/optim/adamw.h"
#include "strata/optim/ema.h"
#include "strata/optim/lion.h"
#include "strata/optim/muon.h"
#include "strata/optim/sgd.h"
#include "strata/optim/step_counts.h"
#include "strata/optim/step_for_test.h"
#include "strata/optim/zero.h"

namespace strata::optim {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Expects that `action` throws an Error of this id and code whose text has `part`.
void expect_error(const std::function<void()>& action, const std::string& id,
                  const std::string& part, Code code = Code::invalid_argument) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), id);
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    return;
  }
  ADD_FAILURE() << "no error where " << id << " was due";
}

sharding::Manifest two() {
  return manifest_of({{"a.weight", f32_type({2, 2})}, {"b.weight", f32_type({2})}});
}

void expect_group_error(const GroupsConfig& config, const std::string& id,
                        const std::string& part) {
  expect_error([&] { Groups(two(), config); }, id, part);
}

TEST(GroupErrors, NamesAreThereAndDistinct) {
  expect_group_error({.groups = {{.name = "g"}, {.name = "g"}}}, "optim.group_name",
                     "groups, entry 1");
  expect_group_error({.groups = {{}}}, "optim.group_name", "got none");
}

TEST(GroupErrors, NumbersAreInRange) {
  expect_group_error(one_group({.lr_multiplier = -1}), "optim.group_value", "lr_multiplier");
  expect_group_error(one_group({.weight_decay = kNan}), "optim.group_value", "weight_decay");
  expect_group_error(one_group({.clip_norm = 0.0}), "optim.group_value", "a number > 0");
}

TEST(GroupErrors, FrozenGroupsTakeNoSettings) {
  expect_group_error(one_group({.weight_decay = 0.1, .frozen = true}), "optim.group_declined",
                     "Declined");
  expect_group_error(one_group({.frozen = true, .elementwise = true}), "optim.group_declined",
                     "Declined");
}

TEST(GroupErrors, RulesNameKnownGroups) {
  expect_group_error({.groups = {{.name = "decay"}}, .rules = {{.group = "decoy"}}},
                     "optim.group_unknown", "Did you mean 'decay'");
}

TEST(GroupErrors, NothingIsIdle) {
  expect_group_error({.groups = {{.name = "g"}, {.name = "h"}}, .rules = {{.group = "g"}}},
                     "optim.group_idle", "group 'h'");
  GroupsConfig config = one_group({.name = "g"});
  config.rules.push_back({.group = "g", .glob = "c.*"});
  expect_group_error(config, "optim.group_idle", "rule 1 ('c.*'");
}

TEST(GroupErrors, EveryParameterHasExactlyOneGroup) {
  GroupsConfig config = {.groups = {{.name = "g"}, {.name = "h"}},
                         .rules = {{.group = "g", .glob = "a.*"}, {.group = "h", .glob = "a*"}}};
  config.rules[1].glob = "z*";
  expect_group_error(config, "optim.group_unmatched", "none for 1 of them: b.weight");
  config.rules[1].glob = "*.weight";
  expect_group_error(config, "optim.group_ambiguous", "a.weight (g and h)");
  config.first_match_wins = true;
  EXPECT_EQ(Groups(two(), config).parameters().size(), 2u);
}

TEST(GroupErrors, LayersOfOneStackAgree) {
  sharding::ParamType type = f32_type({3, 2, 2});
  type.dims[0].role = sharding::Role::layer;
  auto manifest = manifest_of({{"layers[0:3:1].weight", type}});
  GroupsConfig config = {.groups = {{.name = "frozen", .frozen = true}, {.name = "rest"}},
                         .rules = {{.group = "frozen", .glob = "layers.0.*"}, {.group = "rest"}},
                         .first_match_wins = true};
  expect_error([&] { Groups(manifest, config); }, "optim.group_split",
               "layers.1.weight in group 'rest'");
}

TEST(GroupErrors, TrainedParametersAreFloat32Masters) {
  auto manifest = manifest_of({{"w", sharding::plain_type(DType::bf16, {2, 2})}});
  expect_error([&] { Groups(manifest, default_groups()); }, "optim.parameter_dtype", "got bf16");
  EXPECT_TRUE(Groups(manifest, one_group({.frozen = true})).parameters().empty());
}

TEST(GroupErrors, OnlyParametersHaveAGroup) {
  sharding::Manifest manifest({{"w", sharding::Kind::param, f32_type({2, 2})},
                               {"table", sharding::Kind::buffer, f32_type({2})}},
                              {}, {});
  Groups groups(manifest, default_groups());
  expect_error([&] { groups.group_of(manifest, "table"); }, "optim.group_of", "the buffer 'table'",
               Code::not_found);
  expect_error([&] { groups.group_of(manifest, "v"); }, "optim.group_of", "got 'v'",
               Code::not_found);
}

TEST(OptimizerErrors, HyperParametersAreInRange) {
  const std::string id = "optim.hyper_parameter";
  expect_error([] { make_adamw({.b1 = 1}); }, id, "optimiser adamw, b1");
  expect_error([] { make_adamw({.b2 = kNan}); }, id, "b2");
  expect_error([] { make_adamw({.eps = 1e-40}); }, id, "a finite number >= 1.18e-38");
  expect_error([] { make_adamw({.eps_root = -1}); }, id, "eps_root");
  expect_error([] { make_adamw({.weight_decay = -1}); }, id, "weight_decay");
  expect_error([] { make_sgd({.momentum = 1}); }, id, "optimiser sgd, momentum");
  expect_error([] { make_lion({.b2 = -0.1}); }, id, "optimiser lion, b2");
  expect_error([] { ema_scalars(1); }, id, "ema, decay");
  expect_error([] { make_adafactor({.decay_power = -1}); }, id, "adafactor, decay_power");
  expect_error([] { make_adafactor({.eps = 0}); }, id, "adafactor, eps");
  expect_error([] { make_adafactor({.clip_rms = 0}); }, id, "clip_rms");
  expect_error([] { make_adafactor({.least_scale = kNan}); }, id, "least_scale");
  expect_error([] { make_adafactor({.min_factored = 0}); }, id, "a size >= 1");
  expect_error([] { make_adafactor({.momentum = 1.0}); }, id, "adafactor, momentum");
  expect_error([] { make_adafactor({.weight_decay = -1}); }, id, "adafactor, weight_decay");
  expect_error([] { make_muon({.beta = 1}); }, id, "optimiser muon, beta");
  expect_error([] { make_muon({.eps = 0}); }, id, "optimiser muon, eps");
  expect_error([] { make_muon({.steps = 0}); }, id, "a number in [1, 20]");
  expect_error([] { make_muon({.steps = 21}); }, id, "got 21");
  expect_error([] { make_muon({.weight_decay = kNan}); }, id, "optimiser muon, weight_decay");
  expect_error([] { make_muon({.adamw = {.b1 = 2}}); }, id, "optimiser adamw, b1");
}

TEST(OptimizerErrors, SlotsAreStoredInF32OrBf16) {
  expect_error([] { make_adamw({.m_dtype = DType::f16}); }, "optim.slot_dtype", "m_dtype");
  expect_error([] { make_lion({.m_dtype = DType::f64}); }, "optim.slot_dtype", "got f64");
  expect_error([] { make_sgd({.trace_dtype = DType::i32}); }, "optim.slot_dtype", "trace_dtype");
  expect_error([] { make_adafactor({.m_dtype = DType::f16}); }, "optim.slot_dtype", "adafactor");
  expect_error([] { make_muon({.m_dtype = DType::f64}); }, "optim.slot_dtype", "optimiser muon");
}

TEST(OptimizerErrors, NesterovNeedsMomentum) {
  expect_error([] { make_sgd({.nesterov = true}); }, "optim.sgd_nesterov", "Declined");
}

TEST(OptimizerErrors, DerivationsNameLawfulDims) {
  sharding::ParamType type = f32_type({3, 4, 5});
  type.dims[0].role = sharding::Role::layer;
  type.dims[1].axes = {"fsdp"};
  auto reduce = [&](std::vector<int64_t> dims) {
    return derived_type(type, {Derivation::Kind::reduced, std::move(dims)}, DType::f32, "row/w");
  };
  sharding::ParamType row = type;
  row.dims.pop_back();
  EXPECT_EQ(reduce({2}), row);
  EXPECT_EQ(derived_type(type, {Derivation::Kind::scalar}, DType::f32, "s").rank(), 0);
  for (std::vector<int64_t> dims : {std::vector<int64_t>{0}, {3}, {2, 1}, {1, 1}, {-1}}) {
    expect_error([&] { reduce(dims); }, "optim.derivation", "slot row/w");
  }
}

TEST(UpdateErrors, SomethingIsTrained) {
  expect_error(
      [] {
        UpdatePlan(make_adamw(), Groups(two(), one_group({.frozen = true})), Schedule({.peak = 1}));
      },
      "optim.nothing_to_train", "a parameter that is not frozen");
}

TEST(UpdateErrors, ClipNormIsPositive) {
  for (double norm : {0.0, -1.0, kNan}) {
    expect_error([&] { simple_plan(two(), make_adamw(), 1, norm); }, "optim.clip_norm",
                 "infinity: off");
  }
}

TEST(UpdateErrors, ScalarsFitFloat32) {
  UpdatePlan plan = simple_plan(two(), make_adamw(), 1e39);
  expect_error([&] { plan.scalar_values(0); }, "optim.scalar_range", "scalar lr/all",
               Code::out_of_range);
  expect_error([&] { plan.scalar_values(-1); }, "optim.schedule_at", "count", Code::out_of_range);
}

TEST(UpdateErrors, InputsFitThePlan) {
  UpdatePlan plan = simple_plan(two(), make_sgd({.momentum = 0.9}), 1);
  ir::Function f;
  auto value = [&](const Dims& dims, DType dtype = DType::f32) {
    return f.parameter(ir::Type{dtype, dims});
  };
  const ir::Values tree = {value({2, 2}), value({2})};
  const ir::Values scalars(plan.scalars(0).size(), value({}));
  auto expect = [&](const ir::Values& parameters, const ir::Values& slots, const Sums& sums,
                    const ir::Values& numbers, const std::string& part) {
    expect_error([&] { plan.trace(f, parameters, slots, sums, numbers); }, "optim.update_inputs",
                 part);
  };
  const Sums good = {value({}), tree, value({})};
  EXPECT_TRUE(plan.trace(f, tree, tree, good, scalars).applied);
  expect({tree[0]}, tree, good, scalars, "parameters");
  expect({tree[0], value({3})}, tree, good, scalars, "parameter b.weight");
  expect(tree, {tree[0]}, good, scalars, "slots");
  expect(tree, {tree[0], value({2}, DType::bf16)}, good, scalars, "slot sgd.trace/b.weight");
  expect(tree, tree, {good.loss, {tree[0]}, good.weight}, scalars, "gradients");
  expect(tree, tree, {good.loss, {tree[1], tree[1]}, good.weight}, scalars, "gradient of a.weight");
  expect(tree, tree, {good.loss, {tree[0], value({2}, DType::i32)}, good.weight}, scalars,
         "gradient of b.weight");
  expect(tree, tree, {good.loss, {tree[0], {}}, good.weight}, scalars, "a null value");
  expect(tree, tree, {value({1}), tree, good.weight}, scalars, "summed loss");
  expect(tree, tree, {good.loss, tree, {}}, scalars, "summed weight");
  expect(tree, tree, good, {value({})}, "scalars");
  ir::Values wrong = scalars;
  wrong[1] = value({}, DType::f64);
  expect(tree, tree, good, wrong, "scalar lr/all");
}

// An optimiser that declares a slot and never makes it.
class Forgetful : public Optimizer {
 public:
  std::string_view name() const override { return "forgetful"; }
  double weight_decay() const override { return 0; }
  std::vector<Role> roles(const Parameter&) const override { return {{.name = "m"}}; }
  std::vector<NamedScalar> scalars(int64_t) const override { return {}; }
  ir::Values next_slots(const Parameter&, const Leaf&) const override { return {}; }
  ir::Value step(const Parameter&, const Leaf& leaf, const ir::Values&) const override {
    return leaf.gradient;
  }
};

TEST(UpdateErrors, OptimisersMakeTheSlotsTheyDeclare) {
  UpdatePlan plan = simple_plan(two(), std::make_shared<Forgetful>(), 1);
  expect_error([&] { step_function(plan); }, "optim.next_slots", "one new slot", Code::internal);
}

TEST(UpdateErrors, OnlyTheLayoutOfSlotsMayChange) {
  UpdatePlan plan = simple_plan(two(), make_adamw(), 1);
  std::vector<SlotSpec> slots = plan.slots();
  slots[0].type = f32_type({2, 3});
  expect_error([&] { plan.with_layout(slots, plan.accumulator()); }, "optim.laid_out",
               "other mesh axes", Code::internal);
  slots.pop_back();
  expect_error([&] { plan.with_layout(slots, plan.accumulator()); }, "optim.laid_out", "own slots",
               Code::internal);
  expect_error([&] { plan.with_layout(plan.slots(), {}); }, "optim.laid_out", "own slots",
               Code::internal);
}

TEST(ZeroErrors, AxesAreThoseOfTheMesh) {
  UpdatePlan plan = simple_plan(two(), make_adamw(), 1);
  sharding::Mesh mesh = sharding::Mesh::parse("data=2");
  expect_error(
      [&] {
        split_slots(plan.slots(), {"data", "data"}, mesh);
      },
      "optim.zero_axes", "got data, data");
  expect_error([&] { split_slots(plan.slots(), {"date"}, mesh); }, "sharding.unknown_axis", "data",
               Code::not_found);
}

TEST(AccumulateErrors, TheFlatListHasFourScalars) {
  expect_error([] { accumulator_of(ir::Values(3)); }, "optim.accumulator", "3 values");
}

TEST(AccumulateErrors, GradientsFitTheAccumulator) {
  ir::Function f;
  ir::Value s = f.parameter(ir::Type{}), n = f.parameter(ir::Type{DType::i32, {}});
  ir::Value a = f.parameter(ir::Type{DType::f32, {2}}), b = f.parameter(ir::Type{DType::f32, {3}});
  Accumulator before = {{s, {a}, s}, n, n};
  expect_error([&] { accumulate(before, {s, {b}, s}); }, "optim.accumulate", "1 gradients");
  expect_error([&] { accumulate(before, {s, {a, a}, s}); }, "optim.accumulate", "got 2");
}

TEST(EmaErrors, ListsFit) {
  ir::Function f;
  ir::Value s = f.parameter(ir::Type{}), yes = f.parameter(ir::Type{DType::pred, {}});
  ir::Value a = f.parameter(ir::Type{DType::f32, {2}});
  expect_error([&] { ema({a}, {a, a}, {s, s}, yes); }, "optim.ema", "2 averages");
  expect_error([&] { ema({a}, {a}, {s}, yes); }, "optim.ema", "1 and 1");
}

TEST(StepCountErrors, TooManySkippedStepsInARowStopTheRun) {
  StepCounts counts;
  for (int i = 0; i < 2; ++i) record(counts, StepOutcome::non_finite, 3);
  record(counts, StepOutcome::applied, 3);
  for (int i = 0; i < 2; ++i) record(counts, StepOutcome::non_finite, 3);
  record(counts, StepOutcome::empty, 3);
  expect_error([&] { record(counts, StepOutcome::non_finite, 3); }, "optim.skipped_in_a_row",
               "3 non-finite steps in a row", Code::aborted);
  EXPECT_EQ(counts, (StepCounts{1, 5, 1, 3}));
  for (int i = 0; i < 9; ++i) record(counts, StepOutcome::non_finite, 0);
  EXPECT_EQ(counts.steps_skipped, 14);
}

}  // namespace
}  // namespace strata::optim
