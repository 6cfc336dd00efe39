// A run on N devices equals the run on one, whatever the mesh, scanned or not, and nothing is
// quietly replicated: what each device holds is what the plan says.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "strata/nn/fake_quant.h"
#include "strata/nn/lora.h"
#include "strata/optim/adafactor.h"
#include "strata/optim/muon.h"
#include "strata/rl/engine_for_test.h"
#include "strata/sample/programs.h"
#include "strata/testing/errors.h"
#include "strata/transform/lower.h"

namespace strata::rl {
namespace {

using MakeOptimizer = std::shared_ptr<const optim::Optimizer> (*)();

std::shared_ptr<const optim::Optimizer> adamw() { return optim::make_adamw(); }
// Factored from eight rows on, so that the tiny matrices are.
std::shared_ptr<const optim::Optimizer> adafactor() {
  return optim::make_adafactor({.min_factored = 8});
}
std::shared_ptr<const optim::Optimizer> muon() { return optim::make_muon(); }

struct Case {
  std::string mesh;
  nn::ScanMode scan = nn::ScanMode::automatic;
  int64_t axis = 0;
  testing::CpuPlugin plugin = testing::CpuPlugin::newer;
  int64_t layers = 0;
  MakeOptimizer optimizer = adamw;
  bool zero = false;
  double rate = 1e-3;
  bool adapters = false;  // of kernels that are rounded, in place of the model's own parameters
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* mesh : {"data=2", "fsdp=2", "tensor=2", "layers=2", "fsdp=2,tensor=2", "data=4",
                           "data=2,fsdp=2,tensor=2", "layers=2,fsdp=2,tensor=2", "fsdp=8"}) {
    all.push_back({mesh});
  }
  all.push_back({"fsdp=2,tensor=2", nn::ScanMode::off});
  all.push_back({"layers=2,fsdp=2", nn::ScanMode::automatic, 1});
  all.push_back({"data=2,tensor=2", nn::ScanMode::automatic, -1});
  all.push_back({"data=2,fsdp=2,tensor=2"});
  all.back().zero = true;
  for (const char* mesh : {"data=2,tensor=2", "layers=2,fsdp=2"}) {
    all.push_back({mesh});
    all.back().plugin = testing::CpuPlugin::older;
  }
  for (const char* mesh : {"data=2,fsdp=2,tensor=2", "fsdp=2,tensor=2,layers=2"}) {
    all.push_back({mesh});
    all.back().adapters = true;
  }
  return all;
}

// Eight rows, so that eight devices can share them; every token is scored. Token ids differ by row.
TokenBatch batch(const BatchShape& s, int64_t salt) {
  TokenBatch b;
  b.shape = s;
  for (HostTensor* t : {&b.ids, &b.positions, &b.segments, &b.parents}) {
    *t = HostTensor(DType::i32, {s.rows, s.tokens});
  }
  for (HostTensor* t : {&b.source, &b.labels, &b.sequence}) {
    *t = HostTensor(DType::i32, {s.scored});
  }
  b.terms = HostTensor(DType::f32, {5, s.scored});
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t t = 0; t < s.tokens; ++t) {
      int64_t at = r * s.tokens + t;
      b.ids.set(at, static_cast<double>((r * 37 + t * 11 + salt * 5) % 157));
      b.positions.set(at, static_cast<double>(t));
      b.segments.set(at, 1);
      b.source.set(at, static_cast<double>(at % (s.rows / s.groups * s.tokens)));
      b.labels.set(at, static_cast<double>((r * 37 + (t + 1) * 11 + salt * 5) % 157));
      b.terms.set(at, 1);
    }
  }
  for (int64_t i = 0; i < s.scored; ++i) b.scored.push_back({.place = i});
  return b;
}

