#include "strata/checkpoint/checkpoint_store.h"

#include "strata/base/file.h"
#include "strata/checkpoint/checkpoint_for_test.h"

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
