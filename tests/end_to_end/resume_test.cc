// A run that stops, is saved, and goes on in a new engine does what the uninterrupted one does.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "strata/checkpoint/checkpoint_store.h"
#include "strata/rl/engine_for_test.h"
#include "strata/runtime/test_support.h"

namespace strata::rl {
namespace {

using checkpoint::refs_of;

const nn::ScanOptions kUnrolled{nn::ScanMode::off, 0, {}};
const nn::ScanOptions kScanned{nn::ScanMode::force, 0, {}};
const nn::ScanOptions kScannedInner{nn::ScanMode::force, 1, {}};

TinyTrainer trainer(const nn::ScanOptions& scan) {
  return TinyTrainer("qwen3_tied", {1, 24, 16}, {}, scan, 1e-2);
}

void train(TinyTrainer& t, int steps) {
  BatchCompletion completion;
  completion.ids = {3, 44, 2};
  completion.terms.resize(3);
  for (TokenTerm& term : completion.terms) {
    term.weight = 1;
    term.advantage = 1;
  }
  std::vector<TokenBatch> batches =
      pack(std::vector<BatchGroup>{{{5, 9, 31, 7}, {completion}, "a"}}, t.engine->shape());
  for (int i = 0; i < steps; ++i) {
    t.engine->accumulate(batches[0], 1, 1.0);
    t.engine->update();
  }
}

std::vector<sharding::Slot> slot_types(const TinyTrainer& t) {
  std::vector<sharding::Slot> out;
  for (const optim::SlotSpec& spec : t.engine->plan().slots()) {
    out.push_back({spec.name, sharding::Kind::param, spec.type});
  }
  return out;
}

void save(const TinyTrainer& t, const std::filesystem::path& run) {
  checkpoint::Contents contents{&t.structure->manifest(),
                                refs_of(*t.engine->parameters()),
                                slot_types(t),
                                refs_of(t.engine->slots()),
                                {},
                                oracle_path("qwen3_tied")};
  contents.run.step = t.engine->counts().count;
  contents.run.counts = {{"count", t.engine->counts().count}};
  checkpoint::CheckpointStore(run).save(contents);
}

void resume(TinyTrainer& t, const std::filesystem::path& run) {
  checkpoint::Restored state =
      checkpoint::load_checkpoint(checkpoint::latest_checkpoint(run).path, t.structure->manifest(),
                                  slot_types(t), t.compiler->client());
  optim::StepCounts counts;
  counts.count = state.run.counts.at("count");
  t.engine->restore(std::move(state.parameters), std::move(state.slots), counts);
}

// All parameters and slots by their unstacked names.
std::map<std::string, std::vector<float>> state_of(const TinyTrainer& t) {
  std::map<std::string, std::vector<float>> out;
  auto add = [&](const std::vector<sharding::Slot>& slots, const checkpoint::ArrayRefs& arrays) {
    checkpoint::TreeReader reader(slots, arrays);
    for (const weights::TensorSpec& spec : reader.specs()) {
      std::vector<float>& values = out[spec.name];
      reader.read(spec.name, [&](std::span<const std::byte> piece) {
        const size_t begin = values.size();
        values.resize(begin + piece.size() / sizeof(float));
        std::memcpy(values.data() + begin, piece.data(), piece.size());
      });
    }
  };
  add(t.structure->manifest().slots(), refs_of(*t.engine->parameters()));
  add(slot_types(t), refs_of(t.engine->slots()));
  return out;
}

class ResumeTest : public ::testing::Test {
 protected:
  runtime::ScratchDir scratch_;
};

TEST_F(ResumeTest, GoesOnAsIfNeverStopped) {
  std::filesystem::path run = scratch_.path() / "run";
  TinyTrainer whole = trainer(kScanned), second = trainer(kScanned);
  train(whole, 2);
  save(whole, run);
  train(whole, 2);
  resume(second, run);
  EXPECT_EQ(second.engine->counts().count, 2);
  train(second, 2);
  EXPECT_EQ(state_of(second), state_of(whole));
  EXPECT_EQ(second.engine->counts().count, 4);
}

TEST_F(ResumeTest, CrossesFormsExactly) {
  const nn::ScanOptions* forms[] = {&kUnrolled, &kScanned, &kScannedInner};
  for (const nn::ScanOptions* from : forms) {
    TinyTrainer saved = trainer(*from);
    train(saved, 1);
    std::filesystem::path run = scratch_.path() / "run";
    save(saved, run);
    for (const nn::ScanOptions* to : forms) {
      TinyTrainer other = trainer(*to);
      EXPECT_NE(state_of(other), state_of(saved));
      resume(other, run);
      EXPECT_EQ(state_of(other), state_of(saved));
    }
    std::filesystem::remove_all(run);
  }
}

}  // namespace
}  // namespace strata::rl
