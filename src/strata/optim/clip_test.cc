#include "strata/optim/clip.h"

#include <fmt/format.h>

#include <limits>

#include "strata/optim/step_for_test.h"
#include "strata/testing/random.h"

namespace strata::optim {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

double run_one(const Tensors& leaves, ir::Value (*measure)(ir::Function&, const ir::Values&)) {
  auto f =
      testing::trace(testing::types_of(leaves), [&](ir::Function& function, const ir::Values& in) {
        return ir::Values{measure(function, in)};
      });
  return newer_plugin().run(*f, leaves)[0].at(0);
}

TEST(Clip, SquaresAreSummedInFloat32WhateverTheLeaves) {
  std::vector<float> ones(1000, 1);
  for (DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    Tensors leaves;
    leaves.push_back(convert(tensor(ones, {10, 100}), dtype));
    EXPECT_EQ(run_one(leaves, sum_of_squares), 1000);
  }
}

TEST(Clip, LeavesOfEveryRankCountOnce) {
  Tensors leaves;
  leaves.push_back(HostTensor::scalar(2.0f));
  leaves.push_back(HostTensor(DType::f32, {0, 3}));
  leaves.push_back(tensor({1, 2, 2, 4}, {2, 2}));
  EXPECT_EQ(run_one(leaves, sum_of_squares), 29);
  EXPECT_EQ(run_one({}, sum_of_squares), 0);
}

TEST(Clip, LongSumsKeepSixDigits) {
  testing::Random random(testing::test_seed());
  Tensors leaves;
  leaves.push_back(random.tensor(DType::f32, {1024, 512}));
  double want = 0;
  for (int64_t i = 0; i < leaves[0].size(); ++i) want += leaves[0].at(i) * leaves[0].at(i);
  EXPECT_NEAR(run_one(leaves, sum_of_squares), want, 1e-6 * want);
}

TEST(Clip, FiniteMeansEveryElement) {
  for (float bad : {kNan, kInf, -kInf}) {
    Tensors leaves;
    leaves.push_back(tensor({1, -2}));
    leaves.push_back(tensor({1e30f, -1e30f, 3}));
    EXPECT_EQ(run_one(leaves, all_finite), 1);
    leaves[1].set(2, bad);
    EXPECT_EQ(run_one(leaves, all_finite), 0);
    leaves[0].set(0, -bad);
    EXPECT_EQ(run_one(leaves, all_finite), 0);
  }
  EXPECT_EQ(run_one({}, all_finite), 1);
}

TEST(Clip, ScaleIsOneUpToTheLimit) {
  auto f = testing::trace({{}, {}}, [](ir::Function&, const ir::Values& in) {
    return ir::Values{clip_scale(in[0], in[1])};
  });
  pjrt::Executable program = newer_plugin().compile(*f);
  auto scale = [&](float norm, float limit) {
    Tensors in;
    in.push_back(HostTensor::scalar(norm));
    in.push_back(HostTensor::scalar(limit));
    return newer_plugin().run(program, in)[0].at(0);
  };
  EXPECT_EQ(scale(0, 1), 1);
  EXPECT_EQ(scale(1, 1), 1);
  EXPECT_EQ(scale(4, 1), 0.25);
  EXPECT_EQ(scale(1e30f, kInf), 1);
  EXPECT_TRUE(std::isnan(scale(kNan, 1)));
  EXPECT_TRUE(std::isnan(scale(kNan, kInf)));
}

// The norm's square over `devices`: one gradient sharded, one replicated on each of them.
double squares_on_mesh(int devices) {
  std::vector<float> sharded = {3, 0, 4, 12, 0, 0, 0, 0}, replicated = {0.8f};
  auto f = testing::trace(
      {{DType::f32, {8}}, {DType::f32, {1}}},
      [](ir::Function& function, const ir::Values& in) {
        return ir::Values{sum_of_squares(function, in)};
      },
      fmt::format("  sdy.mesh @mesh = <[\"tp\"={}]>", devices));
  f->num_partitions = devices;
  f->argument_ports()[0].attributes = "sdy.sharding = #sdy.sharding<@mesh, [{\"tp\"}]>";
  f->argument_ports()[1].attributes = "sdy.sharding = #sdy.sharding<@mesh, [{}]>";
  testing::Executor executor(testing::CpuPlugin::newer, devices);
  const auto& client = executor.client();
  auto program =
      pjrt::Executable::compile(client, ir::print_module(*f), {.num_partitions = devices});
  std::vector<pjrt::Buffer> buffers;
  int64_t share = 8 / devices;
  for (int d = 0; d < devices; ++d) {
    const pjrt::Device& device = client->devices()[static_cast<size_t>(d)];
    auto part =
        std::span(sharded).subspan(static_cast<size_t>(d * share), static_cast<size_t>(share));
    for (std::span<float> x : {part, std::span(replicated)}) {
      Dims dims = {static_cast<int64_t>(x.size())};
      buffers.push_back(
          pjrt::Buffer::from_host(client, device, DType::f32, dims, std::as_bytes(x)).buffer);
    }
  }
  std::vector<const pjrt::Buffer*> arguments;
  for (const pjrt::Buffer& b : buffers) arguments.push_back(&b);
  pjrt::Execution run = program.execute(arguments);
  float value = 0;
  run.outputs.at(0).to_host(std::as_writable_bytes(std::span(&value, 1))).wait();
  return value;
}

// Case B3: the replicated 0.8 counts once, on any number of devices.
TEST(Clip, ReplicasCountOnce) {
  for (int devices : {1, 2, 4, 8}) {
    EXPECT_NEAR(std::sqrt(squares_on_mesh(devices)), 13.024592, 1e-6 * 13) << devices;
  }
}

}  // namespace
}  // namespace strata::optim
