// bfloat16: as the type inside the model while parameters and optimiser state stay float32, and as
// the type of the stored weights, which loading widens.
#include <cmath>
#include <filesystem>

#include "end_to_end/runs_for_test.h"
#include "strata/base/json.h"
#include "strata/weights/safetensors_writer.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

class Bf16 : public Runs {
 protected:
  // Rounds the model's weights to bfloat16 and stores them as `dtype`.
  void store_rounded(DType dtype) const {
    fs::path file = dir_ / "model/model.safetensors";
    auto source = weights::open_source(file);
    std::vector<HostTensor> tensors;
    std::vector<weights::NamedTensor> named;
    for (const weights::TensorView& view : source->tensors()) {
      HostTensor rounded = convert(weights::to_host(view), DType::bf16);
      tensors.push_back(dtype == DType::bf16 ? std::move(rounded) : convert(rounded, dtype));
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      named.push_back({std::string(source->tensors()[i].name), &tensors[i]});
    }
    weights::write_safetensors(dir_ / "rounded", named);
    source.reset();
    fs::rename(dir_ / "rounded", file);
  }
  // Largest and smallest change of a parameter by the run.
  std::pair<double, double> changes(const std::string& output) const {
    auto before = weights::open_source(dir_ / "model");
    auto after = weights::open_source(dir_ / output / "export");
    double largest = 0, moved = 0, all = 0;
    for (const weights::TensorView& view : before->tensors()) {
      HostTensor a = weights::to_host(view), b = weights::to_host(after->get(view.name));
      EXPECT_EQ(b.dtype(), DType::f32) << view.name;
      for (int64_t i = 0; i < a.size(); ++i) {
        double change = std::abs(a.at(i) - b.at(i));
        largest = std::max(largest, change);
        moved += change > 0 ? 1 : 0;
        ++all;
      }
    }
    return {largest, moved / all};
  }
};

// 8 bits of mantissa: each product errs by up to 0.4 %, and a mean of many losses by far less.
TEST_F(Bf16, SftLearnsAsInFloat32) {
  write_data();
  SftSummary exact = sft("f32", {}), rounded = sft("bf16", {"train.compute=bf16"});
  EXPECT_NEAR(rounded.first_loss, exact.first_loss, 0.004 * exact.first_loss);
  EXPECT_NE(rounded.first_loss, exact.first_loss);
  EXPECT_LT(exact.last_loss, exact.first_loss - 1);
  double learnt = exact.first_loss - exact.last_loss;
  EXPECT_NEAR(rounded.first_loss - rounded.last_loss, learnt, 0.05 * learnt);
}

// Steps of 1e-6 are far below bfloat16's spacing at these weights (up to 0.1: 5e-4).
TEST_F(Bf16, MastersKeepSmallSteps) {
  write_data();
  sft("a", {"train.compute=bf16", "optimizer.lr=1e-6", "optimizer.weight_decay=0"});
  auto [largest, moved] = changes("a");
  EXPECT_GT(largest, 1e-6);
  EXPECT_LT(largest, 1e-5);  // six steps
  EXPECT_GT(moved, 0.01);
}

TEST_F(Bf16, GrpoTrains) {
  std::vector<std::string> options{"train.compute=bf16"};
  GrpoSummary s = grpo("a", options);
  EXPECT_EQ(s.steps, 4);
  for (const StepMetrics& m : metrics("a")) {
    for (const Scalar& v : m.scalars) EXPECT_TRUE(std::isfinite(v.value)) << v.name;
    EXPECT_GT(m.find("loss/grad_norm").value_or(0), 0);
    // Logits of about 1 from bfloat16 activations, against the sampler's float32.
    EXPECT_LE(m.find("mismatch/max").value_or(1), 0.05);
    EXPECT_GT(m.find("mismatch/max").value_or(0), 1e-5);
  }
  grpo("parts", options, 2);
  grpo("parts", {"train.compute=bf16", "run.resume=true"});
  EXPECT_EQ(state("parts", 4), state("a", 4));
}

// A directory of bfloat16 weights trains as one of the same values in float32.
TEST_F(Bf16, StoredWeightsAreWidened) {
  write_data();
  store_rounded(DType::bf16);
  SftSummary narrow = sft("narrow", {});
  grpo("narrow_grpo", {"grpo.steps=2"});
  store_rounded(DType::f32);
  SftSummary wide = sft("wide", {});
  grpo("wide_grpo", {"grpo.steps=2"});
  EXPECT_EQ(narrow.first_loss, wide.first_loss);
  EXPECT_EQ(state("narrow", 6), state("wide", 6));
  EXPECT_EQ(state("narrow_grpo", 2), state("wide_grpo", 2));
  Json config = read_json(dir_ / "narrow/export/config.json");
  EXPECT_EQ(config.at("torch_dtype"), "float32");
}

}  // namespace
}  // namespace strata::rl
