// Whole runs that keep a weight average: its formula, resuming, what is evaluated and exported.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "end_to_end/runs_for_test.h"
#include "strata/checkpoint/average_source.h"
#include "strata/checkpoint/checkpoint_files.h"
#include "strata/checkpoint/checkpoint_store.h"
#include "strata/rl/run_files.h"
#include "strata/testing/errors.h"
#include "strata/testing/executor.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;
using Settings = std::vector<std::string>;

std::vector<float> floats(const weights::TensorView& view) {
  std::vector<float> out(view.bytes.size() / sizeof(float));
  std::memcpy(out.data(), view.bytes.data(), view.bytes.size());
  return out;
}

using Tree = std::map<std::string, std::vector<float>>;

Tree tree_of(const weights::TensorSource& source) {
  Tree out;
  for (const weights::TensorView& t : source.tensors()) out[t.name] = floats(t);
  return out;
}

double relative_l2(const std::vector<float>& got, const std::vector<double>& want) {
  double difference = 0, length = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    length += want[i] * want[i];
  }
  return std::sqrt(difference / length);
}

class Average : public Runs {
 protected:
  // Most of these runs are of few programs, which are compiled once.
  void SetUp() override {
    static std::shared_ptr<runtime::Compiler> shared;
    Runs::SetUp();
    if (!shared) shared = compiler_;
    compiler_ = shared;
    write_data();
  }
  Settings with(Settings more, double decay = 0.75) const {
    more.push_back("optimizer.ema_decay=" + std::to_string(decay));
    return more;
  }
  fs::path checkpoint(const std::string& run, int64_t step) const {
    return checkpoint::checkpoint_path(dir_ / run, step);
  }
  Tree average(const std::string& run, int64_t step) const {
    return tree_of(*checkpoint::open_average(checkpoint(run, step)));
  }
  Tree parameters(const fs::path& directory) const {
    return tree_of(*weights::open_source(directory));
  }
};

// Every step is saved; from these the average is formed again in double.
TEST_F(Average, FollowsItsFormulaOverTwentySteps) {
  sft("a", with({"sft.steps=20", "run.save_every=1", "run.keep_last=100"}));
  const double decay = 0.75;
  std::map<std::string, std::vector<double>> want;
  for (const auto& [name, values] : parameters(dir_ / "model")) {
    want[name].assign(values.begin(), values.end());
  }
  for (int64_t step = 1; step <= 20; ++step) {
    Tree now = parameters(checkpoint("a", step)), kept = average("a", step);
    ASSERT_EQ(kept.size(), want.size());
    for (auto& [name, e] : want) {
      for (size_t i = 0; i < e.size(); ++i) {
        e[i] = static_cast<float>(decay * e[i] + (1 - decay) * now.at(name)[i]);
      }
      EXPECT_LT(relative_l2(kept.at(name), e), 1e-6) << name << " after step " << step;
      EXPECT_GT(relative_l2(now.at(name), e), 1e-4) << name;
    }
  }
}

TEST_F(Average, AResumedRunIsTheUninterruptedOne) {
  sft("whole", with({}));
  EXPECT_TRUE(sft("parts", with({}), 3, StopPoint::micro_step).interrupted);
  EXPECT_NE(saved("parts").back().find('+'), std::string::npos);
  sft("parts", with({"run.resume=true", "layers.scan=off"}), 1);
  sft("parts", with({"run.resume=true"}));
  // The layers' form changes the last bits of the sums, so only the names are compared.
  EXPECT_EQ(average("parts", 6).size(), average("whole", 6).size());
  sft("again", with({}), 3, StopPoint::micro_step);
  sft("again", with({"run.resume=true"}));
  EXPECT_EQ(state("again", 6), state("whole", 6));
  EXPECT_NE(state("again", 6).find("ema/model.layers.1.mlp.up_proj.weight"), std::string::npos);
}

TEST_F(Average, ItIsEvaluatedAndExported) {
  SftSummary averaged = sft("a", with({}));
  EXPECT_EQ(parameters(dir_ / "a/export"), average("a", 6));
  EXPECT_NE(parameters(dir_ / "a/export"), parameters(checkpoint("a", 6)));
  SftSummary plain = sft("b", with({"run.use_average=false"}));
  EXPECT_EQ(parameters(dir_ / "b/export"), parameters(checkpoint("b", 6)));
  EXPECT_EQ(state("a", 6), state("b", 6));
  // The parameters are further down than their average.
  EXPECT_EQ(averaged.last_loss, plain.last_loss);
  EXPECT_LT(*plain.eval_loss, *averaged.eval_loss - 0.05);
  // What training does, it does with the parameters: those of a run without an average.
  EXPECT_EQ(sft("none", {}).last_loss, plain.last_loss);
  EXPECT_EQ(parameters(checkpoint("none", 6)), parameters(checkpoint("a", 6)));
}

