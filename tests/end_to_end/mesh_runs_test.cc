// Whole training runs over several devices.
#include <cmath>

#include "end_to_end/runs_for_test.h"
#include "strata/testing/executor.h"

namespace strata::rl {
namespace {

// Whole runs over four devices: the same steps as on one, rollouts included, and a checkpoint that
// goes on where another mesh, or one device, stopped.
TEST_F(Runs, AMeshTrainsAsOneDevice) {
  // A cold distribution: of one that is nearly flat over 49152 tokens the last bits of a sum
  // decide.
  std::string cold = "grpo.temperature=0.1";
  auto one = compiler_;
  grpo("one", {"grpo.steps=2", cold});
  write_data();
  SftSummary alone = sft("sft_one", {});
  compiler_ =
      std::make_shared<runtime::Compiler>(testing::Executor(testing::CpuPlugin::newer, 4).client(),
                                          runtime::CompilerOptions{.cache_dir = {}});
  std::string mesh = "sharding.mesh=\"fsdp=2,tensor=2\"";
  grpo("four", {"grpo.steps=2", cold, mesh});
  EXPECT_GT(*metrics("one")[1].find("loss/grad_norm"), 0);
  for (const char* name : {"loss/grad_norm", "reward/mean", "completion/mean"}) {
    for (size_t s = 0; s < 2; ++s) {
      double want = *metrics("one")[s].find(name);
      EXPECT_NEAR(*metrics("four")[s].find(name), want, 1e-3 * std::abs(want)) << name;
    }
  }
  EXPECT_LE(*metrics("four")[1].find("mismatch/max"), 1e-4);
  SftSummary half = sft("sft_four", {mesh, "sft.steps=3", "optimizer.zero=\"slots\""});
  EXPECT_EQ(half.steps, 3);
  compiler_ = one;
  SftSummary rest = sft("sft_four", {"run.resume=true"});
  EXPECT_NEAR(rest.last_loss, alone.last_loss, 1e-4 * alone.last_loss);
}

}  // namespace
}  // namespace strata::rl
