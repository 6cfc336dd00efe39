// Forty steps on given gradients against the formulas of docs/optimizer.md, evaluated in double
// with state stored in float32.
#include <cmath>
#include <numbers>

#include "strata/optim/adamw.h"
#include "strata/optim/ema.h"
#include "strata/optim/lion.h"
#include "strata/optim/sgd.h"
#include "strata/optim/step_for_test.h"
#include "strata/testing/random.h"

namespace strata::optim {
namespace {

constexpr int kSteps = 40;
constexpr double kTolerance = 1e-6;

// One parameter and its slots, element by element, in double but rounded to what is stored.
struct Reference {
  std::vector<double> p, m, v;
  double multiplier, decay;
};

double stored(double x, DType dtype = DType::f32) {
  float f = static_cast<float>(x);
  return dtype == DType::f32 ? f : bf16_to_f32(f32_to_bf16(f));
}

// The update of one element: what is subtracted, before rate and decay. t counts from 1.
using Rule = std::function<double(double g, double& m, double& v, double t)>;

Rule adamw_rule(const AdamWConfig& c) {
  return [c](double g, double& m, double& v, double t) {
    m = stored(c.b1 * m + (1 - c.b1) * g, c.m_dtype);
    v = stored(c.b2 * v + (1 - c.b2) * g * g);
    double c1 = 1 - std::pow(c.b1, t), next = 1 - std::pow(c.b1, t + 1);
    double look = c.nesterov ? c.b1 * m / next + (1 - c.b1) * g / c1 : m / c1;
    return look / (std::sqrt(v / (1 - std::pow(c.b2, t)) + c.eps_root) + c.eps);
  };
}

Rule sgd_rule(const SgdConfig& c) {
  return [c](double g, double& m, double&, double) {
    m = stored(g + c.momentum * m);
    return c.nesterov ? g + c.momentum * m : m;
  };
}

Rule lion_rule(const LionConfig& c) {
  return [c](double g, double& m, double&, double) {
    double x = (1 - c.b1) * g + c.b1 * m;
    m = stored((1 - c.b2) * g + c.b2 * m);
    return double((x > 0) - (x < 0));
  };
}

// What the steps share: a stacked norm (exempt), a matrix, a bias, a scalar and an adapter with
// five times the rate; a rate that warms up from 0 and falls; a clip that bites in some steps.
class Trajectory : public ::testing::Test {
 protected:
  Trajectory() : random_(testing::test_seed()) {
    sharding::ParamType norm = f32_type({3, 4});
    norm.dims[0].role = sharding::Role::layer;
    manifest_ = manifest_of({{"embed.weight", f32_type({11, 5})},
                             {"layers[0:3:1].norm.weight", norm},
                             {"head.bias", f32_type({6})},
                             {"scale", f32_type({})},
                             {"head.lora_a.weight", f32_type({2, 7})}});
    config_ = default_groups();
    config_.groups.push_back({.name = "adapter", .lr_multiplier = 5, .weight_decay = 0.03});
    config_.rules.insert(config_.rules.begin(), {.group = "adapter", .glob = "*.lora_?.*"});
    config_.first_match_wins = true;
  }

  UpdatePlan plan(std::shared_ptr<const Optimizer> optimizer, double peak) const {
    Schedule schedule(
        {.kind = "warmup_cosine", .peak = peak, .end = peak / 10, .warmup = 5, .total = kSteps});
    return UpdatePlan(std::move(optimizer), Groups(manifest_, config_), schedule, kClip);
  }

  Tensors draw(const UpdatePlan& plan, double size) {
    Tensors all;
    for (const Parameter& p : plan.parameters()) {
      // One number alone must not come near zero, where it has no relative error to speak of.
      double low = p.type.rank() == 0 ? size / 5 : -size;
      all.push_back(random_.tensor(DType::f32, p.type.sizes(), low, size));
    }
    return all;
  }

  std::vector<Reference> start(const UpdatePlan& plan, const Tensors& parameters) const {
    std::vector<Reference> all;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const GroupConfig& group = plan.groups().groups()[plan.parameters()[i].group];
      size_t n = static_cast<size_t>(parameters[i].size());
      Reference r = {.m = std::vector<double>(n, 0),
                     .v = std::vector<double>(n, 0),
                     .multiplier = group.lr_multiplier,
                     .decay = group.weight_decay.value_or(kDecay)};
      for (size_t j = 0; j < n; ++j) r.p.push_back(parameters[i].at(static_cast<int64_t>(j)));
      all.push_back(std::move(r));
    }
    return all;
  }

  // Advances the references by one step on summed gradients; returns the norm.
  static double advance(std::vector<Reference>& all, const Tensors& sums, double weight,
                        double rate, int64_t count, const Rule& rule) {
    double squares = 0;
    for (const HostTensor& g : sums) {
      for (int64_t j = 0; j < g.size(); ++j) squares += std::pow(g.at(j) / weight, 2);
    }
    double norm = std::sqrt(squares), scale = norm <= kClip ? 1 : kClip / norm;
    for (size_t i = 0; i < all.size(); ++i) {
      Reference& r = all[i];
      for (size_t j = 0; j < r.p.size(); ++j) {
        double g = sums[i].at(static_cast<int64_t>(j)) / weight * scale;
        double u = rule(g, r.m[j], r.v[j], static_cast<double>(count) + 1);
        r.p[j] = stored(r.p[j] - rate * r.multiplier * (u + r.decay * r.p[j]));
      }
    }
    return norm;
  }

