// Loops over stacks whose steps are shared out over devices: the numbers of one device, and never
// more than one step of the stack in one place.
#include <gtest/gtest.h>

#include <map>

#include "strata/ops/arithmetic.h"
#include "strata/ops/control.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/sharding/box.h"
#include "strata/sharding/shardy.h"
#include "strata/testing/executor.h"
#include "strata/testing/random.h"
#include "strata/transform/vjp.h"

namespace strata::transform {
namespace {

using ir::Value;
using ir::Values;
using ops::StackParts;
using sharding::Mesh;
using sharding::ParamType;
using Tensors = std::vector<HostTensor>;

constexpr int64_t kLength = 6, kWidth = 32;
constexpr int64_t kStep = kWidth * kWidth * 4, kStack = kLength * kStep;  // bytes

struct Case {
  const char* mesh;
  int64_t axis = 0;  // of the stack of matrices
  bool reverse = false;
  testing::CpuPlugin plugin = testing::CpuPlugin::newer;
};

// A stack of one array a step: its axis over "layers", the array's last dim over "tensor".
ParamType stack_type(const Mesh& mesh, Dims dims, int64_t axis) {
  dims.insert(dims.begin() + axis, kLength);
  ParamType type = sharding::plain_type(DType::f32, dims);
  if (mesh.has("layers")) type.dims[static_cast<size_t>(axis)].axes = {"layers"};
  size_t last = type.dims.size() - (axis + 1 == static_cast<int64_t>(type.dims.size()) ? 2 : 1);
  if (mesh.has("tensor") && type.dims.size() > 2) type.dims[last].axes = {"tensor"};
  return type;
}

StackParts parts_of(const Mesh& mesh, ParamType type, int64_t axis) {
  int64_t parts = mesh.axes_size(type.dims[static_cast<size_t>(axis)].axes);
  type.dims.insert(type.dims.begin() + axis + 1, sharding::Dim{});
  return {parts, sharding::shardy_sharding(ir::axes_of(type))};
}

// carry = tanh(carry · w_t), y_t = 2 carry; results are the last carry, ys and the gradient of w.
struct Program {
  Mesh mesh;
  ir::Function f{"loop"};
  std::vector<ParamType> inputs, results;

  Program(const Case& c, const std::string& mesh_text, bool shared) : mesh(Mesh::parse(mesh_text)) {
    f.set_mesh(mesh);
    ParamType carry_type = sharding::plain_type(DType::f32, {kWidth});
    ParamType w_type = stack_type(mesh, {kWidth, kWidth}, c.axis);
    ParamType y_type = stack_type(mesh, {kWidth}, 0);
    inputs = {carry_type, w_type};
    results = {carry_type, y_type, w_type};
    Value carry = f.declare(carry_type, "carry"), w = f.declare(w_type, "w");
    ops::ScanOptions o{.length = kLength, .reverse = c.reverse, .x_axes = {c.axis}};
    if (shared) {
      o.x_parts = {parts_of(mesh, w_type, c.axis)};
      o.y_parts = {parts_of(mesh, y_type, 0)};
    }
    ops::Step out = ops::scan(f, {carry}, {w}, o, [](Value, const Values& in, const Values& xs) {
      Value next = ops::tanh(ops::dot_general(in[0], xs[0], {{}, {}, {0}, {0}}));
      return ops::Step{{next}, {next * 2.0}};
    });
    Value loss =
        ops::reduce_sum(out.carry[0], {0}) + ops::reduce_sum(out.ys[0] * out.ys[0], {0, 1});
    std::vector<ir::Port> ports;
    for (const ParamType& t : results) ports.push_back({"", "", ir::axes_of(t)});
    f.set_results({out.carry[0], out.ys[0], gradient(loss, {w})[0]}, ports);
  }

