// Forty steps of Adafactor and Muon on given gradients against the formulas of docs/optimizer.md,
// one layer's array at a time: stacked at any axis, nested or with experts, the layers do what they
// do alone.
#include <fstream>

#include "strata/base/json.h"
#include "strata/optim/layers_for_test.h"
#include "strata/optim/lion.h"
#include "strata/optim/sgd.h"
#include "strata/optim/step_for_test.h"
#include "strata/testing/random.h"

namespace strata::optim {
namespace {

constexpr int kSteps = 40;
constexpr double kTolerance = 1e-6;

using sharding::Dim;
using sharding::ParamType;
using sharding::Role;

ParamType stacked(const Dims& sizes, int64_t layers, int64_t axis) {
  return sharding::insert_layer_dim(f32_type(sizes), axis,
                                    {.size = layers, .role = Role::layer, .name = "layers"}, "w");
}

// The forms of a parameter: alone, stacked at every axis, nested, by experts.
sharding::Manifest forms() {
  ParamType nested = sharding::insert_layer_dim(
      stacked({5, 6}, 2, 1), 0, {.size = 2, .role = Role::inner_layer, .name = "inner"}, "w");
  ParamType experts = f32_type({3, 5, 7});
  experts.dims[0].name = "experts";
  ParamType stacked_experts =
      sharding::insert_layer_dim(experts, 1, {.size = 2, .role = Role::layer}, "w");
  ParamType head = f32_type({9, 5});
  head.dims[0].name = "vocab";
  return manifest_of({{"wide.weight", f32_type({5, 7})},
                      {"tall.weight", f32_type({8, 6})},
                      {"square.weight", f32_type({6, 6})},
                      {"layers[0:3:1].first.weight", stacked({5, 7}, 3, 0)},
                      {"layers[0:3:1].middle.weight", stacked({8, 6}, 3, 1)},
                      {"layers[0:3:1].last.weight", stacked({5, 7}, 3, -1)},
                      {"nested.weight", nested},
                      {"experts.weight", experts},
                      {"layers[0:2:1].experts.weight", stacked_experts},
                      {"layers[0:3:1].conv.weight", stacked({6, 1, 5}, 3, 1)},
                      {"layers[0:3:1].norm.weight", stacked({6}, 3, -1)},
                      {"layers[0:3:1].scale", stacked({}, 3, 0)},
                      {"head.weight", head},
                      {"bias", f32_type({6})}});
}

class LayerTrajectory : public ::testing::Test {
 protected:
  using Rules = std::function<LayerRule(const Parameter&)>;

  Tensors draw(const UpdatePlan& plan, double size) {
    Tensors all;
    for (const Parameter& p : plan.parameters()) {
      all.push_back(random_.tensor(DType::f32, p.type.sizes(), size / 5, size));
      for (float& x : all.back().data<float>()) x *= random_.below(2) == 0 ? 1 : -1;
    }
    return all;
  }

  static std::vector<Doubles> split(const HostTensor& tensor, const ParamType& type) {
    std::vector<Doubles> all(layer_count(type),
                             Doubles(static_cast<size_t>(element_count(layer_dims(type)))));
    std::vector<Place> places = places_of(type);
    for (size_t j = 0; j < places.size(); ++j) {
      all[places[j].layer][places[j].element] = tensor.at(static_cast<int64_t>(j));
    }
    return all;
  }

  // |got - want| / |want| over all layers.
  static double difference(const HostTensor& tensor, const ParamType& type,
                           const std::function<const Doubles&(size_t)>& want) {
    std::vector<Place> places = places_of(type);
    Doubles flat;
    for (const Place& p : places) flat.push_back(want(p.layer).at(p.element));
    return relative_l2(tensor, flat);
  }

