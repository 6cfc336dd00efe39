// Whole training runs on a small random model with a real tokenizer, in this process.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strata/rl/grpo.h"
#include "strata/rl/sft.h"
#include "strata/runtime/compile.h"
#include "strata/testing/scratch_directory.h"

namespace strata::rl {

class Runs : public ::testing::Test {
 protected:
  // Writes `model/`: a llama of two layers with random weights and SmolLM2's tokenizer. A fifth of
  // its tokens end an answer.
  void SetUp() override;

  Config config(const std::string& text, const std::string& output,
                std::vector<std::string> overrides) const;
  // 12 short conversations in data.jsonl.
  void write_data() const;
  // Six steps on data.jsonl, which is also the evaluation data unless sft_eval_ names another. Both
  // runs stop where they ask for the (stop_after + 1)st time at a point of the kind `point`.
  SftSummary sft(const std::string& output, std::vector<std::string> overrides,
                 int64_t stop_after = 1000, StopPoint point = StopPoint::step) const;
  // Four steps of 3 prompts × 4 completions of at most 6 tokens, rewarded by their length.
  GrpoSummary grpo(const std::string& output, std::vector<std::string> overrides,
                   int64_t stop_after = 1000, StopPoint point = StopPoint::step) const;
  // Every tensor of the run's checkpoint, optimiser state included, as one text of hashes.
  std::string state(const std::string& output, int64_t step,
                    std::optional<int64_t> micro_steps = {}) const;
  // Names of the run's checkpoints, in order.
  std::vector<std::string> saved(const std::string& output) const;
  std::vector<StepMetrics> metrics(const std::string& output) const;

  testing::ScratchDirectory scratch_;
  const std::filesystem::path& dir_ = scratch_.path();
  std::string rewards_ = "[[rewards]]\nkind = \"length\"\noptions = {max = 6}\n";  // of grpo()
  std::shared_ptr<runtime::Compiler> compiler_;
  std::function<void()> between_steps_ = [] {};  // of grpo()
  std::string sft_eval_ = "data.jsonl";          // of sft()
};

// The id of the error that `action` ends with; empty when it ends well.
std::string error_id(const std::function<void()>& action);

}  // namespace strata::rl
