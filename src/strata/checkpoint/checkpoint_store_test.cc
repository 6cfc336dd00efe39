#include "strata/checkpoint/checkpoint_store.h"

#include <functional>

#include "strata/base/file.h"
#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/checkpoint/model_files.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
using weights::expect_error;
using weights::put_file;

class CheckpointStoreTest : public ::testing::Test {
 protected:
  std::vector<int64_t> steps() const {
    std::vector<int64_t> out;
    for (const StoredCheckpoint& c : find_checkpoints(scratch_.path())) out.push_back(c.step);
    return out;
  }
  fs::path folder() const { return scratch_ / "checkpoints"; }

  weights::ScratchDirectory scratch_;
  runtime::ClientPtr client_ = new_client();
  TinyRun run_{client_, "qwen3_tied", 0};
};

TEST_F(CheckpointStoreTest, LatestIsTheHighestNumber) {
  EXPECT_TRUE(steps().empty());
  expect_error([&] { latest_checkpoint(scratch_.path()); }, "checkpoint.no_latest",
               scratch_.path().string());
  {
    CheckpointStore store(scratch_.path());
    // Older steps are saved later here, so that neither time nor spelling gives the right answer.
    for (int64_t step : {100000000, 10, 9}) store.save(run_.contents(step));
    EXPECT_TRUE(store.has(9));
    EXPECT_FALSE(store.has(8));
  }
  EXPECT_EQ(steps(), (std::vector<int64_t>{9, 10, 100000000}));
  EXPECT_EQ(latest_checkpoint(scratch_.path()).step, 100000000);
  fs::remove_all(checkpoint_path(scratch_.path(), 100000000));
  EXPECT_EQ(latest_checkpoint(scratch_.path()).path, folder() / "step-00000010");
}

TEST_F(CheckpointStoreTest, IgnoresOtherNamesAndSweepsUnfinishedOnes) {
  for (const char* name : {"step-00000099.tmp-17/x", "step-00000098.tmp-removed/x", "step-97/x",
                           "step-000000096x/x", "step--0000095/x", "other/x", "notes.tmp-1"}) {
    put_file(folder() / name, "x");
  }
  put_file(folder() / "step-00000094", "a file");
  EXPECT_TRUE(steps().empty());
  CheckpointStore store(scratch_.path());
  EXPECT_FALSE(fs::exists(folder() / "step-00000099.tmp-17"));
  EXPECT_FALSE(fs::exists(folder() / "step-00000098.tmp-removed"));
  for (const char* name : {"step-97", "other", "notes.tmp-1", "step-00000094"}) {
    EXPECT_TRUE(fs::exists(folder() / name)) << name;
  }
}

TEST_F(CheckpointStoreTest, Retention) {
  CheckpointStore store(scratch_.path(), {.keep_last = 2, .keep_every = 4});
  for (int64_t step = 1; step <= 7; ++step) {
    if (step == 2) store.keep(2);
    store.save(run_.contents(step));
  }
  EXPECT_EQ(steps(), (std::vector<int64_t>{2, 4, 6, 7}));
  store.release(2);
  store.save(run_.contents(8));
  EXPECT_EQ(steps(), (std::vector<int64_t>{4, 7, 8}));
  for (const auto& entry : fs::directory_iterator(folder())) {
    EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos);
  }
  EXPECT_NO_THROW(
      load_checkpoint(checkpoint_path(scratch_.path(), 4), run_.model, run_.slot_types, client_));
}

// Those in the middle of a step stand behind it, by number, and go with the next one.
TEST_F(CheckpointStoreTest, InTheMiddleOfAStep) {
  auto contents = [&](int64_t step, std::optional<int64_t> micro_steps) {
    Contents c = run_.contents(step);
    c.run.micro_steps = micro_steps;
    return c;
  };
  auto names = [&] {
    std::vector<std::string> out;
    for (const StoredCheckpoint& c : find_checkpoints(scratch_.path())) {
      out.push_back(c.path.filename().string());
    }
    return out;
  };
  using Names = std::vector<std::string>;
  for (const char* name : {"step-00000002+03", "step-00000002+", "step-00000002+x", "step-2+1"}) {
    put_file(folder() / name / "x", "x");  // not these spellings
  }
  put_file(folder() / "step-00000009+1.tmp-17/x", "x");
  CheckpointStore store(scratch_.path(), {.keep_last = 2});
  EXPECT_FALSE(fs::exists(folder() / "step-00000009+1.tmp-17"));
  store.save(contents(1, {}));
  store.save(contents(2, {}));
  store.save(contents(2, 9));
  EXPECT_EQ(names(), (Names{"step-00000002", "step-00000002+9"}));
  fs::path path = store.save(contents(2, 10));  // text order would put it first
  EXPECT_EQ(names(), (Names{"step-00000002", "step-00000002+10"}));
  EXPECT_EQ(latest_checkpoint(scratch_.path()).path, path);
  EXPECT_EQ(latest_checkpoint(scratch_.path()).micro_steps, 10);
  EXPECT_EQ(read_index(path).run.micro_steps, 10);
  EXPECT_TRUE(store.has(2, 10));
  EXPECT_FALSE(store.has(2, 0));
  expect_error([&] { store.save(contents(2, 10)); }, "checkpoint.exists", path.string());
  expect_error([&] { store.save(contents(2, -1)); }, "checkpoint.step", "got -1");
  store.save(contents(3, {}));
  EXPECT_EQ(names(), (Names{"step-00000002", "step-00000003"}));
}

