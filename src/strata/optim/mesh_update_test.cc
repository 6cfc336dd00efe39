// The update over several devices: the same numbers as on one, with no other collectives than its
// optimiser is allowed.
#include <fmt/format.h>

#include <map>

#include "strata/optim/adafactor.h"
#include "strata/optim/adamw.h"
#include "strata/optim/lion.h"
#include "strata/optim/muon.h"
#include "strata/optim/sgd.h"
#include "strata/optim/step_for_test.h"
#include "strata/optim/zero.h"
#include "strata/sharding/box.h"
#include "strata/testing/errors.h"
#include "strata/testing/random.h"

namespace strata::optim {
namespace {

using sharding::Mesh;
using sharding::ParamType;
using sharding::Role;

const testing::Executor& eight_devices() {
  static const testing::Executor executor(testing::CpuPlugin::newer, 8);
  return executor;
}

// Copies the elements of `box` out of `whole` or, with `back`, into it.
void copy_part(HostTensor& whole, const sharding::Box& box, HostTensor& part, bool back) {
  if (part.size() == 0) return;
  const int64_t width = static_cast<int64_t>(part.byte_size()) / part.size();
  for (int64_t i = 0; i < part.size(); ++i) {
    int64_t rest = i, place = 0, stride = 1;
    for (size_t d = box.size.size(); d-- > 0;) {
      place += (box.start[d] + rest % box.size[d]) * stride;
      rest /= box.size[d];
      stride *= whole.dims()[d];
    }
    std::byte *outside = whole.bytes() + place * width, *inside = part.bytes() + i * width;
    std::copy_n(back ? inside : outside, width, back ? outside : inside);
  }
}

// A function's ports as types.
std::vector<ParamType> types_of(const ir::Values& values, const std::vector<ir::Port>& ports) {
  std::vector<ParamType> types;
  for (size_t i = 0; i < values.size(); ++i) {
    types.push_back(sharding::plain_type(values[i].dtype(), values[i].dims()));
    for (size_t d = 0; d < ports[i].axes.size(); ++d) types.back().dims[d].axes = ports[i].axes[d];
  }
  return types;
}

// A traced step over a mesh, compiled.
class MeshProgram {
 public:
  explicit MeshProgram(const ir::Function& f)
      : mesh_(f.mesh()),
        inputs_(types_of(f.top().params, f.argument_ports())),
        results_(types_of(f.top().results, f.result_ports())),
        program_(pjrt::Executable::compile(eight_devices().client(), testing::program_text(f),
                                           {.num_partitions = static_cast<int>(mesh_.size())})) {}

  Tensors run(Tensors& inputs) const {
    const auto& client = eight_devices().client();
    std::vector<pjrt::Buffer> buffers;
    for (int64_t d = 0; d < mesh_.size(); ++d) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        sharding::Box box = sharding::shard_box(inputs_[i], mesh_, d, "input");
        HostTensor part(inputs_[i].dtype, box.size);
        copy_part(inputs[i], box, part, false);
        buffers.push_back(pjrt::Buffer::from_host(client, client->devices()[static_cast<size_t>(d)],
                                                  part.dtype(), part.dims(),
                                                  {part.bytes(), part.byte_size()})
                              .buffer);
      }
    }
    std::vector<const pjrt::Buffer*> arguments;
    for (const pjrt::Buffer& b : buffers) arguments.push_back(&b);
    return gathered(program_.execute(arguments));
  }

  // Kind and bytes of each collective, how often.
  std::map<std::string, int> collectives() const {
    std::map<std::string, int> counts;
    for (const pjrt::Collective& c : program_.optimized_program().collectives()) {
      ++counts[fmt::format("{} {}", c.kind, c.bytes)];
    }
    return counts;
  }

 private:
  Tensors gathered(pjrt::Execution execution) const {
    Tensors out;
    for (size_t r = 0; r < results_.size(); ++r) {
      out.emplace_back(results_[r].dtype, results_[r].sizes());
      for (int64_t d = 0; d < mesh_.size(); ++d) {
        const pjrt::Buffer& b = execution.outputs[static_cast<size_t>(d) * results_.size() + r];
        HostTensor part(b.dtype(), b.dims());
        b.to_host({part.bytes(), part.byte_size()}).wait();
        copy_part(out.back(), sharding::shard_box(results_[r], mesh_, d, "result"), part, true);
      }
    }
    return out;
  }

