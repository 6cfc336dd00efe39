#include "strata/checkpoint/load_parameters.h"

#include <cmath>
#include <limits>

#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::checkpoint {
namespace {

using weights::expect_error;
using weights::NamedTensor;

class LoadParametersTest : public ::testing::Test {
 protected:
  // Writes layers 0 and 1 of "w" (2x2) in `dtype` and loads them stacked at `axis`.
  HostTensor load(DType dtype, int64_t axis, float special) {
    HostTensor first = convert(HostTensor::of<float>({2, 2}, {1, 2, 3, special}), dtype);
    HostTensor second = convert(HostTensor::of<float>({2, 2}, {5, 6, 7, -0.5f}), dtype);
    std::vector<NamedTensor> tensors = {{"model.layers.0.w", &first},
                                        {"model.layers.1.w", &second}};
    weights::write_safetensors(scratch_ / "w.safetensors", tensors);
    auto source = weights::open_source(scratch_ / "w.safetensors");
    sharding::Manifest model = manifest_of(tensors_of(*source), axis);
    return load_parameters(model, *source, client_, options_)[0].get();
  }
  weights::ScratchDirectory scratch_;
  runtime::ClientPtr client_ = new_client();
  LoadOptions options_;
};

TEST_F(LoadParametersTest, StacksAndWidensExactly) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    HostTensor outer = load(dtype, 0, 4), inner = load(dtype, -1, 4);
    EXPECT_EQ(outer.dims(), (Dims{2, 2, 2}));
    auto a = outer.data<float>(), b = inner.data<float>();
    EXPECT_EQ(std::vector<float>(a.begin(), a.end()),
              (std::vector<float>{1, 2, 3, 4, 5, 6, 7, -0.5f}));
    EXPECT_EQ(std::vector<float>(b.begin(), b.end()),
              (std::vector<float>{1, 5, 2, 6, 3, 7, 4, -0.5f}));
  }
}

TEST_F(LoadParametersTest, RefusesWhatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    expect_error([&] { load(dtype, 0, nan); }, "checkpoint.not_finite",
                 "tensor 'model.layers.0.w': expected finite weights, got nan at element 3");
    expect_error([&] { load(dtype, 0, -inf); }, "checkpoint.not_finite", "-inf at element 3");
  }
  options_.check_finite = false;
  EXPECT_TRUE(std::isnan(load(DType::bf16, 0, nan).data<float>()[3]));
}

TEST_F(LoadParametersTest, ListsWhatDoesNotFit) {
  auto source = weights::open_source(oracle_path("qwen3_tied") / "model.safetensors");
  std::vector<weights::Wanted> wanted = tensors_of(*source);
  wanted[0].dims.push_back(2);
  wanted[1].name = "model.none";
  sharding::Manifest model = manifest_of(wanted, std::nullopt);
  expect_error([&] { load_parameters(model, *source, client_); }, "weights.mismatch",
               "missing (model.none)");
}

}  // namespace
}  // namespace strata::checkpoint
