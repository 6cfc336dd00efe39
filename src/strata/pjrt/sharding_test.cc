// Programs over several devices: sharded by Shardy, checked by what each device holds.
#include <fmt/format.h>

#include <map>

#include "strata/pjrt/test_support.h"

namespace strata::pjrt {
namespace {

class ShardingTest : public OnBothPlugins {};
INSTANTIATE_TEST_SUITE_P(Plugins, ShardingTest, ::testing::ValuesIn(kPlugins), plugin_label);

// Sums an f32[n, 4] over its rows, which are split over `devices`; with `gather` it returns the
// whole array on each device instead.
std::string row_program(int devices, int rows, bool gather) {
  std::string type = fmt::format("tensor<{}x4xf32>", rows);
  std::string body =
      gather ? fmt::format("    return %x : {}\n", type)
             : fmt::format(
                   "    %zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
                   "    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across "
                   "dimensions = [0] : ({}, tensor<f32>) -> tensor<4xf32>\n"
                   "    return %0 : tensor<4xf32>\n",
                   type);
  return fmt::format(R"(module @rows {{
  sdy.mesh @mesh = <["data"={}]>
  func.func public @main(%x: {} {{sdy.sharding = #sdy.sharding<@mesh, [{{"data"}}, {{}}]>}})
      -> ({} {{sdy.sharding = #sdy.sharding<@mesh, [{}]>}}) {{
{}  }}
}})",
                     devices, type, gather ? type : "tensor<4xf32>", gather ? "{}, {}" : "{}",
                     body);
}

std::map<std::string, int> count_kinds(const Executable& e) {
  std::map<std::string, int> counts;
  for (const Collective& c : e.optimized_program().collectives()) ++counts[c.kind];
  return counts;
}

// Row r of `rows`/`devices` on each device holds 4 times the row's number.
std::vector<Buffer> put_rows(const std::shared_ptr<const Client>& c,
                             const std::vector<int>& devices, int rows) {
  int each = rows / static_cast<int>(devices.size());
  std::vector<Buffer> buffers;
  for (size_t d = 0; d < devices.size(); ++d) {
    std::vector<float> values;
    for (int r = 0; r < each; ++r) {
      values.insert(values.end(), 4, static_cast<float>(static_cast<int>(d) * each + r));
    }
    buffers.push_back(put<float>(c, values, {each, 4}, devices[d]));
  }
  return buffers;
}

std::vector<const Buffer*> pointers(const std::vector<Buffer>& buffers) {
  std::vector<const Buffer*> all;
  for (const Buffer& b : buffers) all.push_back(&b);
  return all;
}

TEST_P(ShardingTest, SumsOverDevicesByOneAllReduce) {
  for (int devices : {4, 8}) {
    SCOPED_TRACE(devices);
    auto c = client(devices);
    Executable sum =
        Executable::compile(c, row_program(devices, 16, false), {.num_partitions = devices});
    ASSERT_EQ(sum.device_ids().size(), static_cast<size_t>(devices));
    std::vector<Collective> collectives = sum.optimized_program().collectives();
    ASSERT_EQ(collectives.size(), 1u);
    EXPECT_EQ(collectives[0].kind, "all-reduce");
    EXPECT_EQ(collectives[0].bytes, 16);
    std::vector<Buffer> x = put_rows(c, sum.device_ids(), 16);
    Execution run = sum.execute(pointers(x));
    ASSERT_EQ(run.outputs.size(), static_cast<size_t>(devices));
    ASSERT_EQ(run.done.size(), static_cast<size_t>(devices));
    for (const Buffer& out : run.outputs) EXPECT_EQ(get<float>(out), std::vector<float>(4, 120));
  }
}

// The counter-example of the probe above: this one must gather.
TEST_P(ShardingTest, GathersWhenTheResultIsWhole) {
  auto c = client(4);
  Executable whole = Executable::compile(c, row_program(4, 16, true), {.num_partitions = 4});
  EXPECT_EQ(count_kinds(whole), (std::map<std::string, int>{{"all-gather", 1}}));
  EXPECT_EQ(whole.optimized_program().collectives()[0].bytes, 16 * 4 * 4);
  std::vector<Buffer> x = put_rows(c, whole.device_ids(), 16);
  Execution run = whole.execute(pointers(x));
  std::vector<float> all = get<float>(run.outputs[3]);
  ASSERT_EQ(all.size(), 64u);
  EXPECT_EQ(all[5], 1);
  EXPECT_EQ(all[63], 15);
}

TEST_P(ShardingTest, TheSignatureIsThatOfOneDevice) {
  auto c = client(4);
  Executable whole = Executable::compile(c, row_program(4, 16, true), {.num_partitions = 4});
  OptimizedProgram program = whole.optimized_program();
  ASSERT_EQ(program.parameters.size(), 1u);
  EXPECT_EQ(program.parameters[0].text(), "f32[4,4]");
  ASSERT_EQ(program.results.size(), 1u);
  EXPECT_EQ(program.results[0].text(), "f32[16,4]");
}

// A dim that its axes do not divide is replicated without a word: the per-device signature is how
// the caller finds out.
TEST_P(ShardingTest, AnIndivisibleDimShowsAsReplicated) {
  auto c = client(2);
  Executable sum = Executable::compile(c, row_program(2, 7, false), {.num_partitions = 2});
  EXPECT_EQ(sum.optimized_program().parameters.at(0).text(), "f32[7,4]");
  Executable even = Executable::compile(c, row_program(2, 8, false), {.num_partitions = 2});
  EXPECT_EQ(even.optimized_program().parameters.at(0).text(), "f32[4,4]");
}

TEST_P(ShardingTest, ArgumentsFollowTheDeviceAssignment) {
  auto c = client(4);
  CompileOptions options{.num_partitions = 4, .device_ids = {3, 1, 0, 2}};
  Executable whole = Executable::compile(c, row_program(4, 4, true), options);
  EXPECT_EQ(whole.device_ids(), (std::vector<int>{3, 1, 0, 2}));
  std::vector<Buffer> x = put_rows(c, whole.device_ids(), 4);
  Execution run = whole.execute(pointers(x));
  for (size_t d = 0; d < 4; ++d) {
    EXPECT_EQ(run.outputs[d].device_id(), whole.device_ids()[d]);
    EXPECT_EQ(get<float>(run.outputs[d])[4 * 2], 2);
  }
}

TEST_P(ShardingTest, EightDevicesSumToTheSameBitsEveryTime) {
  auto c = client(8);
  Executable sum = Executable::compile(c, row_program(8, 8, false), {.num_partitions = 8});
  std::vector<Buffer> x;
  for (int d = 0; d < 8; ++d) {
    std::vector<float> values;
    for (int i = 0; i < 4; ++i) values.push_back(1.0f / static_cast<float>(3 + 7 * d + i));
    x.push_back(put<float>(c, values, {1, 4}, d));
  }
  std::vector<float> first = get<float>(sum.execute(pointers(x)).outputs[0]);
  for (int run = 0; run < 7; ++run) {
    EXPECT_EQ(get<float>(sum.execute(pointers(x)).outputs[run]), first);
  }
}

TEST_P(ShardingTest, ShardedProgramsSerialise) {
  auto c = client(4);
  std::string blob =
      Executable::compile(c, row_program(4, 16, false), {.num_partitions = 4}).serialize();
  Executable sum = Executable::deserialize(c, blob);
  ASSERT_EQ(sum.device_ids().size(), 4u);
  std::vector<Buffer> x = put_rows(c, sum.device_ids(), 16);
  EXPECT_EQ(get<float>(sum.execute(pointers(x)).outputs[2]), std::vector<float>(4, 120));
}

TEST_P(ShardingTest, APlanForMoreDevicesThanThereAreIsAnError) {
  auto c = client(2);
  Error e =
      error_of([&] { Executable::compile(c, row_program(4, 16, false), {.num_partitions = 4}); });
  EXPECT_EQ(e.id(), "pjrt.call");
  EXPECT_TRUE(contains(e.what(), "PJRT_Client_Compile")) << e.what();
}

TEST_P(ShardingTest, ArgumentsMustCoverEveryDevice) {
  auto c = client(4);
  Executable sum = Executable::compile(c, row_program(4, 16, false), {.num_partitions = 4});
  std::vector<Buffer> x = put_rows(c, {0, 1, 2}, 12);
  Error e = error_of([&] { sum.execute(pointers(x)); });
  EXPECT_EQ(e.id(), "pjrt.argument_count");
  EXPECT_TRUE(contains(e.what(), "each of 4 devices, got 3 arguments")) << e.what();
}

}  // namespace
}  // namespace strata::pjrt
