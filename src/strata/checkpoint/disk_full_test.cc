// A save that fails half-way leaves the directory as it was.
#include <sys/resource.h>

#include <csignal>

#include "strata/checkpoint/checkpoint_files.h"
#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/checkpoint/checkpoint_store.h"
#include "strata/checkpoint/checkpoint_writer.h"
#include "strata/checkpoint/export_hf.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

// While one lives, no file of this process grows beyond `bytes`: the system answers as it does
// when the disk is full.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

class DiskFullTest : public ::testing::Test {
 protected:
  // Everything below the run's directory.
  std::vector<fs::path> listing() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(scratch_.path())) {
      out.push_back(entry.path());
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  void expect_as_before() const {
    EXPECT_EQ(listing(), before_);
    EXPECT_EQ(latest_checkpoint(scratch_.path()).step, 1);
    EXPECT_NO_THROW(CheckpointFiles(latest_checkpoint(scratch_.path()).path).verify());
  }

  weights::ScratchDirectory scratch_;
  TinyRun run_{new_client(), "qwen3_tied", 0};
  CheckpointStore store_{scratch_.path()};
  fs::path first_ = store_.save(run_.contents(1));
  std::vector<fs::path> before_ = listing();
};

TEST_F(DiskFullTest, AtAnyByte) {
  const rlim_t largest = fs::file_size(first_ / "optimizer/model.safetensors");
  for (rlim_t i = 0; i < 24; ++i) {
    rlim_t limit = largest * i * i / (24 * 24);
    Error error(Code::unknown, "none", "none");
    {
      FileLimit full(limit);
      error = weights::error_of([&] { store_.save(run_.contents(2)); });
    }
    EXPECT_EQ(error.code(), Code::resource_exhausted) << error.what();
    EXPECT_EQ(error.id(), "file.write");
    expect_as_before();
  }
  store_.save(run_.contents(2));
  EXPECT_EQ(latest_checkpoint(scratch_.path()).step, 2);
}

TEST_F(DiskFullTest, AfterAnyWrite) {
  int calls = 0;
  SaveOptions count{.progress = [&](uint64_t, uint64_t) { ++calls; }};
  fs::remove_all(store_.save(run_.contents(2), count));
  ASSERT_GT(calls, 20);
  for (int stop = 1; stop <= calls; ++stop) {
    int left = stop;
    SaveOptions options{.progress = [&](uint64_t, uint64_t) {
      if (--left == 0) fail({.id = "test.stop", .expected = "no more", .code = Code::cancelled});
    }};
    weights::expect_error([&] { store_.save(run_.contents(2), options); }, "test.stop", "no more");
    expect_as_before();
  }
}

// A failure in the background is told by the next call, and the one after that works again.
TEST_F(DiskFullTest, TheNextSaveTellsOfAFailedOne) {
  CheckpointWriter writer(scratch_ / "other");
  {
    FileLimit full(50000);
    writer.save(run_.contents(2));
    EXPECT_TRUE(writer.has(2));
    Error error = weights::error_of([&] { writer.save(run_.contents(3)); });
    EXPECT_EQ(error.id(), "file.write");
    EXPECT_EQ(error.code(), Code::resource_exhausted);
    EXPECT_EQ(error.context(),
              std::vector<std::string>{"while the checkpoint of step 2 was written"});
    EXPECT_FALSE(writer.has(2));
    writer.save(run_.contents(4));
    weights::expect_error([&] { writer.wait(); }, "file.write", "checkpoint of step 4");
    EXPECT_NO_THROW(writer.wait());
  }
  writer.save(run_.contents(4));
  writer.wait();
  EXPECT_EQ(latest_checkpoint(scratch_ / "other").step, 4);
}

TEST_F(DiskFullTest, ASnapshotThatMemoryCannotHold) {
  if (STRATA_SANITIZED) GTEST_SKIP() << "the sanitizer's allocator ends the process";
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  // Nothing of this size is ever touched.
  Contents contents = run_.contents(2);
  const Snapshot small(contents);
  EXPECT_EQ(small.bytes(), snapshot_bytes(run_.model, run_.slot_types));
  rlimit none{1 << 20, before.rlim_max};
  ::setrlimit(RLIMIT_AS, &none);
  Error error(Code::unknown, "none", "none");
  std::vector<std::unique_ptr<Snapshot>> held;
  try {
    for (int i = 0; i < 100000; ++i) held.push_back(std::make_unique<Snapshot>(contents));
  } catch (const Error& e) {
    error = e;
  } catch (const std::bad_alloc&) {
  }
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(error.id(), "checkpoint.snapshot_memory") << held.size();
  EXPECT_EQ(error.code(), Code::resource_exhausted);
}

TEST_F(DiskFullTest, AnExportLeavesNothing) {
  {
    FileLimit full(50000);
    weights::expect_error(
        [&] {
          export_hf(scratch_ / "out", run_.model, refs_of(run_.parameters), run_.model_directory);
        },
        "file.write", "model.safetensors at byte");
  }
  expect_as_before();
}

}  // namespace
}  // namespace strata::checkpoint