// Case C7: what is no finished checkpoint is never the latest, and numbers decide.
TEST_F(CheckpointStoreTest, LatestAmongWhatACrashOrAnotherProgramLeft) {
  {
    CheckpointStore store(scratch_.path());
    for (int64_t step : {9, 10, 100}) store.save(run_.contents(step));
  }
  fs::path last = checkpoint_path(scratch_.path(), 100);
  EXPECT_EQ(latest_checkpoint(scratch_.path()).path, last);  // c: text order says 9
  // b: a name of something under way, and a pointer of another program to what is not there.
  fs::copy(last, folder() / "step-00000101.tmp-77", fs::copy_options::recursive);
  put_file(folder() / "latest", "step-00000999");
  fs::create_directory_symlink("step-00000555.gone", folder() / "step-00000555");
  EXPECT_EQ(latest_checkpoint(scratch_.path()).path, last);
  // d, e: a short file, no optimiser state: an error that says so, never an older state in silence.
  auto load = [&] {
    load_checkpoint(latest_checkpoint(scratch_.path()).path, run_.model, run_.slot_types, client_);
  };
  EXPECT_NO_THROW(load());
  auto damaged = [&](int64_t step, const char* part, const std::function<void(fs::path)>& damage) {
    fs::path path = checkpoint_path(scratch_.path(), step);
    fs::copy(checkpoint_path(scratch_.path(), 10), path, fs::copy_options::recursive);
    damage(path);
    try {
      load();
      ADD_FAILURE() << "step " << step << " was loaded";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  damaged(201, "model.safetensors", [](const fs::path& path) {
    fs::resize_file(path / "model.safetensors", fs::file_size(path / "model.safetensors") - 1);
  });
  damaged(202, "optimizer", [](const fs::path& path) { fs::remove_all(path / "optimizer"); });
  // f: empty.
  EXPECT_TRUE(find_checkpoints(scratch_ / "nothing").empty());
}

// Case C7a.
TEST_F(CheckpointStoreTest, WithoutAManifestThereIsNoCheckpoint) {
  CheckpointStore(scratch_.path()).save(run_.contents(10));
  fs::path bad = checkpoint_path(scratch_.path(), 20);
  fs::copy(checkpoint_path(scratch_.path(), 10), bad, fs::copy_options::recursive);
  fs::remove(bad / "manifest.json");
  EXPECT_EQ(latest_checkpoint(scratch_.path()).step, 10);
  EXPECT_TRUE(fs::exists(bad));  // reading changes nothing
  CheckpointStore store(scratch_.path());
  EXPECT_FALSE(store.has(20));
  store.save(run_.contents(20));
  EXPECT_TRUE(fs::exists(bad / "manifest.json"));
  EXPECT_TRUE(fs::exists(folder() / "step-00000020.incomplete" / "model.safetensors"));
}

TEST_F(CheckpointStoreTest, ARunStandsForItsLatestCheckpoint) {
  const fs::path run = scratch_.path();
  EXPECT_EQ(model_path(run), run);  // neither a run nor a model: its reader tells
  EXPECT_EQ(model_path(run / "none"), run / "none");
  fs::create_directory(folder());
  expect_error([&] { model_path(run); }, "checkpoint.no_latest", run.string());
  CheckpointStore store(run);
  store.save(run_.contents(9));
  fs::path latest = store.save(run_.contents(10));
  EXPECT_EQ(model_path(run), latest);
  EXPECT_EQ(model_path(latest), latest);
  put_file(run / "model.safetensors", "x");
  EXPECT_EQ(model_path(run), run);
}

TEST_F(CheckpointStoreTest, OneWriterAtATime) {
  CheckpointStore store(scratch_.path());
  expect_error([&] { CheckpointStore second(scratch_.path()); }, "file.locked", folder().string());
  store.save(run_.contents(1));
  EXPECT_EQ(latest_checkpoint(scratch_.path()).step, 1);  // reading needs no lock
}

TEST_F(CheckpointStoreTest, RefusesBadCalls) {
  expect_error([&] { CheckpointStore(scratch_.path(), {.keep_last = -1}); }, "checkpoint.retention",
               "-1, 0");
  CheckpointStore store(scratch_.path());
  expect_error([&] { store.save(run_.contents(-1)); }, "checkpoint.step", "got -1");
  fs::path path = store.save(run_.contents(3));
  expect_error([&] { store.save(run_.contents(3)); }, "checkpoint.exists", path.string());
  put_file(scratch_ / "file", "x");
  expect_error([&] { CheckpointStore(scratch_ / "file"); }, "checkpoint.directory",
               (scratch_ / "file").string());
}

}  // namespace
}  // namespace strata::checkpoint
