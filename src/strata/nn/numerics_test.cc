// Traps of low precision and of masks: rotary phases, the cast order of RMS norm, rows that see
// nothing, wide scores. References are plain loops in double.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "strata/nn/attention.h"
#include "strata/nn/norm.h"
#include "strata/nn/rotary.h"
#include "strata/nn/toy_for_test.h"
#include "strata/ops/constant.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"
#include "strata/transform/vjp.h"

namespace strata::nn {
namespace {

using ir::Function;
using ir::Value;
using ir::Values;

Tensors run(const Tensors& inputs, const testing::Build& build) {
  return testing::Executor().run(*testing::trace(testing::types_of(inputs), build), inputs);
}

HostTensor tensor(DType dtype, Dims dims, const std::vector<double>& values) {
  HostTensor t(dtype, std::move(dims));
  for (size_t i = 0; i < values.size(); ++i) t.set(static_cast<int64_t>(i), values[i]);
  return t;
}

double rounded(double x, DType dtype) { return tensor(dtype, {}, {x}).at(0); }
double bf16(double x) { return rounded(x, DType::bf16); }
double f32(double x) { return rounded(x, DType::f32); }

// ---- Rotary phases
// --------------------------------------------------------------------------------

constexpr int64_t kHeadDim = 128;
constexpr double kPhaseError = 4e-3;  // what rounding cos and sin alone to bf16 may cost

RotaryTable table_of_base(double theta) {
  RotaryTable table;
  for (int64_t i = 0; i < kHeadDim; i += 2) {
    table.inv_freq.push_back(std::pow(theta, -static_cast<double>(i) / kHeadDim));
  }
  return table;
}

TEST(Rotary, PhasesAreExactAtLongPositions) {
  RotaryTable table = table_of_base(1e4);
  std::vector<double> positions{1, 255, 256, 257, 4095, 32767};
  auto count = static_cast<int64_t>(positions.size());
  std::vector<double> first_half;
  for (int64_t i = 0; i < count * kHeadDim; ++i) first_half.push_back(i % kHeadDim < 64 ? 1 : 0);
  Tensors inputs;
  inputs.push_back(tensor(DType::i32, {1, count}, positions));
  inputs.push_back(tensor(DType::bf16, {1, count, 1, kHeadDim}, first_half));
  Tensors got = run(inputs, [&](Function&, const Values& v) -> Values {
    CosSin t = rotary_tables(v[0], table);
    return {t.cos, t.sin, rotate(v[1], t)};
  });
  EXPECT_EQ(got[0].dtype(), DType::f32);
  EXPECT_EQ(got[2].dtype(), DType::bf16);
  double worst = 0, low_frequency = 0, low_position = 0;
  for (int64_t p = 0; p < count; ++p) {
    for (int64_t i = 0; i < kHeadDim / 2; ++i) {
      double at = positions[static_cast<size_t>(p)], f = table.inv_freq[static_cast<size_t>(i)];
      double cos = std::cos(at * f), sin = std::sin(at * f);
      worst = std::max({worst, std::abs(got[0].at(p * 64 + i) - cos),
                        std::abs(got[1].at(p * 64 + i) - sin),
                        std::abs(got[2].at(p * kHeadDim + i) - cos),
                        std::abs(got[2].at(p * kHeadDim + 64 + i) - sin)});
      low_frequency = std::max(low_frequency, std::abs(std::cos(at * bf16(f)) - cos));
      low_position = std::max(low_position, std::abs(std::cos(bf16(at) * f) - cos));
    }
  }
  EXPECT_LT(worst, kPhaseError);
  // These inputs would show either mistake.
  EXPECT_GT(low_frequency, 0.5);
  EXPECT_GT(low_position, 0.3);
}

// ---- RMS norm
// -------------------------------------------------------------------------------------

struct NormModel : Module {
  explicit NormModel(int64_t size) : Module(nullptr, ""), norm(this, "norm", size, 1e-6, "embed") {}
  std::string describe() const override { return "NormModel"; }
  RmsNorm norm;
};

// [norm(x), and with `gradient` that of Σ norm(x) with respect to x].
Tensors normalised(HostTensor x, HostTensor weight, bool gradient = false) {
  NormModel model(weight.size());
  Structure structure(model, {});
  Tensors inputs;
  inputs.push_back(std::move(weight));
  inputs.push_back(std::move(x));
  return run(inputs, [&](Function& f, const Values& v) -> Values {
    Value y = model.norm(Context(f, structure, {v[0]}), v[1]);
    if (!gradient) return {y};
    return {y, transform::gradient(ops::reduce_sum(y, {0, 1}), {v[1]})[0]};
  });
}

TEST(RmsNorm, NormalisesInFloat32CastsThenMultipliesInBf16) {
  constexpr int64_t kSize = 64;
  testing::Random random(2);
  HostTensor x(DType::bf16, {2, kSize}), w(DType::bf16, {kSize});
  for (int64_t i = 0; i < 2 * kSize; ++i) x.set(i, random.uniform(-2, 2) * (i < kSize ? 1 : 30));
  for (int64_t i = 0; i < kSize; ++i) w.set(i, random.uniform(0.4, 1.6));
  Tensors got = normalised(x.clone(), w.clone());
  int64_t cast_last = 0, differ = 0;
  for (int64_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < kSize; ++i) sum += std::pow(x.at(row * kSize + i), 2);
    for (int64_t i = 0; i < kSize; ++i) {
      double normed = f32(x.at(row * kSize + i) / std::sqrt(sum / kSize + 1e-6));
      double want = bf16(w.at(i) * bf16(normed));
      EXPECT_EQ(got[0].at(row * kSize + i), want) << row << ", " << i;
      cast_last += bf16(w.at(i) * normed) != want ? 1 : 0;
      differ += got[0].at(row * kSize + i) != bf16(w.at(i) * normed) ? 1 : 0;
    }
  }
  EXPECT_EQ(got[0].dtype(), DType::bf16);
  EXPECT_GT(cast_last, 10);  // the inputs would show the other order
  EXPECT_EQ(differ, cast_last);
}

TEST(RmsNorm, EpsIsInsideTheRootAndZeroRowsAreFinite) {
  std::vector<double> ones(4, 1.0), small(4, 1e-4), zero(4, 0.0), weight{1, 2, -1, 0.5};
  Tensors tiny = normalised(tensor(DType::f32, {1, 4}, small), tensor(DType::f32, {4}, ones));
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(tiny[0].at(i), 1e-4 / std::sqrt(1e-8 + 1e-6), 1e-7);
  }
  Tensors none =
      normalised(tensor(DType::f32, {1, 4}, zero), tensor(DType::f32, {4}, weight), true);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(none[0].at(i), 0);
    EXPECT_NEAR(none[1].at(i), 1000 * weight[static_cast<size_t>(i)], 1e-3);
  }
}

