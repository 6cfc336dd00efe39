#include "strata/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "strata/checkpoint/checkpoint_files.h"
#include "strata/checkpoint/checkpoint_for_test.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
using weights::expect_error;

class CheckpointWriterTest : public ::testing::TestWithParam<SaveMode> {
 protected:
  std::vector<int64_t> steps() const {
    std::vector<int64_t> out;
    for (const StoredCheckpoint& c : find_checkpoints(scratch_.path())) out.push_back(c.step);
    return out;
  }
  weights::ScratchDirectory scratch_;
  runtime::ClientPtr client_ = new_client();
};
INSTANTIATE_TEST_SUITE_P(Modes, CheckpointWriterTest,
                         ::testing::Values(SaveMode::snapshot, SaveMode::stream),
                         [](const auto& p) { return std::string(name_of(p.param)); });

// Case C8: the arrays of step k are gone as soon as save returns, and writing is slow.
TEST_P(CheckpointWriterTest, FilesHoldTheStepTheyNameAlthoughTrainingWentOn) {
  weights::put_file(scratch_ / "config.json", "{}");
  sharding::ParamType type = sharding::plain_type(DType::f32, {4, 4});
  sharding::Manifest model({{"w", sharding::Kind::param, type}}, {}, {});
  std::vector<sharding::Slot> types = {{"adam.m/w", sharding::Kind::buffer, type}};
  SaveOptions slow{.progress = [](uint64_t, uint64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }};
  {
    CheckpointWriter writer(scratch_.path(), GetParam());
    for (int step = 1; step <= 3; ++step) {
      std::vector<float> values(16, static_cast<float>(step));
      std::vector<runtime::Array> arrays;
      for (int i = 0; i < 2; ++i) {
        arrays.push_back(runtime::Array::put(client_, HostTensor::of<float>({4, 4}, values)));
      }
      Contents contents{&model, {&arrays[0]}, types, {&arrays[1]}, {}, scratch_.path()};
      contents.run.step = step;
      contents.run.counts = {{"count", step}};
      writer.save(contents, -1, slow);
      EXPECT_TRUE(writer.has(step));
      EXPECT_FALSE(writer.has(step + 1));
      for (runtime::Array& array : arrays) array.reset();
      // Memory that was freed is taken again.
      for (int i = 0; i < 8; ++i) {
        runtime::Array::put(client_, HostTensor::of<float>({4, 4}, std::vector<float>(16, 99)));
      }
    }
    // The end of the scope, as that of a run, waits for the last one.
  }
  EXPECT_EQ(steps(), (std::vector<int64_t>{1, 2, 3}));
  for (int64_t step = 1; step <= 3; ++step) {
    Restored back = load_checkpoint(checkpoint_path(scratch_.path(), step), model, types, client_);
    EXPECT_EQ(back.run.counts.at("count"), step);
    for (const auto* list : {&back.parameters, &back.slots}) {
      HostTensor got = (*list)[0].get();
      EXPECT_EQ(got.at(0), static_cast<double>(step));
      EXPECT_EQ(
          std::count(got.data<float>().begin(), got.data<float>().end(), static_cast<float>(step)),
          16);
    }
  }
}

TEST_P(CheckpointWriterTest, WritesTheSameBytesInBothModes) {
  for (Form form : {Form(std::nullopt), Form(0), Form(1), Form(-1)}) {
    fs::path run = scratch_ / ("run" + std::to_string(form.value_or(9)));
    TinyRun tiny(client_, "qwen3_tied", form);
    CheckpointWriter writer(run, GetParam());
    writer.save(tiny.contents(7));
    writer.wait();
    fs::path plain = scratch_ / ("plain" + std::to_string(form.value_or(9)));
    save_checkpoint(plain, tiny.contents(7));
    fs::path written = checkpoint_path(run, 7);
    for (const auto& entry : fs::recursive_directory_iterator(plain)) {
      if (!entry.is_regular_file()) continue;
      fs::path name = entry.path().lexically_relative(plain);
      EXPECT_EQ(read_file(written / name), read_file(entry.path())) << name;
    }
    EXPECT_NO_THROW(CheckpointFiles(written).verify());
  }
}

TEST_P(CheckpointWriterTest, KeepsTheBestStep) {
  TinyRun tiny(client_, "qwen3_tied", 0);
  CheckpointWriter writer(scratch_.path(), GetParam(), {.keep_last = 1});
  for (int64_t step = 1; step <= 5; ++step) writer.save(tiny.contents(step), step < 4 ? 1 : 4);
  writer.wait();
  EXPECT_EQ(steps(), (std::vector<int64_t>{4, 5}));
}

TEST_P(CheckpointWriterTest, RefusesWhatDoesNotFitAtOnce) {
  TinyRun tiny(client_, "qwen3_tied", 0);
  CheckpointWriter writer(scratch_.path(), GetParam());
  expect_error([&] { writer.save(tiny.contents(-1)); }, "checkpoint.step", "got -1");
  Contents contents = tiny.contents(1);
  contents.parameters.pop_back();
  expect_error([&] { writer.save(contents); }, "checkpoint.tree", "arrays");
  writer.save(tiny.contents(2));
  writer.wait();
  expect_error([&] { writer.save(tiny.contents(2)); }, "checkpoint.exists", "step-00000002");
  expect_error([&] { CheckpointStore second(scratch_.path()); }, "file.locked", "checkpoints");
}

TEST(SaveModeTest, HasNames) {
  for (SaveMode mode : {SaveMode::snapshot, SaveMode::stream}) {
    EXPECT_EQ(parse_save_mode(name_of(mode)), mode);
  }
  expect_error([] { parse_save_mode("async"); }, "checkpoint.save_mode",
               "snapshot or stream, got 'async'");
}

TEST(CheckpointWriterLogTest, TellsOfALostCheckpointAtTheEnd) {
  weights::ScratchDirectory scratch;
  TinyRun tiny(new_client(), "qwen3_tied", 0);
  SaveOptions stop{.progress = [](uint64_t, uint64_t) {
    fail({.id = "test.stop", .expected = "no more", .code = Code::cancelled});
  }};
  ::testing::internal::CaptureStderr();
  { CheckpointWriter(scratch.path()).save(tiny.contents(3), -1, stop); }
  std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("a checkpoint is lost"), std::string::npos) << log;
  EXPECT_NE(log.find("step 3"), std::string::npos) << log;
  EXPECT_TRUE(find_checkpoints(scratch.path()).empty());
}

}  // namespace
}  // namespace strata::checkpoint
