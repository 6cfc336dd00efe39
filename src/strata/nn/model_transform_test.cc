// Model transforms: what they declare, that they compute what their formulas say however the layers
// run, and what their fields start from.
#include "strata/nn/model_transform.h"

#include <gtest/gtest.h>

#include <set>

#include "strata/base/strings.h"
#include "strata/nn/fake_quant.h"
#include "strata/nn/initial_values.h"
#include "strata/nn/lora.h"
#include "strata/nn/stack_for_test.h"

namespace strata::nn {
namespace {

using ir::Value;
using ir::Values;
using sharding::Kind;

ScanOptions options(ScanMode mode, int64_t axis = 0, const std::string& remat = "none") {
  return {mode, axis, ops::parse_remat(remat)};
}

Lora lora(std::vector<std::string> targets = {"*.linear"}, bool rslora = false) {
  return Lora({.rank = 2, .alpha = 6, .rslora = rslora, .targets = std::move(targets)});
}

FakeQuant quant(QuantFormat format, bool per_channel,
                std::vector<std::string> targets = {"*.linear"}) {
  return FakeQuant({format, per_channel, std::move(targets)});
}

// A toy model of 4 layers with these transforms, in order.
std::unique_ptr<ToyModel> toy(const std::vector<const ModelTransform*>& transforms,
                              int64_t layers = 4) {
  auto model = std::make_unique<ToyModel>(layers);
  for (const ModelTransform* t : transforms) t->apply(*model, {});
  return model;
}

std::vector<std::string> slot_texts(const Structure& structure) {
  std::vector<std::string> out;
  for (const sharding::Slot& s : structure.manifest().slots()) {
    out.push_back(std::string(name_of(s.kind)) + " " + s.name + " " + text_of(s.type));
  }
  return out;
}

TEST(ModelTransform, DeclaresTypedFieldsNamedAsPeftNamesThem) {
  Lora l = lora();
  FakeQuant q = quant(QuantFormat::int8, true);
  auto model = toy({&l, &q}, 2);
  Structure unrolled(*model, options(ScanMode::off));
  EXPECT_EQ(slot_texts(unrolled)[0], "param layers.0.linear.weight f32[3, 3]");
  EXPECT_EQ(slot_texts(unrolled)[1], "buffer layers.0.linear.weight_scale f32[3]");
  EXPECT_EQ(slot_texts(unrolled)[2], "adapter layers.0.linear.lora_A.weight f32[2, 3]");
  EXPECT_EQ(slot_texts(unrolled)[3], "adapter layers.0.linear.lora_B.weight f32[3, 2]");
  Structure scanned(*model, options(ScanMode::automatic, 1));
  EXPECT_EQ(slot_texts(scanned)[2],
            "adapter layers[0:2:1].linear.lora_A.weight f32[2, layers(layer):2, 3]");
  EXPECT_EQ(scanned.manifest().elements(Kind::adapter), 2 * (6 + 6));
  EXPECT_EQ(scanned.manifest().elements(Kind::buffer), 2 * 3);
}

TEST(ModelTransform, DimsKeepTheirLogicalNamesAndTheRankHasNone) {
  Linear linear(nullptr, "", {5, 7, "embed", "mlp"}, true);
  lora({"*"}).apply(linear, {});
  Structure structure(linear, {});
  EXPECT_EQ(slot_texts(structure)[2], "adapter lora_A.weight f32[2, embed:5]");
  EXPECT_EQ(slot_texts(structure)[3], "adapter lora_B.weight f32[mlp:7, 2]");
}

TEST(ModelTransform, LayersWithAndWithoutDoNotMerge) {
  Lora l = lora({"layers.1.*"});
  auto model = toy({&l}, 3);
  Structure structure(*model, {});
  EXPECT_TRUE(std::none_of(structure.manifest().plans()[0].runs.begin(),
                           structure.manifest().plans()[0].runs.end(),
                           [](const sharding::LayerRun& r) { return r.scanned; }));
  ASSERT_FALSE(structure.reasons().empty());
  EXPECT_NE(structure.reasons()[0].find("Lora(rank=2, scale=3)"), std::string::npos)
      << structure.reasons()[0];
}

TEST(ModelTransform, AScaleOfItsOwnIsADifferenceToo) {
  ToyModel model(2);
  Lora({.rank = 2, .alpha = 2, .targets = {"layers.0.*"}}).apply(model, {});
  Lora({.rank = 2, .alpha = 4, .targets = {"layers.1.*"}}).apply(model, {});
  Structure structure(model, {});
  ASSERT_EQ(structure.reasons().size(), 1u);
  EXPECT_NE(structure.reasons()[0].find("scale=1"), std::string::npos) << structure.reasons()[0];
}

TEST(ModelTransform, FindsTheNearestPath) {
  ToyModel model(2);
  EXPECT_EQ(find_linears(model, {"*.linear"}, {}).size(), 2u);
  EXPECT_EQ(find_linears(model, {"layers.1.linear", "*"}, {}).size(), 2u);
  EXPECT_EQ(find_linears(model, {"layers.?.linear"}, {})[1]->path(), "layers.1.linear");
}

TEST(ModelTransform, ReadsBackWhatItWrites) {
  Lora l = lora({"a", "*.b"}, true);
  auto again = transform_from_json(l.to_json(), "x");
  EXPECT_EQ(dynamic_cast<Lora&>(*again).config(), l.config());
  FakeQuant q = quant(QuantFormat::fp8_e4m3, false);
  again = transform_from_json(q.to_json(), "x");
  EXPECT_EQ(dynamic_cast<FakeQuant&>(*again).config(), q.config());
}

TEST(Lora, ScaleOfPlainAndRankStabilised) {
  EXPECT_DOUBLE_EQ(lora().scale(), 3);
  EXPECT_DOUBLE_EQ(lora({"*"}, true).scale(), 6 / std::sqrt(2.0));
}

TEST(Lora, ListsItsUpdates) {
  Lora l = lora({"layers.1.linear"});
  auto model = toy({&l});
  std::vector<LowRankUpdate> updates = low_rank_updates(*model);
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_EQ(updates[0].weight, "layers.1.linear.weight");
  EXPECT_EQ(updates[0].a, "layers.1.linear.lora_A.weight");
  EXPECT_EQ(updates[0].b, "layers.1.linear.lora_B.weight");
  EXPECT_EQ(updates[0].scale, 3);
}

// ---- One linear map -----------------------------------------------------------------------------

// y = linear(x), its kernel, and x · kernelᵀ, from random values of the fields.
struct MapValues {
  Tensors fields;
  HostTensor x, y, kernel, by_kernel, gradient;
};

MapValues values_of_map(const std::vector<const ModelTransform*>& transforms) {
  Linear linear(nullptr, "", {5, 7}, false);
  for (const ModelTransform* t : transforms) t->apply(linear, {});
  Structure structure(linear, {});
  MapValues out;
  out.fields = parameters_of(structure);
  Tensors inputs;
  for (const HostTensor& t : out.fields) inputs.push_back(t.clone());
  inputs.push_back(testing::Random(3).tensor(DType::f32, {4, 5}, -1, 1));
  out.x = inputs.back().clone();
  auto f = testing::trace(testing::types_of(inputs), [&](ir::Function& g, const Values& v) {
    Context context(g, structure, Values(v.begin(), v.end() - 1));
    Value kernel = linear.kernel(context), y = linear(context, v.back());
    Value loss = ops::reduce_sum(y, {0, 1});
    return Values{y, kernel, project(v.back(), kernel), transform::gradient(loss, {v[0]})[0]};
  });
  Tensors got = testing::Executor().run(*f, inputs);
  out.y = got[0].clone();
  out.kernel = got[1].clone();
  out.by_kernel = got[2].clone();
  out.gradient = got[3].clone();
  return out;
}

void expect_near(const HostTensor& a, const HostTensor& b, double tolerance) {
  ASSERT_EQ(a.dims(), b.dims());
  for (int64_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a.at(i), b.at(i), tolerance) << i;
}

TEST(Lora, AddsTheLowRankProduct) {
  Lora l = lora({"*"});
  MapValues m = values_of_map({&l});
  const HostTensor &w = m.fields[0], &a = m.fields[1], &b = m.fields[2];
  for (int64_t o = 0; o < 7; ++o) {
    for (int64_t i = 0; i < 5; ++i) {
      double sum = w.at(o * 5 + i);
      for (int64_t r = 0; r < 2; ++r) sum += 3 * b.at(o * 2 + r) * a.at(r * 5 + i);
      EXPECT_NEAR(m.kernel.at(o * 5 + i), sum, 1e-5);
    }
  }
  expect_near(m.y, m.by_kernel, 1e-5);
}

TEST(FakeQuant, RoundsToTheGridAndPassesTheGradientThrough) {
  for (QuantFormat format : {QuantFormat::int8, QuantFormat::fp8_e4m3}) {
    for (bool per_channel : {false, true}) {
      FakeQuant q = quant(format, per_channel, {"*"});
      MapValues m = values_of_map({&q});
      std::set<double> grid;
      for (int i = 0; i < 256; ++i) {
        double v = format == QuantFormat::int8 ? i - 128 : f8e4m3fn_to_f32(static_cast<uint8_t>(i));
        if (std::abs(v) < 500 && v != -128) grid.insert(v);
      }
      for (int64_t o = 0; o < 7; ++o) {
        double scale = m.fields[1].at(per_channel ? o : 0);
        for (int64_t i = 0; i < 5; ++i) {
          double want = m.fields[0].at(o * 5 + i) / scale;
          double best = *std::min_element(grid.begin(), grid.end(), [&](double a, double b) {
            return std::abs(a - want) < std::abs(b - want);
          });
          EXPECT_NEAR(m.kernel.at(o * 5 + i) / scale, best, 1e-5 * std::abs(best) + 1e-6);
        }
      }
      EXPECT_EQ(values_of(m.y), values_of(m.by_kernel));
      // As without rounding: Σ over the rows of x.
      for (int64_t i = 0; i < 5; ++i) {
        double sum = 0;
        for (int64_t r = 0; r < 4; ++r) sum += m.x.at(r * 5 + i);
        for (int64_t o = 0; o < 7; ++o) EXPECT_NEAR(m.gradient.at(o * 5 + i), sum, 1e-5);
      }
    }
  }
}

TEST(FakeQuant, IsUnderTheAdapterInEitherOrder) {
  Lora l = lora({"*"});
  FakeQuant q = quant(QuantFormat::int8, true, {"*"});
  MapValues m = values_of_map({&l, &q}), other = values_of_map({&q, &l});
  expect_near(m.y, m.by_kernel, 1e-5);
  EXPECT_EQ(values_of(m.y), values_of(other.y));
}

// ---- Stacks -------------------------------------------------------------------------------------

TEST(ModelTransform, ScannedEqualsUnrolledWhateverTheRematPolicy) {
  Lora l = lora(), other = Lora({.rank = 1, .alpha = 1, .targets = {"layers.1.*", "layers.3.*"}});
  FakeQuant q8 = quant(QuantFormat::int8, true), qf = quant(QuantFormat::fp8_e4m3, false);
  const std::vector<std::vector<const ModelTransform*>> all = {
      {&l}, {&q8}, {&qf}, {&l, &q8}, {&other}};
  for (const auto& transforms : all) {
    auto plain = toy(transforms);
    Results want = probe(*plain, plain->stack, options(ScanMode::off));
    for (const char* remat : {"none", "dots", "full"}) {
      for (int64_t axis : {0, 1, -1}) {
        auto model = toy(transforms);
        Structure structure(*model, options(ScanMode::automatic));
        ASSERT_TRUE(structure.manifest().plans()[0].runs[0].scanned);
        expect_same(probe(*model, model->stack, options(ScanMode::automatic, axis, remat)), want,
                    1e-5);
      }
    }
    ProbeOptions each;
    each.each = true;
    auto model = toy(transforms);
    Results got = probe(*model, model->stack, options(ScanMode::automatic), each);
    expect_same({{"carry", got.at("carry")}}, {{"carry", want.at("carry")}}, 1e-5);
  }
}

TEST(ModelTransform, ComputesInTheTypeOfTheCarry) {
  Lora l = lora();
  ProbeOptions bf16;
  bf16.compute = DType::bf16;
  auto model = toy({&l});
  Results want = probe(*model, model->stack, options(ScanMode::off), bf16);
  expect_same(probe(*model, model->stack, options(ScanMode::automatic), bf16), want, 2e-2);
}

// ---- Initial values -----------------------------------------------------------------------------

// By unstacked names, in the order of names.
std::map<std::string, std::vector<double>> initial(const Module& model, const ScanOptions& scan,
                                                   uint32_t seed = 1) {
  Structure structure(model, scan);
  InitialValues values = initial_values(model, structure);
  Tensors inputs, all = parameters_of(structure);
  for (size_t i = 0; i < all.size(); ++i) {
    if (structure.manifest().slots()[i].kind == Kind::param) inputs.push_back(all[i].clone());
  }
  inputs.push_back(HostTensor::of<uint32_t>({2}, std::vector<uint32_t>{0, seed}));
  Tensors got = testing::Executor().run(*values.function, inputs);
  std::map<std::string, std::vector<double>> out;
  for (size_t n = 0; n < values.slots.size(); ++n) {
    size_t i = values.slots[n];
    for (size_t k = 0; k < structure.members(i).size(); ++k) {
      const Param* p = structure.members(i)[k];
      HostTensor one(DType::f32, p->type().sizes());
      copy_member(structure.manifest().slots()[i].type, static_cast<int64_t>(k), got[n], one, true);
      out[p->path()] = values_of(one);
    }
  }
  return out;
}

TEST(InitialValues, AreTheSameHoweverTheLayersRun) {
  Lora l = lora(), odd({.rank = 1, .alpha = 1, .targets = {"layers.1.*", "layers.3.*"}});
  FakeQuant q8 = quant(QuantFormat::int8, true), qf = quant(QuantFormat::fp8_e4m3, false);
  const std::vector<std::vector<const ModelTransform*>> all = {{&l, &q8}, {&odd}, {&qf}};
  for (const auto& transforms : all) {
    auto model = toy(transforms);
    auto want = initial(*model, options(ScanMode::off));
    EXPECT_FALSE(want.empty());
    for (int64_t axis : {0, 1, -1}) {
      EXPECT_EQ(initial(*model, options(ScanMode::automatic, axis)), want);
      EXPECT_EQ(initial(*model, options(ScanMode::force, axis)), want);
    }
  }
}

TEST(InitialValues, OfAdapters) {
  Lora l = lora();
  auto model = toy({&l});
  auto one = initial(*model, {}), two = initial(*model, {}, 2);
  ASSERT_EQ(one.size(), 8u);
  std::set<double> drawn;
  for (const auto& [name, values] : one) {
    bool is_b = name.find("lora_B") != std::string::npos;
    for (double v : values) {
      if (is_b) {
        EXPECT_EQ(v, 0);
        continue;
      }
      EXPECT_LE(std::abs(v), 1 / std::sqrt(3.0));
      EXPECT_TRUE(drawn.insert(v).second) << "drawn twice, in " << name;
    }
    EXPECT_EQ(values == two.at(name), is_b) << name;
  }
  EXPECT_LT(*drawn.begin(), -0.3);
  EXPECT_GT(*drawn.rbegin(), 0.3);
}

TEST(InitialValues, OfScales) {
  FakeQuant q8 = quant(QuantFormat::int8, true), qf = quant(QuantFormat::fp8_e4m3, false);
  auto a = toy({&q8}), b = toy({&qf});
  auto channels = initial(*a, {}), whole = initial(*b, {});
  Structure structure(*a, options(ScanMode::off));
  Tensors weights = parameters_of(structure);  // weight and scale of each layer
  for (int64_t layer = 0; layer < 4; ++layer) {
    std::string name = "layers." + std::to_string(layer) + ".linear.weight_scale";
    const HostTensor& w = weights[static_cast<size_t>(2 * layer)];
    double most = 0;
    for (int64_t o = 0; o < 3; ++o) {
      double row = 0;
      for (int64_t i = 0; i < 3; ++i) row = std::max(row, std::abs(w.at(3 * o + i)));
      EXPECT_FLOAT_EQ(static_cast<float>(channels.at(name)[static_cast<size_t>(o)]),
                      static_cast<float>(row / 127));
      most = std::max(most, row);
    }
    EXPECT_FLOAT_EQ(static_cast<float>(whole.at(name)[0]), static_cast<float>(most / 448));
  }
}

TEST(InitialValues, OfAKernelOfZeros) {
  Linear linear(nullptr, "", {2, 2}, false);
  quant(QuantFormat::int8, true, {"*"}).apply(linear, {});
  Structure structure(linear, {});
  InitialValues values = initial_values(linear, structure);
  Tensors inputs;
  inputs.emplace_back(DType::f32, Dims{2, 2});
  inputs.push_back(HostTensor::of<uint32_t>({2}, std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(values_of(testing::Executor().run(*values.function, inputs)[0]),
            (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace strata::nn