TinyTrainer trainer(const Case& c) {
  TrainOptions options;
  options.loss = LossKind::cross_entropy;
  TinyOptions o;
  o.placement.mesh = sharding::Mesh::parse(c.mesh);
  o.plugin = c.plugin;
  o.layers = c.layers;
  o.optimizer = c.optimizer();
  o.zero = c.zero;
  if (c.adapters) {
    o.transforms = {
        std::make_shared<nn::FakeQuant>(nn::FakeQuantConfig{.targets = {"*_proj"}}),
        std::make_shared<nn::Lora>(nn::LoraConfig{.rank = 4, .alpha = 8, .targets = {"*_proj"}})};
  }
  return TinyTrainer("qwen3", {8, 12, 96}, options, {c.scan, c.axis, ops::parse_remat("dots")},
                     c.rate, o);
}

// The unstacked tensors by name.
std::map<std::string, HostTensor> unstacked(TinyTrainer& t) {
  std::map<std::string, HostTensor> out;
  std::vector<sharding::Slot> slots = t.structure->manifest().slots();
  checkpoint::TreeReader reader(slots, checkpoint::refs_of(*t.engine->parameters()));
  for (const weights::TensorSpec& spec : reader.specs()) {
    HostTensor host(spec.dtype, spec.dims);
    std::byte* at = host.bytes();
    reader.read(spec.name, [&](std::span<const std::byte> piece) {
      at = std::copy(piece.begin(), piece.end(), at);
    });
    out.emplace(spec.name, std::move(host));
  }
  return out;
}

struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, HostTensor> parameters;
  int64_t compiles_after_first = 0;
};

// Where each array of the state lies: dims, devices and the part on each.
std::vector<std::string> layouts(const TinyTrainer& t) {
  std::vector<std::string> out;
  for (const auto& entry : t.engine->parameters()->entries()) {
    out.push_back(entry.first + " " + entry.second->spec()->text());
  }
  for (const runtime::Array& a : t.engine->slots()) out.push_back(a.spec()->text());
  return out;
}

// What the plug-in itself says of an array: the devices of its buffers and their dims are those of
// the spec, which the plan made.
void expect_buffers_as_planned(const runtime::Array& a, const std::string& name) {
  ASSERT_EQ(a.shard_count(), a.spec()->shards.size()) << name;
  for (size_t d = 0; d < a.shard_count(); ++d) {
    EXPECT_EQ(a.buffer(d).dims(), a.spec()->shards[d].box.size) << name;
    EXPECT_EQ(a.buffer(d).device_id(), a.spec()->shards[d].device_id) << name;
  }
}

Outcome train(TinyTrainer& t, int steps) {
  Outcome out;
  int64_t compiles = 0;
  const std::vector<std::string> before = layouts(t);
  for (int s = 0; s < steps; ++s) {
    for (int micro = 0; micro < 2; ++micro) {
      t.engine->accumulate(batch(t.engine->shape(), 2 * s + micro), 96, 1.0);
    }
    UpdateStats stats = t.engine->update();
    EXPECT_EQ(stats.outcome, optim::StepOutcome::applied);
    out.losses.push_back(stats.loss);
    out.norms.push_back(stats.grad_norm);
    EXPECT_EQ(layouts(t), before) << "after step " << s;
    if (s == 0) compiles = t.compiler->counters().compiles;
  }
  out.compiles_after_first = t.compiler->counters().compiles - compiles;
  out.parameters = unstacked(t);
  return out;
}

// The run on one device with what else the case says.
const Outcome& alone(int steps, Case c = {}) {
  static std::map<std::tuple<int, int64_t, MakeOptimizer, bool>, Outcome> known;
  auto key = std::make_tuple(steps, c.layers, c.optimizer, c.adapters);
  auto it = known.find(key);
  if (it != known.end()) return it->second;
  c.mesh.clear();
  c.zero = false;
  c.plugin = testing::CpuPlugin::newer;
  TinyTrainer t = trainer(c);
  return known.emplace(key, train(t, steps)).first->second;
}

double relative_difference(const HostTensor& a, const HostTensor& b) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    difference += (a.at(i) - b.at(i)) * (a.at(i) - b.at(i));
    norm += b.at(i) * b.at(i);
  }
  return std::sqrt(difference / norm);
}