  void follow(const UpdatePlan& plan, double decay, const Rules& rules) {
    Stepper stepper(newer_plugin(), plan, draw(plan, 1.5));
    std::vector<std::vector<Layer>> want;
    for (size_t i = 0; i < plan.parameters().size(); ++i) {
      const ParamType& type = plan.parameters()[i].type;
      want.emplace_back();
      for (Doubles& p : split(stepper.parameters[i], type)) {
        want.back().push_back({layer_dims(type), std::move(p), {}});
      }
    }
    for (int count = 0; count < kSteps && !HasFailure(); ++count) {
      SCOPED_TRACE(::testing::Message() << "step " << count << ", seed " << testing::test_seed());
      Tensors gradients = draw(plan, std::pow(10.0, count % 4 - 2));
      EXPECT_TRUE(stepper.step(gradients, count).applied);
      advance(plan, decay, rules, gradients, count, want);
      compare(stepper, want);
    }
  }

  static void advance(const UpdatePlan& plan, double decay, const Rules& rules,
                      const Tensors& gradients, int count, std::vector<std::vector<Layer>>& want) {
    for (size_t i = 0; i < want.size(); ++i) {
      const Parameter& p = plan.parameters()[i];
      const GroupConfig& group = plan.groups().groups()[p.group];
      std::vector<Doubles> g = split(gradients[i], p.type);
      LayerRule rule = rules(p);
      for (size_t l = 0; l < want[i].size(); ++l) {
        rule(want[i][l], g[l], schedule().at(count) * group.lr_multiplier,
             group.weight_decay.value_or(decay), count + 1);
      }
    }
  }

  static void compare(const Stepper& got, const std::vector<std::vector<Layer>>& want) {
    for (size_t i = 0; i < want.size(); ++i) {
      const Parameter& p = got.plan().parameters()[i];
      auto layer = [&](size_t l) -> const Doubles& { return want[i][l].p; };
      EXPECT_LT(difference(got.parameters[i], p.type, layer), kTolerance) << p.name;
    }
    for (size_t i = 0; i < got.slots.size(); ++i) {
      const SlotSpec& spec = got.plan().slots()[i];
      std::string role = spec.name.substr(0, spec.name.find('/'));
      auto layer = [&](size_t l) -> const Doubles& {
        return want[static_cast<size_t>(spec.parameter)][l].slots.at(role);
      };
      EXPECT_LT(difference(got.slots[i], spec.type, layer), kTolerance) << spec.name;
    }
  }

  static Schedule schedule() {
    return Schedule(
        {.kind = "warmup_cosine", .peak = 0.02, .end = 0.002, .warmup = 5, .total = kSteps});
  }

  void follow_adafactor(const AdafactorConfig& c) {
    UpdatePlan plan(make_adafactor(c), Groups(forms(), default_groups()), schedule());
    follow(plan, c.weight_decay, [&](const Parameter&) { return adafactor_layer(c); });
  }

  void follow_muon(const MuonConfig& c) {
    UpdatePlan plan(make_muon(c), Groups(forms(), muon_groups(0.5)), schedule());
    size_t matrices = 0;
    follow(plan, c.weight_decay, [&](const Parameter& p) -> LayerRule {
      bool matrix = plan.groups().groups()[p.group].name == "muon";
      matrices += matrix ? 1 : 0;
      if (matrix) return muon_layer(c);
      AdamWConfig rest = c.adamw;
      rest.nesterov = rest.nesterov || c.optax_rest;
      if (!c.optax_rest) return adamw_layer(rest);
      return [rule = adamw_layer(rest)](Layer& l, const Doubles& g, double lr, double, double t) {
        rule(l, g, lr, 0, t);
      };
    });
    EXPECT_EQ(matrices, 9u * kSteps);
  }