TEST(RmsNorm, SquaresDoNotOverflow) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    Tensors got = normalised(tensor(dtype, {1, 4}, {3e4, 3e4, -3e4, 3e4}),
                             tensor(DType::f32, {4}, {1, 1, 1, 1}));
    EXPECT_EQ(got[0].at(0), 1);
    EXPECT_EQ(got[0].at(2), -1);
  }
}

// ---- Attention
// ------------------------------------------------------------------------------------

using Matrix = std::vector<std::vector<double>>;

// softmax(q kᵀ / √D) v with zeros where a row of `mask` allows nothing.
Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& mask) {
  Matrix out(q.size(), std::vector<double>(v[0].size(), 0));
  for (size_t t = 0; t < q.size(); ++t) {
    std::vector<double> score(k.size(), -INFINITY);
    double top = -INFINITY, sum = 0;
    for (size_t s = 0; s < k.size(); ++s) {
      if (mask[t][s] == 0) continue;
      score[s] = 0;
      for (size_t d = 0; d < q[t].size(); ++d) score[s] += q[t][d] * k[s][d];
      score[s] /= std::sqrt(static_cast<double>(q[t].size()));
      top = std::max(top, score[s]);
    }
    if (std::isinf(top)) continue;
    for (double& s : score) sum += s = std::exp(s - top);
    for (size_t s = 0; s < k.size(); ++s) {
      for (size_t d = 0; d < v[s].size(); ++d) out[t][d] += score[s] / sum * v[s][d];
    }
  }
  return out;
}

HostTensor heads(const Matrix& m) {
  std::vector<double> flat;
  for (const auto& row : m) flat.insert(flat.end(), row.begin(), row.end());
  return tensor(DType::f32, {1, static_cast<int64_t>(m.size()), 1, 2}, flat);
}

HostTensor mask_of(const Matrix& m) {
  std::vector<double> flat;
  for (const auto& row : m) flat.insert(flat.end(), row.begin(), row.end());
  auto rows = static_cast<int64_t>(m.size()), columns = static_cast<int64_t>(m[0].size());
  return tensor(DType::pred, {1, rows, columns}, flat);
}