// What the devices hold of parameters, optimiser state and sums is what the plan says, and with a
// mesh that shares parameters out less than everything on each.
void expect_planned_bytes(TinyTrainer& t, const std::string& text) {
  const auto& slots = t.structure->manifest().slots();
  const sharding::Mesh& mesh = t.structure->mesh();
  int64_t held = 0, planned = 0, whole = 0;
  auto count = [&](const runtime::Array& a, const sharding::ParamType& type,
                   const std::string& name) {
    expect_buffers_as_planned(a, name);
    ASSERT_EQ(static_cast<int64_t>(a.shard_count()), mesh.size());
    auto width = static_cast<int64_t>(size_of(type.dtype));
    for (size_t d = 0; d < a.shard_count(); ++d) held += element_count(a.buffer(d).dims()) * width;
    planned += mesh.size() * shard_bytes(type, mesh, name);
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    count(*t.engine->parameters()->entries()[i].second, slots[i].type, slots[i].name);
    whole += mesh.size() * slots[i].type.bytes();
  }
  EXPECT_EQ(held, planned);
  bool pure_data = text.find("data") == 0 && text.find(',') == std::string::npos;
  EXPECT_EQ(held == whole, pure_data);
  const auto& state = t.engine->plan().slots();
  for (size_t i = 0; i < state.size(); ++i) {
    count(t.engine->slots()[i], state[i].type, state[i].name);
  }
  t.engine->accumulate(batch(t.engine->shape(), 0), 96, 1.0);
  const auto& sums = t.engine->plan().accumulator();
  for (size_t i = 0; i < sums.size(); ++i) {
    count(t.engine->accumulator()[i], sums[i].type, sums[i].name);
  }
  EXPECT_EQ(held, planned);
}

class MeshRuns : public ::testing::TestWithParam<Case> {};

TEST_P(MeshRuns, EqualOneDeviceAndHoldWhatThePlanSays) {
  TinyTrainer t = trainer(GetParam());
  Outcome got = train(t, 3);
  const Outcome& want = alone(3, GetParam());
  for (size_t s = 0; s < want.losses.size(); ++s) {
    EXPECT_NEAR(got.losses[s], want.losses[s], 1e-5 * want.losses[s]) << "step " << s;
    EXPECT_NEAR(got.norms[s], want.norms[s], 1e-4 * want.norms[s]) << "step " << s;
  }
  EXPECT_EQ(got.compiles_after_first, 0);
  expect_planned_bytes(t, GetParam().mesh);
  ASSERT_EQ(got.parameters.size(), want.parameters.size());
  for (const auto& [name, tensor] : want.parameters) {
    // Adam divides by the gradient's own size, so where that is rounding its sign is, too.
    EXPECT_LT(relative_difference(got.parameters.at(name), tensor), 2e-3) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, MeshRuns, ::testing::ValuesIn(cases()), [](const auto& row) {
  std::string name = row.param.mesh;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (row.param.scan == nn::ScanMode::off) name += "_unrolled";
  if (row.param.zero) name += "_zero";
  if (row.param.adapters) name += "_adapters";
  if (row.param.plugin == testing::CpuPlugin::older) name += "_older";
  if (row.param.axis != 0) name += row.param.axis == 1 ? "_axis1" : "_last_axis";
  return name;
});

// Stacks of four layers are split over the layers axis; a stack of three is not, with a reason.
class FullSteps : public ::testing::TestWithParam<Case> {};

TEST_P(FullSteps, StayTogetherOnEightDevices) {
  TinyTrainer t = trainer(GetParam());
  const auto& reasons = t.structure->placement().reasons;
  bool whole = std::any_of(reasons.begin(), reasons.end(), [](const std::string& r) {
    return r.find("layers (2) does not divide it") != std::string::npos;
  });
  EXPECT_EQ(whole, GetParam().layers == 3);
  Outcome got = train(t, 20);
  const Outcome& want = alone(20, GetParam());
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_NEAR(got.losses[s], want.losses[s], 1e-5 * want.losses[s]) << "step " << s;
  }
  EXPECT_NEAR(got.losses.back(), want.losses.back(), 1e-4 * want.losses.back());
  EXPECT_LT(want.losses.back(), want.losses.front());
  EXPECT_EQ(got.compiles_after_first, 0);
  expect_planned_bytes(t, GetParam().mesh);
}

