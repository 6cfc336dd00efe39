// Memory of the gradient of a scanned stack under remat full: each further layer may cost its
// carry and little else.
#include <gtest/gtest.h>

#include "strata/nn/attention.h"
#include "strata/nn/mlp.h"
#include "strata/nn/norm.h"
#include "strata/nn/rotary.h"
#include "strata/nn/toy_for_test.h"
#include "strata/ops/reduce.h"
#include "strata/transform/vjp.h"

namespace strata::nn {
namespace {

constexpr int64_t kHidden = 64, kTokens = 256, kRows = 2;

class DecoderLayer : public Layer {
 public:
  DecoderLayer(Module* parent, std::string name)
      : Layer(parent, std::move(name)),
        norm_(this, "norm", kHidden, 1e-6, "embed"),
        attention_(this, "attention", {kHidden, 4, 2, 16}),
        mlp_norm_(this, "mlp_norm", kHidden, 1e-6, "embed"),
        mlp_(this, "mlp", kHidden, 4 * kHidden, false) {}

  LayerResult forward(const Context& context, const ir::Values& carry, const ir::Values&,
                      const TokenContext& tokens) const override {
    ir::Value h = carry[0];
    h = h + attention_(context, norm_(context, h), tokens).out;
    return {{h + mlp_(context, mlp_norm_(context, h))}, {}};
  }
  std::string describe() const override { return "DecoderLayer"; }

 private:
  RmsNorm norm_;
  Attention attention_;
  RmsNorm mlp_norm_;
  GatedMlp mlp_;
};

struct Decoder : Module {
  explicit Decoder(int64_t layers) : Module(nullptr, ""), stack(this, "layers") {
    for (int64_t i = 0; i < layers; ++i) stack.emplace<DecoderLayer>();
  }
  std::string describe() const override { return "Decoder"; }
  LayerStack stack;
};

int64_t temporaries(const testing::Executor& executor, int64_t layers, const std::string& remat) {
  Decoder model(layers);
  Structure structure(model, {ScanMode::force, 0, ops::parse_remat(remat)});
  std::vector<ir::Type> types;
  for (const sharding::Slot& s : structure.manifest().slots()) {
    types.push_back({DType::f32, s.type.sizes()});
  }
  types.push_back({DType::f32, {kRows, kTokens, kHidden}});
  types.push_back({DType::i32, {kRows, kTokens}});
  auto f = testing::trace(types, [&](ir::Function& g, const ir::Values& v) {
    ir::Values parameters(v.begin(), v.end() - 2);
    RotaryTable table{std::vector<double>(8, 0.1), 1.0};
    CosSin rotary = rotary_tables(v.back(), table);
    TokenContext tokens{rotary.cos, rotary.sin, segment_mask(v.back())};
    Context context(g, structure, parameters);
    ir::Value h = model.stack.run(context, {v[v.size() - 2]}, {}, tokens).carry[0];
    return transform::gradient(ops::reduce_sum(h * h, {0, 1, 2}), parameters);
  });
  auto stats = executor.compile(*f).memory_stats();
  EXPECT_TRUE(stats.value.has_value()) << stats.declined;
  return stats.value ? stats.value->temporaries : 0;
}

TEST(Memory, OneMoreLayerCostsItsCarryUnderRematFull) {
  testing::Executor executor;
  constexpr int64_t kCarry = kRows * kTokens * kHidden * 4;
  int64_t four = temporaries(executor, 4, "full");
  int64_t eight = temporaries(executor, 8, "full");
  int64_t sixteen = temporaries(executor, 16, "full");
  EXPECT_LE((eight - four) / 4, kCarry * 3 / 2);
  EXPECT_LE((sixteen - eight) / 8, kCarry * 3 / 2);
  EXPECT_GE((sixteen - eight) / 8, kCarry / 2) << "no layer's carry is kept: what was measured?";
  // Without remat every layer also keeps its attention weights.
  EXPECT_GE((temporaries(executor, 8, "none") - temporaries(executor, 4, "none")) / 4, 10 * kCarry);
}

}  // namespace
}  // namespace strata::nn