TEST_F(Average, ItCannotBeTurnedOnOrOffInTheMiddle) {
  sft("with", with({}), 2);
  sft("without", {}, 2);
  testing::expect_error(Code::failed_precondition, "rl.average_resume", "optimizer.ema_decay = 0",
                        [&] { sft("with", {"run.resume=true"}); });
  testing::expect_error(Code::failed_precondition, "rl.average_resume", "keeps no weight average",
                        [&] { sft("without", with({"run.resume=true"})); });
  testing::expect_error(Code::failed_precondition, "checkpoint.no_average", "one without",
                        [&] { checkpoint::open_average(checkpoint("without", 2)); });
  testing::expect_error(Code::failed_precondition, "checkpoint.no_average", "manifest.json",
                        [&] { checkpoint::open_average(dir_ / "model"); });
  // Its decay is a number like the rate.
  EXPECT_EQ(sft("with", with({"run.resume=true"}, 0.5)).steps, 6);
}

TEST_F(Average, OfAdaptersAlone) {
  Settings lora{"lora.rank=4", "lora.alpha=8", "lora.targets=[\"*_proj\"]"};
  sft("a", with(lora));
  checkpoint::CheckpointFiles files(checkpoint("a", 6));
  size_t kept = 0;
  for (const checkpoint::TensorEntry& slot : files.index().slots) {
    if (!slot.name.starts_with(checkpoint::kAverageRole)) continue;
    EXPECT_NE(slot.name.find(".lora_"), std::string::npos) << slot.name;
    ++kept;
  }
  EXPECT_EQ(kept, 2u * 2 * 7);
  Tree adapter = parameters(dir_ / "a/adapter/adapter_model.safetensors"), all = average("a", 6);
  EXPECT_EQ(adapter.size(), kept);
  for (const auto& [name, values] : adapter) {
    EXPECT_EQ(values, all.at(name.substr(std::string("base_model.model.").size()))) << name;
  }
}

// Split over devices (ZeRO) it is gathered to be evaluated; the numbers are those of one device.
TEST_F(Average, OnAMesh) {
  SftSummary one = sft("one", with({"sft.steps=3"}));
  compiler_ =
      std::make_shared<runtime::Compiler>(testing::Executor(testing::CpuPlugin::newer, 4).client(),
                                          runtime::CompilerOptions{.cache_dir = {}});
  for (const char* mesh :
       {"sharding.mesh=\"data=2,tensor=2\"", "sharding.mesh=\"fsdp=2,data=2\""}) {
    std::string run = mesh[15] == 'd' ? "data" : "fsdp";
    SftSummary four = sft(run, with({"sft.steps=3", "optimizer.zero=\"slots\"", mesh}));
    EXPECT_NEAR(*four.eval_loss, *one.eval_loss, 1e-4 * *one.eval_loss);
    EXPECT_EQ(parameters(dir_ / run / "export"), average(run, 3));
    for (const auto& [name, values] : average("one", 3)) {
      std::vector<double> want(values.begin(), values.end());
      EXPECT_LT(relative_l2(average(run, 3).at(name), want), 1e-4) << name;
    }
  }
}

TEST_F(Average, GrpoSamplesWithTheParameters) {
  GrpoSummary s = grpo("a", with({"task.validation=4", "grpo.eval_every=2"}));
  grpo("b", {"task.validation=4"});
  EXPECT_EQ(s.steps, 4);
  EXPECT_EQ(parameters(checkpoint("a", 4)), parameters(checkpoint("b", 4)));
  EXPECT_EQ(s.best_step, 0);  // this model answers nothing right
  EXPECT_EQ(parameters(dir_ / "a/export"), parameters(dir_ / "model"));
  grpo("c", with({}));
  EXPECT_EQ(parameters(dir_ / "c/export"), average("c", 4));
  EXPECT_NE(parameters(dir_ / "c/export"), parameters(checkpoint("c", 4)));
}

// What an earlier step's evaluation saw comes back from its checkpoint.
TEST_F(Average, TheBestStepsAverageComesBack) {
  sft("a", with({"run.save_every=2"}));
  Config file = config("[optimizer]\nlr = 1e-2\nema_decay = 0.75\n", "a", {});
  Session session = open_session(read_session_options(file), compiler_);
  RunConfig run = read_run(file);
  Engine::Setup setup;
  setup.model = session.model.get();
  setup.structure = session.structure.get();
  setup.compiler = compiler_;
  setup.shape = {1, 16, 16};
  setup.parameters = session.load_parameters();
  Engine engine(std::move(setup), make_plan(read_optimizer(file), session.structure->manifest()));
  const Tree want = average("a", 4);
  for (bool averaged : {true, false}) {
    run.use_average = averaged;
    restore_evaluated(run, session, engine, 4);
    HostTensor norm = engine.parameters()->at("model.norm.weight").get();
    auto values = norm.data<float>();
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()) == want.at("model.norm.weight"),
              averaged);
  }
}

}  // namespace
}  // namespace strata::rl
