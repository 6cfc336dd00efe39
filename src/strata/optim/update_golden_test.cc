// The printed programs of one step and of an accumulation: the same on every compiler.
#include "strata/optim/adafactor.h"
#include "strata/optim/adamw.h"
#include "strata/optim/muon.h"
#include "strata/optim/step_for_test.h"
#include "strata/testing/golden.h"

namespace strata::optim {
namespace {

TEST(UpdateGolden, AdamWStep) {
  auto manifest = manifest_of({{"embed.weight", f32_type({4, 2})}, {"norm.weight", f32_type({2})}});
  UpdatePlan plan(make_adamw({.m_dtype = DType::bf16}), Groups(manifest, default_groups()),
                  Schedule({.peak = 1e-3}), 1.0);
  testing::expect_golden("optim/adamw_step.mlir",
                         ir::print_module(*step_function(plan, DType::bf16)));
}

// A stacked matrix, whose layers stay apart, and a norm.
sharding::Manifest stacked_matrix() {
  sharding::ParamType w = f32_type({5, 2, 3});
  w.dims[1].role = sharding::Role::layer;
  return manifest_of({{"layers[0:2:1].w", w}, {"norm.weight", f32_type({3})}});
}

TEST(UpdateGolden, AdafactorStep) {
  UpdatePlan plan = simple_plan(stacked_matrix(), make_adafactor({.min_factored = 3}), 1e-3);
  testing::expect_golden("optim/adafactor_step.mlir", ir::print_module(*step_function(plan)));
}

TEST(UpdateGolden, MuonStep) {
  UpdatePlan plan = simple_plan(stacked_matrix(), make_muon({.steps = 1}), 1e-3);
  testing::expect_golden("optim/muon_step.mlir", ir::print_module(*step_function(plan)));
}

TEST(UpdateGolden, Accumulate) {
  std::vector<Parameter> parameters = {{"w", f32_type({2}), 0}};
  std::vector<ir::Type> types;
  for (const SlotSpec& s : accumulator_slots(parameters)) types.push_back(traced_type(s.type));
  types.insert(types.end(), {{DType::bf16, {2}}, {}, {}});
  auto f = testing::trace(types, [](ir::Function&, const ir::Values& in) {
    Accumulator before = accumulator_of(ir::Values(in.begin(), in.begin() + 5));
    return flat(accumulate(before, {in[6], {in[5]}, in[7]}));
  });
  testing::expect_golden("optim/accumulate.mlir", ir::print_module(*f));
}

}  // namespace
}  // namespace strata::optim