std::vector<Case> full_steps() {
  std::vector<Case> all;
  for (MakeOptimizer optimizer : {adamw, adafactor, muon}) {
    for (int64_t layers : {4, 3}) {
      Case c{"layers=2,fsdp=2,tensor=2"};
      c.optimizer = optimizer;
      c.layers = layers;
      all.push_back(c);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Optimizers, FullSteps, ::testing::ValuesIn(full_steps()),
                         [](const auto& row) {
                           return std::string(row.param.optimizer()->name()) + "_" +
                                  std::to_string(row.param.layers) + "_layers";
                         });

// Metrics and loss of one micro-step of the policy loss, with ratios of whole sequences.
std::vector<float> policy_step(const std::string& mesh, UpdateStats& stats) {
  TrainOptions options;
  options.policy.ratio = RatioLevel::sequence;
  options.policy.read_old = true;
  options.policy.beta = 0.1;
  options.policy.importance_cap = 2;
  TinyOptions o;
  o.placement.mesh = sharding::Mesh::parse(mesh);
  TinyTrainer t("qwen3", {8, 12, 96}, options, {}, 1e-3, o);
  TokenBatch b = batch(t.engine->shape(), 0);
  for (int64_t i = 0; i < 96; ++i) {
    b.sequence.set(i, static_cast<double>(i / 12));
    b.terms.set(96 + i, (i / 12) % 3 == 0 ? -1.5 : 0.5);  // advantage
    for (int64_t row : {2, 3, 4}) {
      b.terms.set(row * 96 + i, -5.0 - 0.01 * static_cast<double>((i * 7 + row) % 11));
    }
  }
  b.terms.set(5, 0);  // a token that is not trained on
  std::vector<float> metrics = t.engine->accumulate(b, 95, 0.9);
  stats = t.engine->update();
  return metrics;
}

TEST(Mesh, PolicyMetricsAreThoseOfOneDevice) {
  UpdateStats want_stats;
  const std::vector<float> want = policy_step("", want_stats);
  EXPECT_EQ(want[0], 95);
  for (const char* mesh : {"data=2", "data=2,fsdp=2,tensor=2"}) {
    UpdateStats stats;
    std::vector<float> got = policy_step(mesh, stats);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 1e-5 * std::abs(want[i]) + 1e-6)
          << mesh << " " << policy_metric_names()[i];
    }
    EXPECT_NEAR(stats.loss, want_stats.loss, 1e-5 * std::abs(want_stats.loss));
    EXPECT_NEAR(stats.grad_norm, want_stats.grad_norm, 1e-4 * want_stats.grad_norm);
  }
}

// The state of a prompt of twelve tokens, and the logits of one token more.
std::vector<HostTensor> decoded(const std::string& mesh) {
  TinyTrainer t = trainer(Case{mesh});
  auto compile = [&](const std::unique_ptr<ir::Function>& f) {
    return runtime::Executor(
        t.compiler->compile(transform::program_text(*f), runtime::request_for(*f, f->name())));
  };
  auto put = [&](const HostTensor& host) {
    return runtime::Array::put(t.compiler->client(), host, t.structure->mesh());
  };
  HostTensor ids(DType::i32, {1, 16}), rows(DType::u32, {1, sample::kRowWords});
  for (int64_t i = 0; i < ids.size(); ++i) ids.set(i, static_cast<double>(i * 7 % 157));
  rows.set(sample::kToken, 5);
  rows.set(sample::kPosition, 12);
  const runtime::Array prompt = put(ids), words = put(rows),
                       length = put(HostTensor::of<int32_t>({1}, std::vector<int32_t>{12}));
  std::vector<runtime::Argument> arguments;
  for (const auto& entry : t.engine->parameters()->entries()) {
    arguments.push_back(runtime::Argument::borrow(*entry.second));
  }
  const size_t parameters = arguments.size();
  const sample::ModelView view{t.model.get(), t.structure.get()};
  arguments.push_back(runtime::Argument::borrow(prompt));
  arguments.push_back(runtime::Argument::borrow(length));
  std::vector<runtime::Array> state =
      compile(sample::prefill_function(view, {.tokens = 16, .room = 16})).run(arguments);
  arguments.resize(parameters);
  std::vector<HostTensor> out;
  for (const runtime::Array& a : state) out.push_back(a.get());
  for (runtime::Array& a : state) arguments.push_back(runtime::Argument::donate(a));
  arguments.push_back(runtime::Argument::borrow(words));
  out.push_back(compile(sample::decode_function(view, {.rows = 1, .length = 16}))
                    .run(arguments)
                    .back()
                    .get());
  return out;
}

