// The programs of a model with adapters: the base has no gradient and no optimiser state.
#include "strata/rl/adapters.h"

#include <gtest/gtest.h>

#include "strata/base/strings.h"
#include "strata/nn/lora.h"
#include "strata/rl/engine_for_test.h"
#include "strata/rl/optimizer_config.h"
#include "strata/runtime/memory_report.h"
#include "strata/transform/lower.h"

namespace strata::rl {
namespace {

using sharding::Kind;

struct Traced {
  std::unique_ptr<models::CausalLm> model;
  std::unique_ptr<nn::Structure> structure;
  std::unique_ptr<ir::Function> gradients, update;
  std::string text;
  int64_t slot_elements = 0;

  explicit Traced(const std::vector<std::string>& targets, nn::ScanMode scan) {
    model = models::build_model(oracle_path("qwen3"));
    if (!targets.empty()) model->apply(nn::Lora({.rank = 3, .alpha = 6, .targets = targets}));
    structure = std::make_unique<nn::Structure>(
        *model, nn::ScanOptions{scan, 0, ops::parse_remat("dots")}, model->ties());
    Config config = Config::from_text("[optimizer]\nlr = 1e-3\n", "test");
    optim::UpdatePlan plan = make_plan(read_optimizer(config), structure->manifest());
    for (const optim::SlotSpec& s : plan.slots()) slot_elements += s.type.elements();
    TrainOptions options;
    options.loss = LossKind::cross_entropy;
    ModelView view{model.get(), structure.get()};
    gradients = gradients_function(view, plan, {2, 16, 32}, options, false);
    update = update_function(plan);
    text = transform::program_text(*gradients);
  }

  int64_t elements(Kind kind) const { return structure->manifest().elements(kind); }
  // Elements of the float results, scalars and metrics aside.
  static int64_t results(const ir::Function& f) {
    int64_t sum = 0;
    for (const ir::Value& v : f.top().results) {
      if (v.rank() > 1) sum += element_count(v.dims());
    }
    return sum;
  }
  // Lines that put a layer's part into a stack of all layers' kernels of this size.
  int64_t stacked_gradients(int64_t rows, int64_t columns) const {
    std::string type = "tensor<" + std::to_string(model->config().layers) + "x" +
                       std::to_string(rows) + "x" + std::to_string(columns) + "xf32>";
    int64_t count = 0;
    for (const std::string& line : split(text, '\n')) {
      bool writes = line.find("dynamic_update_slice") != std::string::npos;
      count += writes && line.find(type) != std::string::npos ? 1 : 0;
    }
    return count;
  }
};

TEST(AdapterPrograms, HaveNoGradientsAndNoSlotsOfTheBase) {
  for (nn::ScanMode scan : {nn::ScanMode::automatic, nn::ScanMode::off}) {
    Traced adapted({"*_proj"}, scan), full({}, scan);
    int64_t adapters = adapted.elements(Kind::adapter);
    EXPECT_GT(adapters, 0);
    EXPECT_EQ(adapted.slot_elements, 2 * adapters);
    EXPECT_EQ(Traced::results(*adapted.gradients), adapters);
    // Parameters and both moments come out of the update.
    EXPECT_EQ(Traced::results(*adapted.update), 3 * adapters);
    // Gradients of norms and biases have rank 1 when they are not stacked.
    EXPECT_GT(Traced::results(*full.gradients), full.elements(Kind::param) / 2);
    EXPECT_LT(adapters, full.elements(Kind::param) / 2);
  }
}

TEST(AdapterPrograms, TheReverseLoopStacksNoGradientsOfTheBase) {
  Traced adapted({"*_proj"}, nn::ScanMode::automatic), full({}, nn::ScanMode::automatic);
  const sharding::Slot& up =
      full.structure->manifest().at("model.layers[0:4:1].mlp.up_proj.weight");
  int64_t rows = up.type.dims[1].size, columns = up.type.dims[2].size;
  EXPECT_GT(full.stacked_gradients(rows, columns), 0);
  EXPECT_EQ(adapted.stacked_gradients(rows, columns), 0);
  EXPECT_GT(adapted.stacked_gradients(3, columns), 0);
}

TEST(AdapterPrograms, NeedLessMemory) {
  Traced adapted({"*.q_proj"}, nn::ScanMode::automatic), full({}, nn::ScanMode::automatic);
  runtime::Compiler compiler(testing::Executor().client(),
                             runtime::CompilerOptions{.cache_dir = {}});
  auto bytes = [&](const Traced& t) {
    return runtime::memory_report(
        *compiler.compile(t.text, runtime::request_for(*t.gradients, "gradients")));
  };
  runtime::MemoryReport a = bytes(adapted), f = bytes(full);
  EXPECT_LT(a.outputs, f.outputs / 10);
  EXPECT_LT(a.temporaries, f.temporaries);
}

// A head with an adapter is multiplied with by the loss itself.
TEST(AdapterPrograms, AnAdaptedHeadHasGradients) {
  Traced head({"lm_head"}, nn::ScanMode::automatic);
  EXPECT_EQ(Traced::results(*head.gradients), head.elements(Kind::adapter));
  EXPECT_EQ(nn::low_rank_updates(*head.model)[0].weight, "lm_head.weight");
}

TEST(PeftConfig, NamesTargetsAsPeftDoes) {
  auto targets = [](std::vector<std::string> globs) {
    auto model = models::build_model(oracle_path("qwen3"));
    model->apply(nn::Lora({.rank = 3, .alpha = 6, .rslora = true, .targets = std::move(globs)}));
    Json config = peft_config(*model, "base");
    EXPECT_EQ(config["use_rslora"], true);
    EXPECT_EQ(config["base_model_name_or_path"], "base");
    return config["target_modules"].get<std::vector<std::string>>();
  };
  EXPECT_EQ(targets({"*.q_proj", "*.mlp.up_proj"}),
            (std::vector<std::string>{"q_proj", "up_proj"}));
  EXPECT_EQ(targets({"model.layers.1.self_attn.q_proj"}),
            (std::vector<std::string>{"model.layers.1.self_attn.q_proj"}));
  EXPECT_TRUE(peft_config(*models::build_model(oracle_path("qwen3")), "b").is_null());
}

}  // namespace
}  // namespace strata::rl
