// What goes wrong in the middle of a run: rewards that hang, die or print junk, a model that gives
// no number, a full disk. The run ends with one clear error, and what it did before can be resumed.
#include <filesystem>
#include <fstream>

#include "end_to_end/full_disk_for_test.h"
#include "end_to_end/runs_for_test.h"
#include "strata/base/file.h"
#include "strata/checkpoint/checkpoint_files.h"
#include "strata/checkpoint/checkpoint_store.h"
#include "strata/testing/errors.h"
#include "strata/weights/safetensors_writer.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;
using end_to_end::SmallDisk;

class Failures : public Runs {
 protected:
  // A reward program that answers by the question's length, and from the third step on does
  // `misdeed` first (sh).
  void write_program(const std::string& misdeed) {
    scratch_.write("reward.sh",
                   "steps=0\n"
                   "while IFS= read -r line; do\n"
                   "  id=${line#*\\\"id\\\":\\\"}\n"
                   "  id=${id%%\\\"*}\n"
                   "  if [ $steps -ge 2 ]; then :\n" +
                       misdeed +
                       "\n  fi\n"
                       "  printf '{\"id\":\"%s\",\"reward\":%s}\\n' \"$id\" $((${#line} % 5))\n"
                       "  case $line in *'\"last\":true'*) steps=$((steps + 1)) ;; esac\n"
                       "done\n");
    rewards_ = "[[rewards]]\nkind = \"program\"\noptions = {command = [\"sh\", \"" +
               (dir_ / "reward.sh").string() + "\"], deadline_seconds = 2}\n";
  }
  int64_t latest(const std::string& output) const {
    checkpoint::StoredCheckpoint found = checkpoint::latest_checkpoint(dir_ / output);
    EXPECT_NO_THROW(checkpoint::CheckpointFiles(found.path).verify());
    return found.step;
  }
  // Names below the run's directory that a save or an export had begun.
  std::vector<std::string> unfinished(const std::string& output) const {
    std::vector<std::string> out;
    for (const auto& e : fs::recursive_directory_iterator(dir_ / output)) {
      std::string name = e.path().filename().string();
      bool begun = name.find(".tmp-") != std::string::npos || name == "export.new";
      if (begun) out.push_back(name);
    }
    return out;
  }
};

struct Misdeed {
  const char* name;
  const char* script;
  Code code;
  const char* part;
};

class FailingProgram : public Failures, public ::testing::WithParamInterface<Misdeed> {};

TEST_P(FailingProgram, EndsTheRunWithWhatWasDoneSaved) {
  const Misdeed& m = GetParam();
  write_program(m.script);
  try {
    grpo("parts", {});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "rl.reward_failed");
    EXPECT_EQ(e.code(), m.code);
    for (const std::string& part :
         {std::string(m.part), std::string("sh"), std::string("reward 'program', sample '"),
          "in step 3 of the run in " + (dir_ / "parts").string()}) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << part << "\n" << e.what();
    }
  }
  EXPECT_EQ(latest("parts"), 2);
  EXPECT_FALSE(fs::exists(dir_ / "parts/export"));
  // With the program mended it goes on as if nothing had been.
  write_program("");
  grpo("parts", {"run.resume=true"});
  grpo("whole", {});
  EXPECT_EQ(state("parts", 4), state("whole", 4));
}

INSTANTIATE_TEST_SUITE_P(
    Programs, FailingProgram,
    ::testing::Values(Misdeed{"hangs", "sleep 60", Code::deadline_exceeded, "an answer within"},
                      Misdeed{"dies", "exit 7", Code::unavailable, "ended with status 7"},
                      Misdeed{"prints_junk", "echo oops", Code::data_loss, "got 'oops'"},
                      Misdeed{"gives_no_number",
                              "printf '{\"id\":\"%s\",\"reward\":NaN}\\n' \"$id\"; continue",
                              Code::aborted, "no number"}),
    [](const auto& i) { return i.param.name; });

// Rewards beyond what a gradient's norm can hold: the third step is not finite and the optimiser
// gives up. The two before it are kept; with sane rewards the run goes on as if nothing had been.
TEST_F(Failures, AnOptimiserThatGivesUpInTheMiddleOfARun) {
  const std::vector<std::string> more{"optimizer.max_skipped=1", "grpo.advantage_std=none"};
  auto with = [&](const char* text) {
    std::vector<std::string> all = more;
    all.push_back(text);
    return all;
  };
  write_program("printf '{\"id\":\"%s\",\"reward\":%se25}\\n' \"$id\" $((${#line} % 5)); continue");
  testing::expect_error(Code::aborted, "optim.skipped_in_a_row", "1 non-finite steps in a row",
                        [&] { grpo("parts", more); });
  EXPECT_EQ(saved("parts"), std::vector<std::string>{"step-00000002"});
  Json run = read_json(dir_ / "parts/checkpoints/step-00000002/manifest.json")["run"];
  EXPECT_EQ(run["counts"]["skipped_in_a_row"], 0);
  write_program("");
  grpo("parts", with("run.resume=true"));
  grpo("whole", more);
  EXPECT_EQ(state("parts", 4), state("whole", 4));
}

