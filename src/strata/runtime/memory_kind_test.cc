// Programs that keep values in another memory than their device's own.
#include <gtest/gtest.h>

#include <algorithm>

#include "strata/pjrt/test_support.h"
#include "strata/runtime/compile.h"
#include "strata/runtime/executor.h"

namespace strata::runtime {
namespace {

// Its argument, which waits in memory `kind`, plus itself.
std::string text_with(const std::string& kind) {
  std::string text = R"(module {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @annotate_device_placement(%x) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "KIND"}} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.add %0, %x : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
})";
  return text.replace(text.find("KIND"), 4, kind);
}

class MemoryKind : public pjrt::OnBothPlugins {};
INSTANTIATE_TEST_SUITE_P(Plugins, MemoryKind, ::testing::ValuesIn(pjrt::kPlugins),
                         pjrt::plugin_label);

TEST_P(MemoryKind, OneThatTheDeviceLacksIsUnimplementedByName) {
  Compiler compiler(client(), {.cache_dir = {}});
  Error e = pjrt::error_of([&] { compiler.compile(text_with("attic"), {.name = "p"}); });
  EXPECT_EQ(e.id(), "runtime.memory_kind");
  EXPECT_EQ(e.code(), Code::unimplemented);
  EXPECT_TRUE(pjrt::contains(e.what(), "'attic'")) << e.what();
  EXPECT_TRUE(pjrt::contains(e.what(), "device")) << e.what();
}

// The older plug-in lists host memory too, but its compiler has no placement: it refuses.
TEST_P(MemoryKind, ValuesMayWaitInHostMemory) {
  std::vector<std::string> kinds = client()->memory_kinds(client()->devices()[0]);
  EXPECT_EQ(kinds.front(), "device");
  EXPECT_NE(std::find(kinds.begin(), kinds.end(), "pinned_host"), kinds.end());
  Compiler compiler(client(), {.cache_dir = {}});
  auto compile = [&] { return compiler.compile(text_with("pinned_host"), {.name = "p"}); };
  if (!newer()) {
    EXPECT_EQ(pjrt::error_of(compile).id(), "pjrt.call");
    return;
  }
  std::vector<HostTensor> arguments;
  arguments.push_back(HostTensor::of<float>({4}, std::vector<float>{1, 2, 3, 4}));
  std::vector<HostTensor> results = run_on_host(compile(), arguments);
  EXPECT_EQ(results.at(0).at(3), 8.0);
}

}  // namespace
}  // namespace strata::runtime