  Mesh mesh_;
  std::vector<ParamType> inputs_, results_;
  pjrt::Executable program_;
};

// Only axes that the mesh has.
std::vector<std::string> on(const Mesh& mesh, const char* axis) {
  return mesh.has(axis) ? std::vector<std::string>{axis} : std::vector<std::string>{};
}

ParamType stacked(const Dims& sizes, const std::vector<std::vector<std::string>>& axes,
                  int64_t layers, const std::vector<std::string>& layer_axes) {
  ParamType type = f32_type(sizes);
  for (size_t i = 0; i < axes.size(); ++i) type.dims[i].axes = axes[i];
  sharding::Dim layer = {.size = layers, .role = Role::layer, .axes = layer_axes};
  return sharding::insert_layer_dim(type, 0, layer, "w");
}

// Stacked matrices, of which three layers cannot be split, norms and a bias.
sharding::Manifest model(const Mesh& mesh) {
  std::vector<std::vector<std::string>> axes = {on(mesh, "tensor"), on(mesh, "fsdp")};
  return manifest_of({{"layers[0:4:1].a", stacked({16, 32}, axes, 4, on(mesh, "layers"))},
                      {"layers[4:7:1].a", stacked({24, 8}, axes, 3, {})},
                      {"layers[0:4:1].norm", stacked({12}, {}, 4, on(mesh, "layers"))},
                      {"bias", f32_type({7})}});
}

// A plan over a mesh with, or without, ZeRO.
UpdatePlan place(const sharding::Manifest& manifest, std::shared_ptr<const Optimizer> optimizer,
                 const Mesh& mesh, bool zero) {
  UpdatePlan plan = simple_plan(manifest, std::move(optimizer), 0.1, 1.0);
  return zero ? zero1(plan, zero_axes(mesh), mesh).plan : plan;
}

std::vector<std::shared_ptr<const Optimizer>> all_optimizers() {
  return {make_adamw({.weight_decay = 0.1}), make_lion(), make_sgd({.momentum = 0.9}),
          make_adafactor({.min_factored = 8, .momentum = 0.9}),
          make_muon({.steps = 2, .weight_decay = 0.1})};
}

// Inputs of a step in the order of step_function; slots are not zero, so that every term counts.
Tensors inputs_of(const UpdatePlan& plan) {
  testing::Random random(testing::test_seed());
  Tensors in;
  auto draw = [&](const ParamType& type, double low) {
    in.push_back(random.tensor(DType::f32, type.sizes(), low, 1.5));
  };
  for (const Parameter& p : plan.parameters()) draw(p.type, -1.5);
  for (const SlotSpec& s : plan.slots()) draw(s.type, 0.5);
  for (const Parameter& p : plan.parameters()) draw(p.type, -1.5);
  in.push_back(HostTensor::scalar(3.0f));
  in.push_back(HostTensor::scalar(2.0f));
  for (float x : plan.scalar_values(4)) in.push_back(HostTensor::scalar(x));
  return in;
}

double difference(const HostTensor& got, const HostTensor& want) {
  std::vector<double> values;
  for (int64_t i = 0; i < want.size(); ++i) values.push_back(want.at(i));
  return relative_l2(got, values);
}

class OverMeshes : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Meshes, OverMeshes,
                         ::testing::Values("layers=2,fsdp=2,tensor=2", "data=2,fsdp=4"));

TEST_P(OverMeshes, GivesTheNumbersOfOneDevice) {
  const Mesh mesh = Mesh::parse(GetParam());
  for (const auto& optimizer : all_optimizers()) {
    UpdatePlan alone = place(model({}), optimizer, {}, false);
    Tensors in = inputs_of(alone);
    Tensors want = newer_plugin().run(*step_function(alone), in);
    for (bool zero : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, zero {}", optimizer->name(), zero));
      auto f = step_function(place(model(mesh), optimizer, mesh, zero), DType::f32, mesh);
      Tensors got = MeshProgram(*f).run(in);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(difference(got[i], want[i]), 1e-6) << i;
    }
  }
}