const Matrix kQ{{1, 0}, {0, 1}, {1, 1}, {2, -1}}, kK{{1, 2}, {3, -1}, {0, 1}, {1, 1}};
const Matrix kV{{1, 0}, {0, 1}, {1, 1}, {-1, 2}};
const Matrix kHole{{1, 0, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 0}, {1, 1, 1, 1}};

// attend(q, k, v) in `dtype`, and the gradients of Σ out[counted rows] · weights.
Tensors attended(const Matrix& q, const Matrix& mask, const std::vector<double>& counted,
                 DType dtype = DType::f32) {
  Tensors inputs;
  inputs.push_back(heads(q));
  inputs.push_back(heads(kK));
  inputs.push_back(heads(kV));
  inputs.push_back(mask_of(mask));
  std::vector<double> weights;
  for (double c : counted) weights.insert(weights.end(), {c * 0.7, c * -1.3});
  auto rows = static_cast<int64_t>(q.size());
  inputs.push_back(tensor(DType::f32, {1, rows, 2}, weights));
  return run(inputs, [&](Function&, const Values& v) -> Values {
    Values low;
    for (size_t i = 0; i < 3; ++i) low.push_back(ops::convert(v[i], dtype));
    Value out = ops::convert(attend(low[0], low[1], low[2], v[3]), DType::f32);
    Value loss = ops::reduce_sum(out * v[4], {0, 1, 2});
    Values all{out};
    for (const Value& g : transform::gradient(loss, {v[0], v[1], v[2]})) all.push_back(g);
    return all;
  });
}

void expect_near(const HostTensor& got, const Matrix& want, double tolerance) {
  for (size_t t = 0; t < want.size(); ++t) {
    for (size_t d = 0; d < 2; ++d) {
      EXPECT_NEAR(got.at(static_cast<int64_t>(2 * t + d)), want[t][d], tolerance) << t << "," << d;
    }
  }
}

TEST(Attention, ARowThatSeesNothingGivesZerosAndTouchesNoGradient) {
  Tensors all = attended(kQ, kHole, {1, 1, 1, 1});
  expect_near(all[0], attention(kQ, kK, kV, kHole), 1e-6);
  EXPECT_EQ(all[0].at(2), 0);
  EXPECT_EQ(all[0].at(3), 0);
  Tensors rest = attended({kQ[0], kQ[2], kQ[3]}, {kHole[0], kHole[2], kHole[3]}, {1, 1, 1});
  constexpr std::array<int64_t, 3> kSeen{0, 2, 3};
  for (int64_t d = 0; d < 2; ++d) {
    EXPECT_EQ(all[1].at(2 + d), 0);
    for (size_t t = 0; t < kSeen.size(); ++t) {
      EXPECT_NEAR(all[1].at(2 * kSeen[t] + d), rest[1].at(2 * static_cast<int64_t>(t) + d), 1e-6);
    }
  }
  for (size_t which : {2u, 3u}) {
    for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR(all[which].at(i), rest[which].at(i), 1e-6);
  }
}

TEST(Attention, PaddingNeverGivesNaN) {
  Matrix nothing(4, std::vector<double>(4, 0)), left = nothing;
  left[3][3] = 1;  // three of padding, then one token
  for (const Matrix& mask : {nothing, left}) {
    for (DType dtype : {DType::f32, DType::bf16}) {
      Tensors got = attended(kQ, mask, {1, 1, 1, 1}, dtype);
      expect_near(got[0], attention(kQ, kK, kV, mask), 1e-6);
      for (const HostTensor& t : got) {
        for (int64_t i = 0; i < t.size(); ++i) EXPECT_TRUE(std::isfinite(t.at(i)));
      }
    }
  }
}

TEST(Attention, ScoresMayLieFarApart) {
  Matrix q = kQ;
  for (auto& row : q) {
    for (double& x : row) x *= 1e4;
  }
  for (DType dtype : {DType::f32, DType::bf16}) {
    Tensors got = attended(q, kHole, {1, 1, 1, 1}, dtype);
    if (dtype == DType::f32) expect_near(got[0], attention(q, kK, kV, kHole), 1e-6);
    for (const HostTensor& t : got) {
      for (int64_t i = 0; i < t.size(); ++i) EXPECT_TRUE(std::isfinite(t.at(i)));
    }
  }
}

}  // namespace
}  // namespace strata::nn
