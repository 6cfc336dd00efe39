#include "strata/rl/optimizer_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "strata/base/error.h"

namespace strata::rl {
namespace {

OptimizerConfig read(const std::string& lines) {
  Config config = Config::from_text("[optimizer]\n" + lines, "run.toml");
  OptimizerConfig out = read_optimizer(config);
  config.reject_unknown();
  return out;
}

void expect_error(const std::string& lines, const std::string& id, const std::string& part) {
  try {
    read(lines);
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), id) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    return;
  }
  ADD_FAILURE() << "no error for " << lines;
}

sharding::Manifest model() {
  sharding::ParamType embed = sharding::plain_type(DType::f32, {9, 4});
  embed.dims[0].name = "vocab";
  sharding::ParamType matrix = sharding::plain_type(DType::f32, {4, 4});
  sharding::ParamType norm = sharding::plain_type(DType::f32, {4});
  using sharding::Kind;
  return sharding::Manifest(
      {{"embed", Kind::param, embed}, {"up", Kind::param, matrix}, {"norm", Kind::param, norm}}, {},
      {});
}

std::vector<std::string> slot_names(const OptimizerConfig& config) {
  const optim::UpdatePlan plan = make_plan(config, model());
  std::vector<std::string> names;
  for (const optim::SlotSpec& slot : plan.slots()) names.push_back(slot.name);
  return names;
}

double scalar(const OptimizerConfig& config, const std::string& name) {
  for (const optim::NamedScalar& s : make_plan(config, model()).scalars(0)) {
    if (s.name == name) return s.value;
  }
  ADD_FAILURE() << "no scalar " << name;
  return 0;
}

using Names = std::vector<std::string>;

TEST(OptimizerConfig, EveryOptimiserHasItsDefaults) {
  OptimizerConfig adamw = read("lr = 1e-3");
  EXPECT_EQ(adamw.optimizer->name(), "adamw");
  EXPECT_EQ(adamw.optimizer->weight_decay(), 1e-4);
  EXPECT_EQ(adamw.clip_norm, 1.0);
  EXPECT_EQ(adamw.max_skipped, 8);
  EXPECT_EQ(read("lr = 1\nmax_skipped = 0").max_skipped, 0);
  EXPECT_FALSE(adamw.zero_slots);
  EXPECT_EQ(read("name = \"lion\"\nlr = 1").optimizer->weight_decay(), 1e-3);
  EXPECT_EQ(read("name = \"sgd\"\nlr = 1").optimizer->weight_decay(), 0);
  EXPECT_EQ(slot_names(read("name = \"sgd\"\nlr = 1")), Names{});
  EXPECT_FALSE(make_plan(read("lr = 1\nema_decay = 0"), model()).keeps_average());
  EXPECT_EQ(slot_names(read("name = \"sgd\"\nlr = 1\nema_decay = 0.9")),
            (Names{"ema/embed", "ema/up", "ema/norm"}));
  EXPECT_EQ(scalar(read("lr = 1\nema_decay = 0.9"), "ema_decay"), 0.9);
  expect_error("lr = 1\nema_decay = 1.5", "config.range", "optimizer.ema_decay");
  EXPECT_EQ(slot_names(read("name = \"adafactor\"\nlr = 1")),
            (Names{"adafactor.v/embed", "adafactor.v/up", "adafactor.v/norm"}));
  EXPECT_EQ(slot_names(read("name = \"muon\"\nlr = 1")),
            (Names{"adam.m/embed", "adam.v/embed", "muon.m/up", "adam.m/norm", "adam.v/norm"}));
}