using Counts = std::map<std::string, int>;

Counts collectives(const std::shared_ptr<const Optimizer>& optimizer, const std::string& mesh_text,
                   bool zero) {
  Mesh mesh = Mesh::parse(mesh_text);
  return MeshProgram(*step_function(place(model(mesh), optimizer, mesh, zero), DType::f32, mesh))
      .collectives();
}

// Whether all there is are sums of a few numbers: the norm's.
bool only_the_norms(const Counts& counts) {
  for (const auto& row : counts) {
    size_t space = row.first.find(' ');
    bool small = std::stoll(row.first.substr(space)) <= 16 && row.second <= 3;
    if (row.first.substr(0, space) != "all-reduce" || !small) return false;
  }
  return true;
}

TEST(MeshUpdate, ElementwiseUpdatesSumTheNormAndNothingElse) {
  for (const auto& optimizer : {make_adamw(), make_lion(), make_sgd({.momentum = 0.9})}) {
    for (const char* mesh : {"layers=2,fsdp=2,tensor=2", "fsdp=4", "data=4"}) {
      Counts counts = collectives(optimizer, mesh, false);
      EXPECT_TRUE(only_the_norms(counts)) << optimizer->name() << " " << mesh;
      EXPECT_EQ(counts.empty(), mesh == std::string("data=4"));
    }
  }
  // Where there must be others, the same look finds them.
  EXPECT_FALSE(only_the_norms(collectives(make_adamw(), "fsdp=4", true)));
  EXPECT_FALSE(only_the_norms(collectives(make_muon(), "fsdp=4", false)));
  EXPECT_FALSE(only_the_norms(collectives(make_adafactor({.min_factored = 8}), "fsdp=4", false)));
}

// ZeRO gathers each parameter whose update was split, once, and nothing else: with data=4 the
// matrices whole (8192 and 2304 bytes) and the norms (192). The bias stays.
TEST(MeshUpdate, ZeroGathersParametersOnce) {
  EXPECT_EQ(collectives(make_adamw(), "data=4", true), (Counts{{"all-gather 192", 1},
                                                               {"all-gather 2304", 1},
                                                               {"all-gather 8192", 1},
                                                               {"all-reduce 12", 1}}));
}

// An average lies as its parameter, or is split like the other slots: no device asks another.
TEST(MeshUpdate, AnAverageNeedsNoCollective) {
  for (const char* text : {"data=4", "fsdp=2,tensor=2"}) {
    for (bool zero : {false, true}) {
      Mesh mesh = Mesh::parse(text);
      UpdatePlan plan = simple_plan(model(mesh), make_adamw(), 0.1, 1.0),
                 with = plan.with_average(0.9);
      if (zero) plan = zero1(plan, zero_axes(mesh), mesh).plan;
      if (zero) with = zero1(with, zero_axes(mesh), mesh).plan;
      EXPECT_EQ(MeshProgram(*step_function(with, DType::f32, mesh)).collectives(),
                MeshProgram(*step_function(plan, DType::f32, mesh)).collectives())
          << text << " " << zero;
    }
  }
}

// Layers that divide are each orthogonalised on one device: Muon then needs no more than AdamW; the
// stack of three is split inside its matrices.
TEST(MeshUpdate, ZeroKeepsALayersMatrixOnOneDevice) {
  Mesh mesh = Mesh::parse("data=4");
  auto manifest = manifest_of({{"layers[0:4:1].a", stacked({16, 32}, {}, 4, {})}});
  auto counts = [&](SplitFirst first) {
    UpdatePlan plan = simple_plan(manifest, make_muon(), 0.1, 1.0);
    plan = plan.with_layout(split_slots(plan.slots(), {"data"}, mesh, first).slots,
                            split_slots(plan.accumulator(), {"data"}, mesh, first).slots);
    return MeshProgram(*step_function(plan, DType::f32, mesh)).collectives();
  };
  EXPECT_EQ(counts(SplitFirst::layers), (Counts{{"all-gather 8192", 1}, {"all-reduce 4", 1}}));
  EXPECT_GT(counts(SplitFirst::array).size(), 2u);
}