TEST_F(Failures, AFailureMayCountAsAValue) {
  write_program("echo '{'");
  rewards_ += "on_failure = -1\n";
  EXPECT_EQ(grpo("a", {}).steps, 4);
  std::vector<StepMetrics> all = metrics("a");
  EXPECT_FALSE(all[1].find("reward_failures/program").has_value());
  EXPECT_EQ(all[2].find("reward_failures/program"), 12);
}

// Finite weights whose logits are no numbers.
TEST_F(Failures, LogitsThatAreNoNumbers) {
  fs::path file = dir_ / "model/model.safetensors";
  auto source = weights::open_source(file);
  std::vector<HostTensor> tensors;
  std::vector<weights::NamedTensor> named;
  for (const weights::TensorView& view : source->tensors()) {
    tensors.push_back(weights::to_host(view));
    if (view.name != "model.norm.weight") continue;
    for (float& v : tensors.back().data<float>()) v = 3e38f;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    named.push_back({std::string(source->tensors()[i].name), &tensors[i]});
  }
  weights::write_safetensors(dir_ / "huge.safetensors", named);
  source.reset();
  fs::rename(dir_ / "huge.safetensors", file);
  testing::expect_error(Code::aborted, "rl.rollout_failed", "NaN",
                        [&] { grpo("a", {"task.held_out=0"}); });
  EXPECT_FALSE(fs::exists(dir_ / "a/checkpoints"));
}

class FullDisk : public Failures {
 protected:
  // What a run of this model keeps on disk: 6 MiB of parameters, twice that of optimiser state.
  static constexpr uint64_t kCheckpoint = 19 << 20, kExport = 7 << 20;
};

TEST_F(FullDisk, ACheckpointThatDoesNotFit) {
  SmallDisk disk(dir_ / "disk", kCheckpoint + kCheckpoint / 2);
  if (!disk.mounted()) GTEST_SKIP() << disk.why();
  testing::expect_error(Code::resource_exhausted, "file.write", "No space left",
                        [&] { grpo("disk/a", {"run.save_every=1"}); });
  EXPECT_EQ(latest("disk/a"), 1);
  EXPECT_EQ(unfinished("disk/a"), std::vector<std::string>{});
}

TEST_F(FullDisk, AnExportThatDoesNotFit) {
  SmallDisk disk(dir_ / "disk", kCheckpoint + kExport / 2);
  if (!disk.mounted()) GTEST_SKIP() << disk.why();
  testing::expect_error(Code::resource_exhausted, "file.write", "export",
                        [&] { grpo("disk/a", {"grpo.steps=1"}); });
  EXPECT_EQ(latest("disk/a"), 1);
  EXPECT_FALSE(fs::exists(dir_ / "disk/a/export"));
  EXPECT_EQ(unfinished("disk/a"), std::vector<std::string>{});
}

// An export of an earlier run stays until the new one is whole.
TEST_F(FullDisk, TheEarlierExportStays) {
  SmallDisk disk(dir_ / "disk", 2 * kCheckpoint + 3 * kExport);
  if (!disk.mounted()) GTEST_SKIP() << disk.why();
  grpo("disk/a", {"grpo.steps=1", "run.keep_last=1"});
  std::string before = read_file(dir_ / "disk/a/export/model.safetensors");
  disk.fill(kCheckpoint + kExport / 2);
  testing::expect_error(Code::resource_exhausted, "file.write", "export", [&] {
    grpo("disk/a", {"grpo.steps=2", "run.keep_last=2", "run.resume=true"});
  });
  EXPECT_EQ(latest("disk/a"), 2);
  EXPECT_TRUE(read_file(dir_ / "disk/a/export/model.safetensors") == before);
  EXPECT_EQ(unfinished("disk/a"), std::vector<std::string>{});
}

TEST_F(FullDisk, MetricsThatDoNotFit) {
  SmallDisk disk(dir_ / "disk", 3 * kCheckpoint);
  if (!disk.mounted()) GTEST_SKIP() << disk.why();
  grpo("disk/a", {}, 2);
  std::string before = state("disk/a", 2);
  disk.fill(0);
  std::string id = error_id([&] { grpo("disk/a", {"run.resume=true"}); });
  EXPECT_EQ(id, "file.write");
  EXPECT_EQ(latest("disk/a"), 2);
  EXPECT_EQ(state("disk/a", 2), before);
  disk.empty();
  EXPECT_EQ(grpo("disk/a", {"run.resume=true"}).steps, 4);
  EXPECT_EQ(metrics("disk/a").size(), 4u);
}

}  // namespace
}  // namespace strata::rl