  void follow(std::shared_ptr<const Optimizer> optimizer, const Rule& rule, double peak = 0.02,
              double parameter_tolerance = kTolerance) {
    UpdatePlan p = plan(std::move(optimizer), peak);
    Schedule schedule(
        {.kind = "warmup_cosine", .peak = peak, .end = peak / 10, .warmup = 5, .total = kSteps});
    Stepper stepper(newer_plugin(), p, draw(p, 1.5));
    std::vector<Reference> want = start(p, stepper.parameters);
    int clipped = 0;
    for (int count = 0; count < kSteps; ++count) {
      SCOPED_TRACE(::testing::Message() << "step " << count << ", seed " << testing::test_seed());
      double weight = 1 + count % 7;
      Tensors sums = draw(p, weight * std::pow(10.0, count % 4 - 2));
      Stepper::Report report = stepper.step(sums, count, static_cast<float>(weight));
      double norm = advance(want, sums, weight, schedule.at(count), count, rule);
      EXPECT_TRUE(report.applied);
      EXPECT_NEAR(report.norms.at(0), norm, kTolerance * norm);
      clipped += norm > kClip ? 1 : 0;
      compare(stepper, want, parameter_tolerance);
      if (HasFailure()) return;
    }
    EXPECT_GT(clipped, 5);
    EXPECT_LT(clipped, kSteps - 5);
  }

  static void compare(const Stepper& got, const std::vector<Reference>& want,
                      double parameter_tolerance) {
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_LT(relative_l2(got.parameters[i], want[i].p), parameter_tolerance)
          << got.plan().parameters()[i].name;
    }
    for (size_t i = 0; i < got.slots.size(); ++i) {
      const SlotSpec& spec = got.plan().slots()[i];
      const Reference& r = want[static_cast<size_t>(spec.parameter)];
      bool second = spec.name.find("adam.v/") == 0;
      EXPECT_LT(relative_l2(got.slots[i], second ? r.v : r.m), kTolerance) << spec.name;
    }
  }

  static constexpr double kClip = 2.5;
  static constexpr double kDecay = 0.1;
  testing::Random random_;
  sharding::Manifest manifest_;
  GroupsConfig config_;
};

TEST_F(Trajectory, AdamW) {
  AdamWConfig c = {.weight_decay = kDecay};
  follow(make_adamw(c), adamw_rule(c));
}

TEST_F(Trajectory, AdamWWithOtherNumbers) {
  AdamWConfig c = {.b1 = 0, .b2 = 0.95, .eps = 1e-3, .eps_root = 1e-4, .weight_decay = kDecay};
  follow(make_adamw(c), adamw_rule(c));
}

TEST_F(Trajectory, NAdamW) {
  AdamWConfig c = {.weight_decay = kDecay, .nesterov = true};
  follow(make_adamw(c), adamw_rule(c));
}

TEST_F(Trajectory, AdamWStoringMInBf16) {
  AdamWConfig c = {.weight_decay = kDecay, .m_dtype = DType::bf16};
  // The compiler may let the step read m before it is rounded for storage (8 bits).
  follow(make_adamw(c), adamw_rule(c), 0.02, 1e-3);
}

TEST_F(Trajectory, SgdPlain) {
  SgdConfig c = {.weight_decay = kDecay};
  follow(make_sgd(c), sgd_rule(c));
}

TEST_F(Trajectory, SgdWithMomentum) {
  SgdConfig c = {.momentum = 0.9, .weight_decay = kDecay};
  follow(make_sgd(c), sgd_rule(c));
}

TEST_F(Trajectory, SgdWithNesterovMomentum) {
  SgdConfig c = {.momentum = 0.8, .nesterov = true, .weight_decay = kDecay};
  follow(make_sgd(c), sgd_rule(c));
}

TEST_F(Trajectory, Lion) {
  LionConfig c = {.weight_decay = kDecay};
  follow(make_lion(c), lion_rule(c), 2e-3);
}

TEST_F(Trajectory, WeightAverage) {
  const double decay = 0.97;
  auto f = testing::trace({{DType::f32, {9}}, {DType::f32, {9}}, {}, {}, {DType::pred, {}}},
                          [](ir::Function&, const ir::Values& in) {
                            return ema({in[0]}, {in[1]}, {in[2], in[3]}, in[4]);
                          });
  pjrt::Executable program = newer_plugin().compile(*f);
  HostTensor average = random_.tensor(DType::f32, {9});
  std::vector<double> want;
  for (int64_t j = 0; j < 9; ++j) want.push_back(average.at(j));
  for (int count = 0; count < kSteps; ++count) {
    bool applied = count % 5 != 3;
    Tensors in;
    in.push_back(average.clone());
    in.push_back(random_.tensor(DType::f32, {9}));
    for (const NamedScalar& s : ema_scalars(decay))
      in.push_back(HostTensor::scalar(float(s.value)));
    in.push_back(HostTensor::scalar(applied));
    HostTensor next = std::move(newer_plugin().run(program, in)[0]);
    EXPECT_EQ(same_bits(next, average), !applied);
    for (size_t j = 0; applied && j < 9; ++j) {
      want[j] = stored(decay * want[j] + (1 - decay) * in[1].at(static_cast<int64_t>(j)));
    }
    EXPECT_LT(relative_l2(next, want), kTolerance) << "step " << count;
    average = std::move(next);
  }
}

}  // namespace
}  // namespace strata::optim
