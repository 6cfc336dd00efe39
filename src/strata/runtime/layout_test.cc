// What the plug-in shows of programs and arrays is compared with what was planned. Each check is
// also given a record that is wrong on purpose.
#include <fmt/format.h>

#include "strata/pjrt/test_support.h"
#include "strata/runtime/compile.h"
#include "strata/runtime/executor.h"
#include "strata/runtime/test_support.h"

namespace strata::runtime {
namespace {

using pjrt::contains;
using pjrt::error_of;
using sharding::Mesh;

// x, a square of which each of four devices holds a part, and its transpose.
std::string squares(const std::string& x_axes, const std::string& layout = "default") {
  return fmt::format(R"(module @squares {{
  sdy.mesh @mesh = <["a"=2, "b"=2]>
  func.func public @main(%x: tensor<4x4xf32> {{mhlo.layout_mode = "{1}", sdy.sharding = #sdy.sharding<@mesh, [{0}]>}})
      -> (tensor<4x4xf32> {{mhlo.layout_mode = "default", sdy.sharding = #sdy.sharding<@mesh, [{{"b"}}, {{"a"}}]>}}) {{
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }}
}})",
                     x_axes, layout);
}

sharding::ParamType square(std::vector<std::string> rows, std::vector<std::string> columns) {
  sharding::ParamType type = sharding::plain_type(DType::f32, {4, 4});
  type.dims[0].axes = std::move(rows);
  type.dims[1].axes = std::move(columns);
  return type;
}

CompileRequest request(const Mesh& mesh, const sharding::ParamType& x) {
  CompileRequest out{.name = "squares", .options = {.num_partitions = 4}};
  out.options.device_ids.assign(mesh.device_ids().begin(), mesh.device_ids().end());
  out.parameters = {{.name = "x", .spec = ArraySpec::sharded(x, mesh, "x")}};
  out.results = {{.name = "y", .spec = ArraySpec::sharded(square({"b"}, {"a"}), mesh, "y")}};
  return out;
}

class LayoutTest : public pjrt::OnBothPlugins {
 protected:
  Error compile_error(const std::string& text, CompileRequest r) const {
    return error_of([&] { Compiler(client(4), {.cache_dir = {}}).compile(text, std::move(r)); });
  }
};
INSTANTIATE_TEST_SUITE_P(Plugins, LayoutTest, ::testing::ValuesIn(pjrt::kPlugins),
                         pjrt::plugin_label);

// Every way to lay x out, on devices in any order, is told apart from every other one, though the
// dims on each device are often the same.
TEST_P(LayoutTest, ProgramsHoldThePartsThatThePlanSays) {
  struct Way {
    std::string text;
    sharding::ParamType type;
  };
  const std::vector<Way> ways = {{R"({"a"}, {"b"})", square({"a"}, {"b"})},
                                 {R"({"b"}, {"a"})", square({"b"}, {"a"})},
                                 {R"({"a"}, {})", square({"a"}, {})},
                                 {R"({"b"}, {})", square({"b"}, {})},
                                 {R"({"a", "b"}, {})", square({"a", "b"}, {})},
                                 {R"({"b", "a"}, {})", square({"b", "a"}, {})},
                                 {R"({}, {})", square({}, {})}};
  auto c = client(4);
  const Mesh mesh({{"a", 2}, {"b", 2}}, {2, 0, 3, 1});
  Compiler compiler(c, {.cache_dir = {}});
  for (const Way& way : ways) {
    for (const Way& described : ways) {
      SCOPED_TRACE(way.text + " described as " + described.text);
      auto compile = [&] { compiler.compile(squares(way.text), request(mesh, described.type)); };
      if (&way == &described) {
        EXPECT_NO_THROW(compile());
        continue;
      }
      Error e = error_of(compile);
      EXPECT_EQ(e.code(), Code::internal);
      bool dims = ArraySpec::sharded(way.type, mesh, "x")->shards[0].box.size ==
                  ArraySpec::sharded(described.type, mesh, "x")->shards[0].box.size;
      EXPECT_EQ(e.id(), dims ? "runtime.slot_sharding" : "runtime.slot_type");
    }
  }
}

TEST_P(LayoutTest, AnotherPartOnADeviceIsAnError) {
  const Mesh mesh = Mesh::parse("a=2,b=2");
  Error e = compile_error(squares(R"({"a"}, {})"), request(mesh, square({"b"}, {})));
  EXPECT_EQ(e.id(), "runtime.slot_sharding");
  EXPECT_EQ(e.code(), Code::internal);
  EXPECT_TRUE(contains(e.what(),
                       "parameter 0 'x': expected 2x4xf32 from [2, 0] on, on device 1, "
                       "as described, got from [0, 0] on"))
      << e.what();
}

// A program loaded from disk is compared as one just compiled.
TEST_P(LayoutTest, LoadedProgramsAreComparedToo) {
  const Mesh mesh = Mesh::parse("a=2,b=2");
  ScratchDir scratch;
  auto c = client(4);
  Compiler(c, {.cache_dir = scratch.path()})
      .compile(squares(R"({"a"}, {})"), request(mesh, square({"a"}, {})));
  Compiler second(c, {.cache_dir = scratch.path()});
  Error e =
      error_of([&] { second.compile(squares(R"({"a"}, {})"), request(mesh, square({"b"}, {}))); });
  EXPECT_EQ(second.counters().disk_hits, 1);
  EXPECT_EQ(e.id(), "runtime.slot_sharding");
}

// Arrays are row-major; a program that wants another order of the dims is none of ours.
TEST_P(LayoutTest, AnotherOrderInMemoryIsAnError) {
  const Mesh mesh = Mesh::parse("a=2,b=2");
  Error e = compile_error(squares(R"({"a"}, {})", "{0,1}"), request(mesh, square({"a"}, {})));
  EXPECT_EQ(e.id(), "runtime.slot_layout");
  EXPECT_EQ(e.code(), Code::internal);
  EXPECT_TRUE(contains(e.what(), "parameter 0")) << e.what();
  EXPECT_TRUE(contains(e.what(), "from the innermost on: [0, 1]")) << e.what();
}

TEST_P(LayoutTest, ArraysAreWhatTheirSpecsSay) {
  auto c = client(2);
  std::vector<float> values(8);
  auto buffer = [&](int device) { return pjrt::put<float>(c, values, {2, 4}, device); };
  EXPECT_NO_THROW(Array(ArraySpec::single(DType::f32, {2, 4}, 1), buffer(1)));
  auto error = [&](const SpecPtr& spec) { return error_of([&] { Array(spec, buffer(1)); }); };
  Error dims = error(ArraySpec::single(DType::f32, {4, 2}, 1));
  EXPECT_EQ(dims.id(), "runtime.array_layout");
  EXPECT_EQ(dims.code(), Code::internal);
  EXPECT_TRUE(contains(dims.what(),
                       "expected 4x2xf32 on device 1, as planned, got 2x4xf32 on "
                       "device 1 in the plug-in"))
      << dims.what();
  EXPECT_EQ(error(ArraySpec::single(DType::i32, {2, 4}, 1)).id(), "runtime.array_layout");
  EXPECT_EQ(error(ArraySpec::single(DType::f32, {2, 4}, 0)).id(), "runtime.array_layout");
  // The shards of a list in the wrong order.
  std::vector<pjrt::Buffer> swapped;
  swapped.push_back(buffer(1));
  swapped.push_back(buffer(0));
  SpecPtr both = ArraySpec::replicated(DType::f32, {2, 4}, {0, 1});
  Error order = error_of([&] { Array(both, std::move(swapped)); });
  EXPECT_EQ(order.id(), "runtime.array_layout");
}

// A record of a program that says more elements than it has: the first run tells.
TEST_P(LayoutTest, ResultsAreWhatTheProgramSays) {
  auto c = client();
  auto executable =
      std::make_shared<const pjrt::Executable>(pjrt::Executable::compile(c, pjrt::kIncrement));
  Signature wrong;
  wrong.parameters = {{DType::f32, {64}, true}};
  wrong.results = {{DType::f32, {65}, false}};
  Executor executor(std::make_shared<const Program>(
      "increment", executable, wrong, std::vector<Slot>{}, std::vector<Slot>{}, ProgramTimes{}));
  Array x = Array::put(c, HostTensor(DType::f32, {64}));
  std::vector<Argument> arguments = {Argument::borrow(x)};
  Error e = error_of([&] { executor.run(arguments); });
  EXPECT_EQ(e.id(), "runtime.array_layout");
  EXPECT_TRUE(contains(e.what(), "expected 65xf32 on device 0, as planned, got 64xf32"))
      << e.what();
  EXPECT_TRUE(contains(e.what(), "while running increment")) << e.what();
}

TEST(SignatureTest, KeepsShardings) {
  Signature signature;
  signature.parameters = {{DType::f32, {2, 2}, false, {}}, {DType::f32, {2, 2}, false, {}}};
  signature.parameters[0].sharding = pjrt::HloSharding{.kind = pjrt::HloSharding::Kind::tiles,
                                                       .tiles = {2, 2},
                                                       .listed = {0, 2, 1, 3},
                                                       .reshape = {4},
                                                       .order = {0}};
  Signature back = Signature::from_json(signature.json());
  EXPECT_EQ(back.parameters[0].sharding, signature.parameters[0].sharding);
  EXPECT_FALSE(back.parameters[1].sharding.has_value());
}

}  // namespace
}  // namespace strata::runtime