  pjrt::Executable compile(const testing::Executor& e) const {
    return pjrt::Executable::compile(e.client(), testing::program_text(f),
                                     {.num_partitions = static_cast<int>(mesh.size())});
  }
};

// Elements of `box` out of `whole` or, with `back`, into it.
void copy_part(HostTensor& whole, const sharding::Box& box, HostTensor& part, bool back) {
  for (int64_t i = 0; i < part.size(); ++i) {
    int64_t rest = i, place = 0, stride = 1;
    for (size_t d = box.size.size(); d-- > 0;) {
      place += (box.start[d] + rest % box.size[d]) * stride;
      rest /= box.size[d];
      stride *= whole.dims()[d];
    }
    if (back) whole.set(place, part.at(i));
    if (!back) part.set(i, whole.at(place));
  }
}

Tensors run(const Program& p, const testing::Executor& e, Tensors& inputs) {
  std::vector<pjrt::Buffer> buffers;
  for (int64_t d = 0; d < p.mesh.size(); ++d) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      sharding::Box box = sharding::shard_box(p.inputs[i], p.mesh, d, "input");
      HostTensor part(DType::f32, box.size);
      copy_part(inputs[i], box, part, false);
      const pjrt::Device& device = e.client()->devices()[static_cast<size_t>(d)];
      buffers.push_back(pjrt::Buffer::from_host(e.client(), device, DType::f32, box.size,
                                                {part.bytes(), part.byte_size()})
                            .buffer);
    }
  }
  std::vector<const pjrt::Buffer*> arguments;
  for (const pjrt::Buffer& b : buffers) arguments.push_back(&b);
  pjrt::Execution done = p.compile(e).execute(arguments);
  Tensors out;
  for (size_t r = 0; r < p.results.size(); ++r) {
    out.emplace_back(DType::f32, p.results[r].sizes());
    for (int64_t d = 0; d < p.mesh.size(); ++d) {
      const pjrt::Buffer& b = done.outputs[static_cast<size_t>(d) * p.results.size() + r];
      HostTensor part(DType::f32, b.dims());
      b.to_host({part.bytes(), part.byte_size()}).wait();
      copy_part(out.back(), sharding::shard_box(p.results[r], p.mesh, d, "result"), part, true);
    }
  }
  return out;
}

class SharedStack : public ::testing::TestWithParam<Case> {};

TEST_P(SharedStack, GivesTheNumbersOfOneDevice) {
  const Case& c = GetParam();
  Program alone(c, "", false), shared(c, c.mesh, true);
  testing::Random random(testing::test_seed());
  Tensors in;
  for (const sharding::ParamType& t : alone.inputs)
    in.push_back(random.tensor(DType::f32, t.sizes(), -0.3, 0.3));
  Tensors want = run(alone, testing::Executor(c.plugin), in);
  Tensors got = run(shared, testing::Executor(c.plugin, static_cast<int>(shared.mesh.size())), in);
  for (size_t r = 0; r < want.size(); ++r) {
    for (int64_t i = 0; i < want[r].size(); ++i) {
      ASSERT_NEAR(got[r].at(i), want[r].at(i), 1e-5) << "result " << r << ", element " << i;
    }
  }
}

// The largest collective in bytes, by kind.
std::map<std::string, int64_t> largest(const pjrt::Executable& e) {
  std::map<std::string, int64_t> bytes;
  for (const pjrt::Collective& c : e.optimized_program().collectives()) {
    bytes[c.kind] = std::max(bytes[c.kind], c.bytes);
  }
  return bytes;
}

TEST_P(SharedStack, IsReadOneStepAtATime) {
  const Case& c = GetParam();
  Program shared(c, c.mesh, true), plain(c, c.mesh, false);
  testing::Executor executor(c.plugin, static_cast<int>(shared.mesh.size()));
  pjrt::Executable one = shared.compile(executor), all = plain.compile(executor);
  int64_t tensor = shared.mesh.has("tensor") ? 2 : 1;
  // A step of each stack together, or activations.
  for (const auto& [kind, bytes] : largest(one)) {
    EXPECT_LE(bytes, kStep / tensor + 4 * kWidth) << kind;
  }
  // The same loop without parts gathers the stack, and holds it.
  EXPECT_GE(largest(all)["all-gather"], kStack / tensor);
  EXPECT_GE(all.memory_stats().value->temporaries,
            one.memory_stats().value->temporaries + kStack / tensor / 2);
}

INSTANTIATE_TEST_SUITE_P(Meshes, SharedStack,
                         ::testing::Values(Case{"layers=2"}, Case{"layers=3", 1},
                                           Case{"layers=2", 2, true}, Case{"layers=6"},
                                           Case{"layers=3", 0, true, testing::CpuPlugin::older},
                                           Case{"layers=2,tensor=2"},
                                           Case{"tensor=2,layers=2", 1, true}),
                         [](const auto& row) {
                           std::string name = row.param.mesh;
                           for (char& ch : name)
                             ch = std::isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
                           name += "_axis" + std::to_string(row.param.axis);
                           return name + (row.param.reverse ? "_reverse" : "");
                         });

}  // namespace
}  // namespace strata::transform
