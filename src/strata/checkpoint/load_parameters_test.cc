#include "strata/checkpoint/load_parameters.h"

#include <cmath>
#include <limits>

#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/checkpoint/tied_names.h"
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

// A file that holds a tied parameter under both names: accepted when they are the same.
TEST_F(LoadParametersTest, BothNamesOfATiedParameter) {
  HostTensor embed = HostTensor::of<float>({2, 2}, {1, 2, 3, 4});
  HostTensor other = HostTensor::of<float>({2, 2}, {1, 2, 3, 5});
  HostTensor wide = HostTensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor narrow = convert(embed, DType::bf16);
  sharding::Manifest model(
      {{"embed.weight", sharding::Kind::param, sharding::plain_type(DType::f32, {2, 2})}},
      {{"lm_head.weight", "embed.weight"}}, {});
  auto load = [&](const HostTensor& head) {
    std::vector<NamedTensor> tensors = {{"embed.weight", &embed}, {"lm_head.weight", &head}};
    weights::write_safetensors(scratch_ / "w.safetensors", tensors);
    auto source = weights::open_source(scratch_ / "w.safetensors");
    return load_parameters(model, *source, client_)[0].get().at(3);
  };
  EXPECT_EQ(load(embed), 4);
  for (const HostTensor* head : {&other, &wide, &narrow}) {
    expect_error([&] { load(*head); }, "checkpoint.tied",
                 "'lm_head.weight' with the bits of 'embed.weight'");
  }
}

// The second names of a stack's layers, of one owner each or of one for all.
TEST_F(LoadParametersTest, TiedNamesAreUnstacked) {
  using Names = std::vector<std::pair<std::string, std::string>>;
  sharding::ParamType one = sharding::plain_type(DType::f32, {2});
  sharding::Dim dim{2, sharding::Role::layer, "layers", {}};
  sharding::LayerPlan plan{"s", {{0, 1, 2, true}}};
  std::string stacked = plan.stacked_name(0, 0, "w");
  sharding::Manifest each(
      {{stacked, sharding::Kind::param, insert_layer_dim(one, 0, dim, stacked)}},
      {{plan.stacked_name(0, 0, "v"), stacked}}, {plan});
  EXPECT_EQ(tied_names(each), (Names{{"s.0.v", "s.0.w"}, {"s.1.v", "s.1.w"}}));
  sharding::Manifest all({{"w", sharding::Kind::param, one}}, {{plan.stacked_name(0, 0, "v"), "w"}},
                         {plan});
  EXPECT_EQ(tied_names(all), (Names{{"s.0.v", "w"}, {"s.1.v", "w"}}));
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