// The sums over split columns: v_row's (4 x 16 numbers; no factored slot of a dim that is whole),
// the mean squares of u and p of each layer together, the norm.
TEST(MeshUpdate, AdafactorSumsWhatItsMeansSpan) {
  Mesh mesh = Mesh::parse("fsdp=4");
  auto manifest = manifest_of({{"layers[0:4:1].a", stacked({16, 32}, {{}, {"fsdp"}}, 4, {})}});
  UpdatePlan plan = simple_plan(manifest, make_adafactor({.min_factored = 8}), 0.1, 1.0);
  EXPECT_EQ(MeshProgram(*step_function(plan, DType::f32, mesh)).collectives(),
            (Counts{{"all-reduce 256", 1}, {"all-reduce 32", 1}, {"all-reduce 4", 1}}));
}

// A = X Xt over split columns (4 x 16 x 16 numbers) in each of two steps, the norm of each layer,
// the global norm.
TEST(MeshUpdate, MuonSumsItsProducts) {
  Mesh mesh = Mesh::parse("fsdp=4");
  auto manifest = manifest_of({{"layers[0:4:1].a", stacked({16, 32}, {{}, {"fsdp"}}, 4, {})}});
  UpdatePlan plan = simple_plan(manifest, make_muon({.steps = 2}), 0.1, 1.0);
  EXPECT_EQ(MeshProgram(*step_function(plan, DType::f32, mesh)).collectives(),
            (Counts{{"all-reduce 16", 1}, {"all-reduce 4", 1}, {"all-reduce 4096", 2}}));
}

// Partial sums: each device has its part of the summed gradients; the update adds them up, once,
// and gives what whole sums give.
TEST(MeshUpdate, PartialSumsAreAddedOnce) {
  const Mesh mesh = Mesh::parse("data=2,fsdp=2");
  for (bool zero : {false, true}) {
    SCOPED_TRACE(zero ? "zero" : "whole slots");
    UpdatePlan plan = place(model(mesh), make_adamw(), mesh, zero);
    UpdatePlan partial = plan.with_partial_sums({"data"}, mesh);
    ASSERT_EQ(partial.parts(), 2);
    Tensors in = inputs_of(plan), parts;
    size_t first = plan.parameters().size() + plan.slots().size(), count = plan.parameters().size();
    for (size_t i = 0; i < in.size(); ++i) {
      if (i < first || i >= first + count) {
        parts.push_back(in[i].clone());
        continue;
      }
      // A third and two thirds.
      Dims dims = in[i].dims();
      dims.insert(dims.begin(), 2);
      HostTensor both(DType::f32, dims);
      for (int64_t k = 0; k < in[i].size(); ++k) {
        both.set(k, in[i].at(k) / 3);
        both.set(in[i].size() + k, in[i].at(k) * 2 / 3);
      }
      parts.push_back(std::move(both));
    }
    Tensors want = MeshProgram(*step_function(plan, DType::f32, mesh)).run(in);
    MeshProgram program(*step_function(partial, DType::f32, mesh));
    Tensors got = program.run(parts);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(difference(got[i], want[i]), 2e-6) << i;
    int64_t bytes = 0;
    for (const auto& [row, n] : program.collectives()) {
      size_t space = row.find(' ');
      if (row.substr(0, space) == "all-reduce") bytes += n * std::stoll(row.substr(space));
    }
    int64_t planned = 0;
    for (const Parameter& p : plan.parameters()) planned += shard_bytes(p.type, mesh, p.name);
    EXPECT_GE(bytes, planned);
    EXPECT_LE(bytes, planned + 64);  // and the norm
  }
}