TEST(OptimizerConfig, OptionsReachTheOptimiser) {
  OptimizerConfig a = read(
      "name = \"adafactor\"\nlr = 0.5\nmomentum = 0.75\nmin_factored = 4\nclip_rms = 2.0\n"
      "decay_power = 1.0\neps = 1e-20\nparameter_scale = false\nweight_decay = 0.25\n"
      "m_dtype = \"bf16\"\nzero = \"slots\"");
  EXPECT_EQ(slot_names(a), (Names{"adafactor.v_row/embed", "adafactor.v_col/embed",
                                  "adafactor.m/embed", "adafactor.v_row/up", "adafactor.v_col/up",
                                  "adafactor.m/up", "adafactor.v/norm", "adafactor.m/norm"}));
  EXPECT_EQ(make_plan(a, model()).slots()[2].type.dtype, DType::bf16);
  EXPECT_EQ(scalar(a, "clip_rms"), 2);
  EXPECT_EQ(scalar(a, "momentum"), 0.75);
  EXPECT_EQ(scalar(a, "eps"), 1e-20);
  EXPECT_EQ(scalar(a, "weight_decay/decay"), 0.25);
  EXPECT_TRUE(a.zero_slots);
  OptimizerConfig m = read(
      "name = \"muon\"\nlr = 0.02\nadam_lr = 0.005\nbeta = 0.5\nsteps = 3\nb1 = 0.8\nb2 = 0.99\n"
      "eps = 1e-6\ncompat = \"optax\"\nweight_decay = 0.1\nm_dtype = \"bf16\"");
  EXPECT_EQ(scalar(m, "beta"), 0.5);
  EXPECT_EQ(scalar(m, "b1"), 0.8);
  EXPECT_EQ(scalar(m, "eps"), 1e-6);
  EXPECT_EQ(scalar(m, "lr/muon"), 0.02);
  EXPECT_DOUBLE_EQ(scalar(m, "lr/adamw"), 0.005);
  EXPECT_DOUBLE_EQ(scalar(m, "lr/no_decay"), 0.005);
  EXPECT_EQ(scalar(m, "weight_decay/muon"), 0.1);
  EXPECT_EQ(scalar(m, "weight_decay/no_decay"), 0);
  EXPECT_NO_THROW(scalar(m, "c1_next"));  // Nesterov's variant, as in optax
  OptimizerConfig w = read("lr = 1\neps = 1e-5\neps_root = 1e-6\nnesterov = true");
  EXPECT_EQ(scalar(w, "eps"), 1e-5);
  EXPECT_EQ(scalar(w, "eps_root"), 1e-6);
  EXPECT_NO_THROW(scalar(w, "c1_next"));
}

TEST(OptimizerConfig, ZeroSplitsSlotsAndSaysWhatStaysWhole) {
  const sharding::Mesh mesh = sharding::Mesh::parse("data=3");
  OptimizerConfig config = read("lr = 1\nzero = \"slots\"");
  ::testing::internal::CaptureStderr();
  optim::UpdatePlan plan = make_plan(config, model(), mesh);
  std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(sharding::text_of(plan.slots()[0].type), "f32[vocab:9@data, 4]");
  EXPECT_EQ(sharding::text_of(plan.accumulator()[0].type), "f32[vocab:9@data, 4]");
  EXPECT_NE(log.find("group decay: 2 parameters, 52 elements"), std::string::npos) << log;
  EXPECT_NE(log.find("ZeRO: adam.m/up, f32[4, 4]: no dim is divisible by data (3)"),
            std::string::npos)
      << log;
  config.zero_slots = false;
  plan = make_plan(config, model(), mesh);
  EXPECT_EQ(sharding::text_of(plan.slots()[0].type), "f32[vocab:9, 4]");
}

TEST(OptimizerConfig, ClippingMayBeOff) {
  EXPECT_TRUE(std::isinf(scalar(read("lr = 1\nclip_norm = 0"), "clip_norm")));
}

TEST(OptimizerConfig, KeysOfOtherOptimisersAreDeclined) {
  expect_error("lr = 1\nmomentum = 0.9", "rl.optimizer_key", "run.toml:3");
  expect_error("lr = 1\nmomentum = 0.9", "rl.optimizer_key", "one of adafactor, sgd");
  expect_error("name = \"sgd\"\nlr = 1\nb1 = 0.9", "rl.optimizer_key", "Declined: sgd");
  expect_error("name = \"adafactor\"\nlr = 1\nadam_lr = 1", "rl.optimizer_key", "one of muon");
}

TEST(OptimizerConfig, UnknownNamesAreRefused) {
  expect_error("name = \"muom\"\nlr = 1", "config.choice", "muon");
  expect_error("lr = 1\nzero = \"slot\"", "config.choice", "slots");
  expect_error("name = \"muon\"\nlr = 1\ncompat = \"torch\"", "config.choice", "optax");
  expect_error("name = \"muon\"\nlr = 1\nbeat = 0.9", "config.unknown_key", "beta");
  expect_error("name = \"muon\"\nlr = 1\nsteps = 0", "config.range", "optimizer.steps");
  expect_error("name = \"adafactor\"\nlr = 1\neps = 0.0", "config.range", "optimizer.eps");
}

TEST(OptimizerConfig, AdamsRateIsARatioToMuons) {
  expect_error("name = \"muon\"\nlr = 0\nadam_lr = 1e-3", "rl.adam_lr", "optimizer.lr = 0");
  EXPECT_EQ(scalar(read("name = \"muon\"\nlr = 0\nadam_lr = 0"), "lr/adamw"), 0);
}

}  // namespace
}  // namespace strata::rl