  testing::Random random_{testing::test_seed()};
};

TEST_F(LayerTrajectory, Adafactor) { follow_adafactor({.min_factored = 5}); }

TEST_F(LayerTrajectory, AdafactorWithMomentumAndDecay) {
  follow_adafactor({.min_factored = 5, .momentum = 0.9, .weight_decay = 1e-3});
}

TEST_F(LayerTrajectory, AdafactorWithOtherNumbers) {
  follow_adafactor({.decay_power = 0.5,
                    .eps = 1e-4,
                    .clip_rms = 0.3,
                    .parameter_scale = false,
                    .min_factored = 7});
}

TEST_F(LayerTrajectory, Muon) { follow_muon({.weight_decay = 0.1}); }

TEST_F(LayerTrajectory, MuonWithOtherNumbers) {
  follow_muon({.beta = 0.8, .eps = 1e-3, .steps = 2, .adamw = {.b2 = 0.9, .nesterov = true}});
}

TEST_F(LayerTrajectory, MuonWithTheRestAsInOptax) {
  follow_muon({.weight_decay = 0.1, .optax_rest = true});
}

// optax's own numbers (tools/make_optax_cases.py); the two layers are stacked here.
class Optax : public ::testing::Test {
 protected:
  Optax() {
    std::ifstream file(STRATA_SOURCE_DIR "/tests/testdata/optim/optax.json");
    data_ = Json::parse(file);
  }

  // The stacked layers first, then the others, in the order of the manifest below.
  Tensors tensors(const Json& tree) const {
    Tensors all;
    for (const char* name : {"wide", "tall", "square", "bias"}) {
      all.push_back(
          tensor(tree.at(name).get<std::vector<float>>(), data_.at("shapes").at(name).get<Dims>()));
    }
    auto layers = tree.at("layers.0").get<std::vector<float>>();
    auto second = tree.at("layers.1").get<std::vector<float>>();
    layers.insert(layers.end(), second.begin(), second.end());
    all.push_back(tensor(layers, {2, 4, 9}));
    return all;
  }

  void compare(const std::string& name, std::shared_ptr<const Optimizer> optimizer) {
    auto manifest = manifest_of({{"wide", f32_type({5, 7})},
                                 {"tall", f32_type({8, 6})},
                                 {"square", f32_type({6, 6})},
                                 {"bias", f32_type({6})},
                                 {"layers[0:2:1].w", stacked({4, 9}, 2, 0)}});
    UpdatePlan plan = simple_plan(manifest, std::move(optimizer), data_.at("rate").get<double>());
    Stepper stepper(newer_plugin(), plan, tensors(data_.at("start")));
    const Json& steps = data_.at("cases").at(name);
    ASSERT_EQ(steps.size(), 4u);
    for (size_t count = 0; count < steps.size(); ++count) {
      stepper.step(tensors(data_.at("gradients").at(count)), static_cast<int64_t>(count));
      Tensors want = tensors(steps.at(count));
      for (size_t i = 0; i < want.size(); ++i) {
        Doubles flat;
        for (int64_t j = 0; j < want[i].size(); ++j) flat.push_back(want[i].at(j));
        EXPECT_LT(relative_l2(stepper.parameters[i], flat), kTolerance)
            << plan.parameters()[i].name << ", step " << count;
      }
    }
  }

  Json data_;
};

// optax forms b^t in float32, which puts a first update 7e-6 off: 1.4e-7 of a parameter here.
TEST_F(Optax, AdamW) { compare("adamw", make_adamw()); }

TEST_F(Optax, NAdamW) {
  compare("nadamw", make_adamw({.b1 = 0.8, .b2 = 0.95, .weight_decay = 0.1, .nesterov = true}));
}

TEST_F(Optax, SgdWithNesterovMomentum) {
  compare("sgd", make_sgd({.momentum = 0.9, .nesterov = true}));
}

TEST_F(Optax, Lion) { compare("lion", make_lion()); }

TEST_F(Optax, Adafactor) { compare("adafactor", make_adafactor({.min_factored = 4})); }

TEST_F(Optax, AdafactorWithMomentumAndDecay) {
  compare("adafactor with momentum and decay",
          make_adafactor({.min_factored = 4, .momentum = 0.9, .weight_decay = 1e-3}));
}

TEST_F(Optax, Muon) { compare("muon", make_muon({.weight_decay = 0.1, .optax_rest = true})); }

}  // namespace
}  // namespace strata::optim