TEST(MeshUpdate, PartialSumsAreOfParametersThatAreWhole) {
  const Mesh mesh = Mesh::parse("data=2,fsdp=2");
  UpdatePlan plan = place(model(mesh), make_adamw(), mesh, false);
  EXPECT_EQ(plan.with_partial_sums({}, mesh).parts(), 0);
  EXPECT_EQ(plan.with_partial_sums({"data"}, Mesh::parse("data=1")).parts(), 0);
  UpdatePlan partial = plan.with_partial_sums({"data"}, mesh);
  EXPECT_EQ(sharding::text_of(partial.accumulator()[0].type),
            "f32[2@data, (layer):4, 16, 32@fsdp]");
  EXPECT_EQ(sharding::text_of(partial.slots()[0].type), sharding::text_of(plan.slots()[0].type));
  testing::expect_error(Code::invalid_argument, "optim.partial_axes", "whole along fsdp",
                        [&] { plan.with_partial_sums({"fsdp"}, mesh); });
}

// Case B3. A gradient of each parameter, the norm, and plain descent at rate 1 clipped to 1.
class CaseB3 : public ::testing::Test {
 protected:
  struct Row {
    ParamType type;
    HostTensor gradient;
  };

  static Tensors step(const Mesh& mesh, std::vector<Row> rows) {
    std::vector<std::pair<std::string, ParamType>> types;
    for (size_t i = 0; i < rows.size(); ++i) {
      types.emplace_back("p" + std::to_string(i), rows[i].type);
    }
    UpdatePlan plan = simple_plan(manifest_of(types), make_sgd(), 1, 1.0);
    Tensors in;
    for (const Row& r : rows) in.emplace_back(DType::f32, r.type.sizes());
    for (Row& r : rows) in.push_back(std::move(r.gradient));
    in.push_back(HostTensor::scalar(0.0f));
    in.push_back(HostTensor::scalar(1.0f));
    for (float x : plan.scalar_values(0)) in.push_back(HostTensor::scalar(x));
    return MeshProgram(*step_function(plan, DType::f32, mesh)).run(in);
  }

  static ParamType split(const Dims& sizes, size_t dim, const char* axis) {
    ParamType type = f32_type(sizes);
    type.dims[dim].axes = {axis};
    return type;
  }
};

TEST_F(CaseB3, ReplicatedGradientsCountOnce) {
  const double norm = 13.024592;
  for (const char* text : {"tp=1", "tp=2", "tp=4", "tp=4,data=2", "data=8"}) {
    SCOPED_TRACE(text);
    Mesh mesh = Mesh::parse(text);
    std::vector<Row> rows;
    rows.push_back({mesh.has("tp") ? split({4}, 0, "tp") : f32_type({4}), tensor({3, 0, 4, 12})});
    rows.push_back({f32_type({1}), tensor({0.8f})});
    Tensors out = step(mesh, std::move(rows));
    EXPECT_NEAR(out.back().at(0), norm, 1e-6 * norm);
    EXPECT_NEAR(out[0].at(3), -12 / norm, 1e-6);
    EXPECT_NEAR(out[1].at(0), -0.8 / norm, 1e-6);
  }
}

TEST_F(CaseB3, SmallReplicatedGradientsAreNotClipped) {
  std::vector<Row> rows;
  rows.push_back({f32_type({1}), tensor({0.8f})});
  Tensors out = step(Mesh::parse("tp=2"), std::move(rows));
  EXPECT_EQ(out.back().at(0), double(0.8f));
  EXPECT_EQ(out[0].at(0), -double(0.8f));
}

TEST_F(CaseB3, ExpertsOfOneRankEachAndASharedWeight) {
  std::vector<Row> rows;
  rows.push_back({split({2, 2}, 0, "ep"), tensor({1, 2, 2, 0}, {2, 2})});
  rows.push_back({f32_type({1}), tensor({4})});
  EXPECT_EQ(step(Mesh::parse("ep=2"), std::move(rows)).back().at(0), 5.0);
}

TEST_F(CaseB3, ANanOnOneDeviceSkipsTheStepOnAll) {
  std::vector<Row> rows;
  rows.push_back({split({4}, 0, "tp"), tensor({3, 0, std::nanf(""), 12})});
  rows.push_back({f32_type({1}), tensor({0.8f})});
  Tensors out = step(Mesh::parse("tp=4"), std::move(rows));
  EXPECT_EQ(values_of(out[0]), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(values_of(out[1]), (std::vector<float>{0}));
  EXPECT_EQ(out[out.size() - 2].at(0), 0);  // applied
}

}  // namespace
}  // namespace strata::optim
