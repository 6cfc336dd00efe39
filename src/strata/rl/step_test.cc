// The compiled step: which numbers are inputs of it, and what memory it needs by its own account.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "strata/rl/engine_for_test.h"

namespace strata::rl {
namespace {

constexpr BatchShape kShape{1, 24, 16};

TokenBatch batch() {
  BatchCompletion c;
  c.ids = {3, 44, 2};
  c.terms.resize(c.ids.size());
  for (TokenTerm& t : c.terms) t.weight = t.advantage = 1;
  std::vector<BatchGroup> groups{{{5, 9, 31, 7}, {c}, "a"}};
  return std::move(pack(groups, kShape)[0]);
}

struct Numbers {
  double lr, b1, b2, eps, decay, clip, temperature;
};

// Two micro-steps and an update by an engine of its own, on the trainer's compiler.
void step(TinyTrainer& t, const Numbers& n) {
  Engine::Setup setup;
  setup.model = t.model.get();
  setup.structure = t.structure.get();
  setup.compiler = t.compiler;
  for (const auto& e : t.engine->parameters()->entries()) {
    setup.parameters.push_back(e.second->clone());
  }
  setup.shape = kShape;
  optim::AdamWConfig adam;
  adam.b1 = n.b1;
  adam.b2 = n.b2;
  adam.eps = n.eps;
  adam.weight_decay = n.decay;
  optim::Groups groups(t.structure->manifest(), optim::default_groups());
  optim::Schedule schedule({.kind = "constant", .peak = n.lr});
  Engine engine(std::move(setup), {optim::make_adamw(adam), groups, schedule, n.clip});
  engine.accumulate(batch(), 1, n.temperature);
  engine.accumulate(batch(), 1, n.temperature);
  EXPECT_EQ(engine.update().lr, n.lr);
}

TEST(Step, ChangedNumbersCompileNothing) {
  TinyTrainer t("qwen3_tied", kShape, {});
  const Numbers first{1e-3, 0.9, 0.999, 1e-8, 0.01, 1.0, 1.0};
  step(t, first);
  int64_t compiles = t.compiler->counters().compiles;
  EXPECT_GE(compiles, 3);
  Numbers n = first;
  for (double* number : {&n.lr, &n.b1, &n.b2, &n.eps, &n.decay, &n.clip, &n.temperature}) {
    *number *= 0.75;
    step(t, n);
    EXPECT_EQ(t.compiler->counters().compiles, compiles) << number - &n.lr;
  }
}

TEST(Step, MemoryIsStateInPlaceAndLittleElse) {
  TinyTrainer t("qwen3_tied", kShape, {});
  std::map<std::string, runtime::MemoryReport> reports;
  for (const runtime::MemoryReport& r : t.engine->prepare(true)) reports[r.program] = r;
  ASSERT_EQ(reports.count("accumulate"), 1U);
  ASSERT_EQ(reports.count("update"), 1U);
  int64_t parameters = 0, slots = 0, accumulator = 0, largest = 0;
  for (const auto& e : t.engine->parameters()->entries()) {
    int64_t bytes = static_cast<int64_t>(e.second->spec()->bytes());
    parameters += bytes;
    largest = std::max(largest, bytes);
  }
  for (const optim::SlotSpec& s : t.engine->plan().slots()) slots += s.type.bytes();
  for (const optim::SlotSpec& s : t.engine->plan().accumulator()) {
    accumulator += s.type.bytes();
  }
  EXPECT_GT(slots, 1.9 * parameters);
  // A few scalars, and the plug-in's table of pointers.
  constexpr int64_t kSmall = 16 << 10;
  const runtime::MemoryReport& update = reports["update"];
  EXPECT_EQ(update.aliases, parameters + slots);
  EXPECT_LE(update.outputs - update.aliases, kSmall);
  EXPECT_LE(update.arguments - (parameters + slots + accumulator), kSmall);
  EXPECT_LE(update.temporaries, largest + kSmall);
  const runtime::MemoryReport& micro = reports["accumulate"];
  EXPECT_EQ(micro.aliases, accumulator);
  EXPECT_LE(micro.outputs - micro.aliases, kSmall);
  EXPECT_LE(micro.arguments - (parameters + accumulator), kSmall);
}

}  // namespace
}  // namespace strata::rl
