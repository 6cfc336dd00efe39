// The printed programs of one step and of an accumulation: the same on every compiler.
#include "strata/optim/adamw.h"
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
