// A process that is killed while it saves leaves the earlier checkpoint loadable. This process
// makes no client, so that it can fork: its children do.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "strata/checkpoint/checkpoint_files.h"
#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/checkpoint/checkpoint_store.h"
#include "strata/checkpoint/checkpoint_writer.h"

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

// What a machine that loses power keeps: bytes that were synced, under names whose directory was.
class Unsynced {
 public:
  void note(const FileStep& step) {
    std::lock_guard lock(mutex_);
    using Kind = FileStep::Kind;
    if (step.kind == Kind::create) {
      files_.insert(step.path);
      names_.insert(step.path);
    }
    if (step.kind == Kind::make_directory) names_.insert(step.path);
    if (step.kind == Kind::sync_file) syncing_ = step.path;
    if (step.kind == Kind::sync_directory) synced_directory_ = step.path;
    if (step.kind == Kind::rename) renames_.emplace_back(step.path, step.to);
  }
  // Called when the step that was noted last has been made, which is when the next one comes.
  void settle() {
    std::lock_guard lock(mutex_);
    files_.erase(syncing_);
    syncing_.clear();
    if (synced_directory_.empty()) return;
    std::erase_if(names_, [&](const fs::path& p) { return p.parent_path() == synced_directory_; });
    std::erase_if(renames_,
                  [&](const auto& r) { return r.second.parent_path() == synced_directory_; });
    synced_directory_.clear();
  }
  // Loses each of the others, or not, by the toss of a coin.
  void lose(std::mt19937& random) {
    std::lock_guard lock(mutex_);
    std::error_code ec;
    // A rename that was lost leaves the old name.
    for (auto it = renames_.rbegin(); it != renames_.rend(); ++it) {
      if (random() % 2 == 0 && !fs::exists(it->first, ec)) fs::rename(it->second, it->first, ec);
    }
    for (const fs::path& file : files_) {
      if (random() % 2 == 0 && fs::exists(file, ec)) {
        fs::resize_file(file, random() % (fs::file_size(file, ec) + 1), ec);
      }
    }
    for (const fs::path& name : names_) {
      if (random() % 2 == 0) fs::remove_all(name, ec);
    }
  }

 private:
  std::mutex mutex_;
  std::set<fs::path> files_, names_;
  std::vector<std::pair<fs::path, fs::path>> renames_;
  fs::path syncing_, synced_directory_;
};

// Runs `action` with a kill before the `stop`-th change of the file system (0 = never), after which
// what was not synced may be lost; returns how many changes there were.
void killed_at(int stop, unsigned seed, const fs::path& count_file,
               const std::function<void()>& action) {
  auto unsynced = std::make_shared<Unsynced>();
  auto steps = std::make_shared<std::atomic<int>>(0);
  watch_file_steps([=](const FileStep& step) {
    unsynced->settle();
    if (++*steps == stop) {
      std::mt19937 random(seed);
      if (seed != 0) unsynced->lose(random);
      ::raise(SIGKILL);
    }
    unsynced->note(step);
  });
  action();
  watch_file_steps({});
  weights::put_file(count_file, std::to_string(steps->load()));
}

// At 200 points, with and without the loss of what was not synced, while the third checkpoint is
// written by each mode and the first one is removed.
TEST_F(CrashTest, KilledAtEveryChangeOfTheFileSystem) {
  auto work = [&] {
    TinyRun run(new_client(), "qwen3_tied", 0);
    CheckpointWriter writer(scratch_.path(), SaveMode::snapshot, {.keep_last = 2});
    std::vector<StoredCheckpoint> found = find_checkpoints(scratch_.path());
    int64_t step = found.empty() ? 1 : found.back().step + 1;
    writer.save(run.contents(step), -1, {.max_shard_bytes = 60000});
    writer.wait();
  };
  const fs::path count = scratch_ / "count";
  ASSERT_EQ(wait_for(start_child([&] { killed_at(0, 0, count, work); })), 0);
  ASSERT_EQ(wait_for(start_child([&] { killed_at(0, 0, count, work); })), 0);
  const int changes = std::stoi(read_file(count));
  ASSERT_GT(changes, 50);
  std::mt19937 random(11);
  int64_t latest = 2;
  int kills = 0;
  for (int i = 0; i < 200; ++i) {
    const int stop = i < changes && i < 100 ? i + 1 : 1 + static_cast<int>(random() % changes);
    const unsigned seed = i % 3 == 0 ? 0 : 1 + random() % 1000;
    SCOPED_TRACE("stop " + std::to_string(stop) + ", seed " + std::to_string(seed));
    int status = wait_for(start_child([&] { killed_at(stop, seed, count, work); }));
    // More is removed from some directories than from others, so a late stop may not come.
    ASSERT_TRUE(was_killed(status) || status == 0);
    kills += was_killed(status) ? 1 : 0;
    const int64_t now = latest_is_whole();
    ASSERT_GE(now, latest);
    ASSERT_LE(now, latest + 1);
    if (status == 0) {
      ASSERT_EQ(now, latest + 1);
    }
    latest = now;
    if (HasFailure()) return;
  }
  EXPECT_GT(kills, 150);
}

// The loss that the test above plays is one: it takes what was not synced, and nothing else.
TEST_F(CrashTest, OnlyUnsyncedWritesAreLost) {
  int names = 0, bytes = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    Unsynced unsynced;
    watch_file_steps([&](const FileStep& step) {
      unsynced.settle();
      unsynced.note(step);
    });
    const fs::path folder = scratch_ / std::to_string(seed);
    fs::create_directories(folder);
    for (const char* name : {"safe", "named"}) {
      FileWriter writer(folder / name);
      writer.write("0123456789");
      if (std::string(name) == "safe") writer.commit();
      sync_directory(folder);
      writer.commit();
      if (std::string(name) == "named") break;  // its last sync is under way
    }
    std::mt19937 random(seed);
    unsynced.lose(random);
    watch_file_steps({});
    EXPECT_EQ(read_file(folder / "safe"), "0123456789");
    names += fs::exists(folder / "named") ? 0 : 1;
    bytes += fs::exists(folder / "named") && read_file(folder / "named") != "0123456789" ? 1 : 0;
  }
  EXPECT_EQ(names, 0);  // its directory was synced
  EXPECT_GT(bytes, 5);
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
