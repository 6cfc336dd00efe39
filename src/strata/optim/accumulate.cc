#include "strata/optim/accumulate.h"

#include <fmt/format.h>

#include "strata/base/error.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/optim/clip.h"

namespace strata::optim {
namespace {

using ir::Value;
using ir::Values;

constexpr DType kCount = DType::i32;

// Gradients, loss, weight in float32.
Values terms(const Sums& micro) {
  Values all = micro.gradients;
  all.push_back(micro.loss);
  all.push_back(micro.weight);
  for (Value& v : all) v = ops::convert(v, DType::f32);
  return all;
}

Accumulator assemble(Values sums, Value added, Value skipped) {
  sums.push_back(added);
  sums.push_back(skipped);
  return accumulator_of(sums);
}

SlotSpec scalar_slot(const char* name, DType dtype) {
  return {.name = name, .derivation = {.kind = Derivation::Kind::scalar}, .type = {.dtype = dtype}};
}

}  // namespace

std::vector<SlotSpec> accumulator_slots(std::span<const Parameter> parameters) {
  std::vector<SlotSpec> slots;
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::string name = "accumulator.gradient/" + parameters[i].name;
    sharding::ParamType type = derived_type(parameters[i].type, {}, DType::f32, name);
    slots.push_back({std::move(name), static_cast<int64_t>(i), {}, std::move(type)});
  }
  slots.push_back(scalar_slot("accumulator.loss", DType::f32));
  slots.push_back(scalar_slot("accumulator.weight", DType::f32));
  slots.push_back(scalar_slot("accumulator.added", kCount));
  slots.push_back(scalar_slot("accumulator.skipped", kCount));
  return slots;
}

Values flat(const Accumulator& accumulator) {
  Values all = accumulator.sums.gradients;
  all.insert(all.end(), {accumulator.sums.loss, accumulator.sums.weight, accumulator.added,
                         accumulator.skipped});
  return all;
}

Accumulator accumulator_of(const Values& values) {
  require(values.size() >= 4, {.id = "optim.accumulator",
                               .where = "accumulator",
                               .expected = "gradients and four scalars",
                               .got = fmt::format("{} values", values.size())});
  auto scalars = values.end() - 4;
  return {{scalars[0], Values(values.begin(), scalars), scalars[1]}, scalars[2], scalars[3]};
}

Accumulator begin(const Sums& micro) {
  ir::Function& f = micro.loss.function();
  Values sums = terms(micro);
  Value finite = all_finite(f, sums);
  for (Value& v : sums) v = ops::select(finite, v, ops::full_like(v, 0));
  Value added = ops::convert(finite, kCount);
  return assemble(std::move(sums), added, 1.0 - added);
}

Accumulator accumulate(const Accumulator& accumulator, const Sums& micro) {
  const Values& old = accumulator.sums.gradients;
  bool same = old.size() == micro.gradients.size();
  for (size_t i = 0; same && i < old.size(); ++i) same = old[i].dims() == micro.gradients[i].dims();
  require(same, {.id = "optim.accumulate",
                 .where = "accumulate",
                 .expected = fmt::format("{} gradients of the accumulator's dims", old.size()),
                 .got = fmt::format("{}, or others", micro.gradients.size())});
  Values before = terms(accumulator.sums);
  Values sums = terms(micro);
  Value finite = all_finite(micro.loss.function(), sums);
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] = ops::select(finite, before[i] + sums[i], before[i]);
  }
  Value one = ops::convert(finite, kCount);
  return assemble(std::move(sums), accumulator.added + one, accumulator.skipped + (1.0 - one));
}

}  // namespace strata::optim