TEST(Mesh, DecodingOverMeshesIsThatOfOneDevice) {
  const std::vector<HostTensor> want = decoded("");
  for (const char* mesh : {"layers=2", "fsdp=2,tensor=2,layers=2"}) {
    std::vector<HostTensor> got = decoded(mesh);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_LT(relative_difference(got[i], want[i]), 1e-5) << mesh << " " << i;
    }
  }
}

// What transforms add is shared out as what it belongs to: the side of the model's width over fsdp,
// that of the heads over tensor, the layers over layers; the rank is whole.
TEST(Mesh, AdaptersAndScalesAreSharedOut) {
  Case c{"fsdp=2,tensor=2,layers=2"};
  c.adapters = true;
  TinyTrainer t = trainer(c);
  std::map<std::string, std::string> got;
  int64_t held = 0, whole = 0;
  for (const auto& [name, array] : t.engine->parameters()->entries()) {
    const sharding::Slot& slot = t.structure->manifest().at(name);
    size_t q = name.find("q_proj.");
    if (q != std::string::npos) got[name.substr(q)] = sharding::text_of(slot.type);
    if (slot.kind != sharding::Kind::adapter && name.find("weight_scale") == std::string::npos) {
      continue;
    }
    for (size_t d = 0; d < array->shard_count(); ++d) {
      held += element_count(array->buffer(d).dims()) * 4;
    }
    whole += slot.type.bytes();
  }
  const std::map<std::string, std::string> want = {
      {"q_proj.weight", "f32[layers(layer):4@layers, heads:128@tensor, embed:64@fsdp]"},
      {"q_proj.weight_scale", "f32[layers(layer):4@layers, heads:128@tensor]"},
      {"q_proj.lora_A.weight", "f32[layers(layer):4@layers, 4, embed:64@fsdp]"},
      {"q_proj.lora_B.weight", "f32[layers(layer):4@layers, heads:128@tensor, 4]"}};
  EXPECT_EQ(got, want);
  EXPECT_EQ(held, 2 * whole);  // in four parts each, on eight devices
}

// A dim that does not divide is an error where that is asked for.
TEST(Mesh, StrictRefusesAStackThatDoesNotDivide) {
  Case c{"layers=2,fsdp=2,tensor=2"};
  TinyOptions o;
  o.placement = {.mesh = sharding::Mesh::parse(c.mesh), .strict = true};
  o.layers = 3;
  TrainOptions options;
  options.loss = LossKind::cross_entropy;
  testing::expect_error(Code::failed_precondition, "sharding.strict", "layers (2)", [&] {
    TinyTrainer("qwen3", {8, 12, 96}, options, {}, 1e-3, o);
  });
}

TEST(Mesh, TwentyStepsStayTogether) {
  TinyTrainer t = trainer(Case{"data=2,fsdp=2"});
  Outcome got = train(t, 20);
  const Outcome& want = alone(20);
  EXPECT_NEAR(got.losses.back(), want.losses.back(), 1e-4 * want.losses.back());
  EXPECT_LT(want.losses.back(), 0.9 * want.losses.front());
}

}  // namespace
}  // namespace strata::rl
