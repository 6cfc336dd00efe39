// What Strata relies on in a plug-in beyond the calls themselves: which operations compile, and
// the orders and ties they promise. A plug-in that changes one of these breaks the sampler or the
// loader, and this is where it shows.
#include <cmath>
#include <limits>

#include "strata/pjrt/test_support.h"

namespace strata::pjrt {
namespace {

class PluginFactsTest : public OnBothPlugins {
 protected:
  std::vector<Buffer> run(const std::shared_ptr<const Client>& c, const char* text,
                          const std::vector<const Buffer*>& arguments) {
    return Executable::compile(c, text).execute(arguments).outputs;
  }
};
INSTANTIATE_TEST_SUITE_P(Plugins, PluginFactsTest, ::testing::ValuesIn(kPlugins), plugin_label);

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST_P(PluginFactsTest, TopKGivesTiesToTheLowerIndex) {
  auto c = client();
  Buffer x = put<float>(c, {1, 5, 3, 5, 5, 0}, {6});
  auto out = run(c, R"(module {
  func.func public @main(%x: tensor<6xf32>) -> (tensor<4xf32>, tensor<4xi32>) {
    %v, %i = chlo.top_k(%x, k = 4) : tensor<6xf32> -> (tensor<4xf32>, tensor<4xi32>)
    return %v, %i : tensor<4xf32>, tensor<4xi32>
  }
})",
                 {&x});
  EXPECT_EQ(get<float>(out[0]), (std::vector<float>{5, 5, 5, 3}));
  EXPECT_EQ(get<int32_t>(out[1]), (std::vector<int32_t>{1, 3, 4, 2}));
}

TEST_P(PluginFactsTest, StableSortKeepsEqualKeysInOrder) {
  auto c = client();
  Buffer x = put<float>(c, {2, 1, 2, 1}, {4});
  Buffer id = put<int32_t>(c, {0, 1, 2, 3}, {4});
  auto out = run(c, R"(module {
  func.func public @main(%x: tensor<4xf32>, %id: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
    %v:2 = "stablehlo.sort"(%x, %id) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>):
        %less = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %less : tensor<i1>
    }) {dimension = 0 : i64, is_stable = true} : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
    return %v#0, %v#1 : tensor<4xf32>, tensor<4xi32>
  }
})",
                 {&x, &id});
  EXPECT_EQ(get<int32_t>(out[1]), (std::vector<int32_t>{1, 3, 0, 2}));
}

TEST_P(PluginFactsTest, NaNIsTheLargestForTopK) {
  auto c = client();
  Buffer x = put<float>(c, {1, kNaN, 3}, {3});
  auto out = run(c, R"(module {
  func.func public @main(%x: tensor<3xf32>) -> (tensor<1xf32>, tensor<1xi32>) {
    %v, %i = chlo.top_k(%x, k = 1) : tensor<3xf32> -> (tensor<1xf32>, tensor<1xi32>)
    return %v, %i : tensor<1xf32>, tensor<1xi32>
  }
})",
                 {&x});
  EXPECT_TRUE(std::isnan(get<float>(out[0])[0]));
  EXPECT_EQ(get<int32_t>(out[1])[0], 1);
}

TEST_P(PluginFactsTest, ZeroSizeArgumentsRun) {
  auto c = client();
  Buffer none = put<float>(c, {}, {0, 3});
  auto out = run(c, R"(module {
  func.func public @main(%x: tensor<0x3xf32>) -> tensor<3xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
})",
                 {&none});
  EXPECT_EQ(get<float>(out[0]), (std::vector<float>{0, 0, 0}));
}

TEST_P(PluginFactsTest, Bf16CarriesThroughALoop) {
  auto c = client();
  HostTensor one(DType::bf16, {1});
  one.set(0, 1.0);
  Buffer x =
      Buffer::from_host(c, c->device(0), DType::bf16, one.dims(), {one.bytes(), one.byte_size()})
          .buffer;
  auto out = run(c, R"(module {
  func.func public @main(%x: tensor<1xbf16>) -> tensor<1xbf16> {
    %n = stablehlo.constant dense<5> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<1xbf16>
      cond {
        %less = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %less : tensor<i1>
      } do {
        %next = stablehlo.add %i, %one : tensor<i32>
        %twice = stablehlo.add %v, %v : tensor<1xbf16>
        stablehlo.return %next, %twice : tensor<i32>, tensor<1xbf16>
      }
    return %r#1 : tensor<1xbf16>
  }
})",
                 {&x});
  out[0].to_host({one.bytes(), one.byte_size()}).wait();
  EXPECT_EQ(one.at(0), 32.0);
}

TEST_P(PluginFactsTest, RaggedDotIsRefusedWithAnError) {
  auto c = client();
  Error e = error_of([&] {
    Executable::compile(c, R"(module {
  func.func public @main(%x: tensor<4x2xf32>, %w: tensor<2x2x3xf32>, %n: tensor<2xi32>) -> tensor<4x3xf32> {
    %0 = "chlo.ragged_dot"(%x, %w, %n) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>} : (tensor<4x2xf32>, tensor<2x2x3xf32>, tensor<2xi32>) -> tensor<4x3xf32>
    return %0 : tensor<4x3xf32>
  }
})");
  });
  EXPECT_EQ(e.id(), "pjrt.call");
  EXPECT_TRUE(contains(e.what(), "PJRT_Client_Compile")) << e.what();
}

// Offloading to host memory is known to the newer plug-in only, and on CPU it proves nothing more
// than that.
TEST_P(PluginFactsTest, HostPlacementCompilesOnTheNewerOneOnly) {
  auto c = client();
  const char* text = R"(module {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @annotate_device_placement(%x) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.add %0, %x : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
})";
  if (newer()) {
    EXPECT_NO_THROW(Executable::compile(c, text));
  } else {
    EXPECT_EQ(error_of([&] { Executable::compile(c, text); }).id(), "pjrt.call");
  }
}

// Layouts pinned on both sides stay row-major, so raw copies mean what they say.
TEST_P(PluginFactsTest, DefaultLayoutModePinsRowMajor) {
  auto c = client();
  Buffer x = put<float>(c, {1, 2, 3, 4, 5, 6}, {2, 3});
  auto out = run(c, R"(module {
  func.func public @main(%x: tensor<2x3xf32> {mhlo.layout_mode = "default"})
      -> (tensor<3x2xf32> {mhlo.layout_mode = "default"}) {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    return %0 : tensor<3x2xf32>
  }
})",
                 {&x});
  std::vector<float> raw(6);
  out[0].copy_raw(std::as_writable_bytes(std::span(raw)), 0).wait();
  EXPECT_EQ(raw, (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

}  // namespace
}  // namespace strata::pjrt
