// A process that is killed while it saves leaves the earlier checkpoint loadable. This process
// makes no client, so that it can fork: its children do.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "strata/checkpoint/checkpoint_files.h"
#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/checkpoint/checkpoint_store.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

// Runs `action` in a child; its process id.
pid_t start_child(const std::function<void()>& action) {
  pid_t pid = ::fork();
  if (pid != 0) return pid;
  try {
    action();
  } catch (const std::exception& e) {
    ::fprintf(stderr, "child: %s\n", e.what());
    ::_exit(3);
  }
  ::_exit(0);
}

int wait_for(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

class CrashTest : public ::testing::Test {
 protected:
  // Saves `step` in this process, which is killed at the `stop`-th progress (0 = never).
  void save(int64_t step, int stop) const {
    TinyRun run(new_client(), "qwen3_tied", 0);
    CheckpointStore store(scratch_.path());
    int left = stop;
    store.save(run.contents(step), {.progress = [&](uint64_t, uint64_t) {
                 if (--left == 0) ::raise(SIGKILL);
               }});
  }
  // Saves one step after another without end.
  void save_for_ever() const {
    TinyRun run(new_client(), "qwen3_tied", 0);
    CheckpointStore store(scratch_.path(), {.keep_last = 2});
    std::vector<StoredCheckpoint> found = find_checkpoints(scratch_.path());
    for (int64_t step = found.empty() ? 1 : found.back().step + 1;; ++step) {
      store.save(run.contents(step));
    }
  }
  int64_t latest_is_whole() const {
    StoredCheckpoint latest = latest_checkpoint(scratch_.path());
    CheckpointFiles files(latest.path);
    EXPECT_NO_THROW(files.verify());
    EXPECT_EQ(files.index().run.step, latest.step);
    return latest.step;
  }
  bool has_unfinished() const {
    for (const auto& entry : fs::directory_iterator(scratch_ / "checkpoints")) {
      if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
    }
    return false;
  }
  weights::ScratchDirectory scratch_;
};

TEST_F(CrashTest, KilledAtEveryStage) {
  ASSERT_EQ(wait_for(start_child([&] { save(1, 0); })), 0);
  CheckpointFiles files(latest_checkpoint(scratch_.path()).path);
  // Progress is made once a copied file, once a tensor, and once when all is written.
  const auto stages = static_cast<int>(files.index().files.size() + files.tensors().size() + 1);
  for (int i = 0; i < 20; ++i) {
    int stop = 1 + i * (stages - 1) / 19;
    EXPECT_TRUE(was_killed(wait_for(start_child([&] { save(2, stop); })))) << stop;
    EXPECT_EQ(latest_is_whole(), 1);
    EXPECT_TRUE(has_unfinished());
  }
  ASSERT_EQ(wait_for(start_child([&] { save(2, stages + 1); })), 0);
  EXPECT_EQ(latest_is_whole(), 2);
  EXPECT_FALSE(has_unfinished());
}

TEST_F(CrashTest, KilledAtAnyTime) {
  ASSERT_EQ(wait_for(start_child([&] { save(1, 0); })), 0);
  std::mt19937 random(7);
  int64_t latest = 1;
  for (int i = 0; i < 10; ++i) {
    pid_t child = start_child([&] { save_for_ever(); });
    // From its first own checkpoint on, for some time.
    const int64_t before = latest;
    for (int wait = 0; wait < 3000 && latest == before; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      latest = latest_checkpoint(scratch_.path()).step;
    }
    EXPECT_GT(latest, before);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 150));
    ::kill(child, SIGKILL);
    EXPECT_TRUE(was_killed(wait_for(child)));
    latest = latest_is_whole();
    EXPECT_LE(find_checkpoints(scratch_.path()).size(), 3u);
  }
}

}  // namespace
}  // namespace strata::checkpoint
