#include "strata/rl/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "strata/rl/engine_for_test.h"
#include "strata/rl/score.h"
#include "strata/runtime/executor.h"
#include "strata/transform/lower.h"

namespace strata::rl {
namespace {

BatchCompletion completion(std::vector<int32_t> ids, int64_t sample, float advantage = 1) {
  BatchCompletion c;
  c.sample = sample;
  c.terms.resize(ids.size());
  for (TokenTerm& t : c.terms) {
    t.weight = 1;
    t.advantage = advantage;
  }
  c.ids = std::move(ids);
  return c;
}

// Log-probs of row[1..] by the scoring program, one row at a time.
std::vector<double> alone(TinyTrainer& t, const std::vector<int32_t>& row) {
  ScoreOptions o{1, static_cast<int64_t>(row.size()), false, DType::f32};
  std::string text = transform::program_text(*score_function(*t.model, *t.structure, o));
  runtime::Executor run(t.compiler->compile(text, {.name = "score"}));
  runtime::Array ids = runtime::Array::put(
      t.compiler->client(), HostTensor::of<int32_t>({1, static_cast<int64_t>(row.size())}, row));
  std::vector<runtime::Argument> arguments;
  for (const auto& e : t.engine->parameters()->entries()) {
    arguments.push_back(runtime::Argument::borrow(*e.second));
  }
  arguments.push_back(runtime::Argument::borrow(ids));
  HostTensor logprobs = run.run(arguments)[1].get();
  std::vector<double> out;
  for (int64_t i = 0; i < logprobs.size(); ++i) out.push_back(logprobs.at(i));
  return out;
}

const std::vector<BatchGroup>& two_groups() {
  static const std::vector<BatchGroup> kGroups{
      {{5, 9, 31, 7}, {completion({3, 44, 2}, 0), completion({81, 6, 17, 90, 2}, 1)}, "a"},
      {{12, 60}, {completion({100, 2}, 2), completion({7}, 3)}, "b"}};
  return kGroups;
}

TEST(Engine, SharedPromptsScoreAsSeparateRows) {
  TinyTrainer t("qwen3", {1, 24, 16}, {});
  std::vector<TokenBatch> batches = pack(two_groups(), t.engine->shape());
  ASSERT_EQ(batches.size(), 1u);
  Engine::Scores scores = t.engine->logprobs(batches[0], 1.0);
  size_t at = 0;
  for (const BatchGroup& g : two_groups()) {
    for (const BatchCompletion& c : g.completions) {
      std::vector<int32_t> row = g.prompt;
      row.insert(row.end(), c.ids.begin(), c.ids.end());
      std::vector<double> want = alone(t, row);
      for (size_t k = 0; k < c.ids.size(); ++k) {
        EXPECT_NEAR(scores.logprobs[at++], want[g.prompt.size() - 1 + k], 2e-5) << g.id;
      }
    }
  }
  EXPECT_EQ(at, batches[0].scored.size());
}

// The parameters after one step of these batches.
std::vector<HostTensor> after_step(TinyTrainer& t, const std::vector<BatchGroup>& groups) {
  std::vector<TokenBatch> batches = pack(groups, t.engine->shape());
  for (const TokenBatch& b : batches) t.engine->accumulate(b, 1.0 / batches.size(), 1.0);
  EXPECT_EQ(t.engine->update().outcome, optim::StepOutcome::applied);
  std::vector<HostTensor> out;
  for (const auto& e : t.engine->parameters()->entries()) out.push_back(e.second->get());
  return out;
}

TEST(Engine, MicroStepsEqualOneBatch) {
  TinyTrainer one("llama_tied", {1, 24, 16}, {}), several("llama_tied", {1, 12, 10}, {});
  EXPECT_GT(pack(two_groups(), several.engine->shape()).size(), 1u);
  std::vector<HostTensor> a = after_step(one, two_groups());
  std::vector<HostTensor> b = after_step(several, two_groups());
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (int64_t k = 0; k < a[i].size(); ++k) {
      error += std::pow(a[i].at(k) - b[i].at(k), 2);
      norm += std::pow(a[i].at(k), 2);
    }
  }
  EXPECT_LE(std::sqrt(error / norm), 1e-5);
}

TEST(Engine, RepeatedStepsRaiseWhatIsRewardedAndCompileOnce) {
  TinyTrainer t("qwen3_tied", {1, 24, 16}, {}, {nn::ScanMode::force, 0, {}}, 1e-2);
  std::vector<TokenBatch> batches = pack(two_groups(), t.engine->shape());
  auto mean = [&] {
    std::vector<float> l = t.engine->logprobs(batches[0], 1.0).logprobs;
    double sum = 0;
    for (size_t i = 0; i < batches[0].scored.size(); ++i) sum += l[i];
    return sum / static_cast<double>(batches[0].scored.size());
  };
  double before = mean();
  t.engine->accumulate(batches[0], 1, 1.0);
  t.engine->update();
  int64_t compiles = t.compiler->counters().compiles;
  for (int i = 0; i < 5; ++i) {
    t.engine->accumulate(batches[0], 1, 1.0);
    t.engine->update();
  }
  EXPECT_GT(mean(), before + 0.1);
  EXPECT_EQ(t.compiler->counters().compiles, compiles);
  EXPECT_EQ(t.engine->counts().count, 6);
  EXPECT_EQ(t.engine->parameters()->version(), 6u);
}

TEST(Engine, NonFiniteGradientsChangeNothing) {
  TinyTrainer t("qwen3_tied", {1, 24, 16}, {});
  std::vector<BatchGroup> groups = two_groups();
  groups[0].completions[0].terms[1].advantage = std::numeric_limits<float>::infinity();
  std::vector<HostTensor> before;
  for (const auto& e : t.engine->parameters()->entries()) before.push_back(e.second->get());
  std::vector<TokenBatch> batches = pack(groups, t.engine->shape());
  t.engine->accumulate(batches[0], 1, 1.0);
  EXPECT_EQ(t.engine->update().outcome, optim::StepOutcome::non_finite);
  EXPECT_EQ(t.engine->counts().steps_skipped, 1);
  for (size_t i = 0; i < before.size(); ++i) {
    HostTensor now = t.engine->parameters()->entries()[i].second->get();
    EXPECT_EQ(std::memcmp(now.bytes(), before[i].bytes(), now.byte_size()), 0);
  }
}

TEST(Engine, TheAverageTakesThePlaceOfTheParametersForAWhile) {
  TinyOptions options;
  options.ema_decay = 0.5;
  TinyTrainer t("qwen3_tied", {1, 24, 16}, {}, {}, 1e-2, options);
  Engine& engine = *t.engine;
  const std::vector<TokenBatch> batches = pack(two_groups(), engine.shape());
  const TokenBatch& batch = batches[0];
  auto first = [&] { return engine.logprobs(batch, 1.0).logprobs; };
  const std::vector<float> start = first();
  std::vector<float> average;
  engine.with_average([&] { average = first(); });
  EXPECT_EQ(average, start);  // it begins as their copy
  engine.accumulate(batch, 1, 1.0);
  engine.update();
  const std::vector<float> after = first();
  const uint64_t version = engine.parameters()->version();
  const int64_t compiles = t.compiler->counters().compiles;
  EXPECT_THROW(engine.with_average([&] {
    average = first();
    EXPECT_NE(engine.parameters()->version(), version);
    fail({.id = "test.stop"});
  }),
               Error);
  EXPECT_NE(average, start);
  EXPECT_NE(average, after);
  // Nothing but places has changed, and no program was needed.
  EXPECT_EQ(first(), after);
  EXPECT_EQ(engine.parameters()->version(), version);
  EXPECT_EQ(t.compiler->counters().compiles, compiles);
  std::vector<float> again;
  engine.with_average([&] { again = first(); });
  EXPECT_EQ(again, average);
}

TEST(Engine, UpdateWithoutABatchIsAnError) {
  TinyTrainer t("qwen3_tied", {1, 24, 16}, {});
  try {
    t.engine->update();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "rl.empty_update");
    EXPECT_EQ(e.code(), Code::failed_precondition);
  }
}

}  // namespace
}  // namespace strata::rl
