// A reader that was written from docs/formats/checkpoint.md alone: examples/read_checkpoint.py. It
// needs python3 with numpy and safetensors (or what PYTHON names); without them this is skipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "strata/base/file.h"
#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/checkpoint/checkpoint_store.h"

namespace strata::end_to_end {
namespace {

namespace fs = std::filesystem;

class Reader : public ::testing::Test {
 protected:
  void SetUp() override {
    if (python("-c 'import numpy, safetensors'") != 0) {
      GTEST_SKIP() << "no " << interpreter() << " with numpy and safetensors";
    }
    checkpoint::CheckpointStore store(scratch_ / "run");
    store.save(tiny_.contents(9));
    path_ = store.save(tiny_.contents(100));
  }
  static std::string interpreter() {
    const char* named = std::getenv("PYTHON");
    return named != nullptr ? named : "python3";
  }
  // Exit status; what it prints is then in out().
  int python(const std::string& arguments) const {
    std::string command = interpreter() + " " + arguments + " >" + (scratch_ / "out").string() +
                          " 2>" + (scratch_ / "err").string();
    return std::system(command.c_str());
  }
  int read(const std::string& arguments) const {
    return python(std::string(STRATA_SOURCE_DIR) + "/examples/read_checkpoint.py " + arguments);
  }
  std::string out() const { return read_file(scratch_ / "out"); }

  strata::testing::ScratchDirectory scratch_;
  checkpoint::TinyRun tiny_{checkpoint::new_client(), "llama_tied", 1};
  fs::path path_;
};

TEST_F(Reader, ListsTheLatestCheckpointAndChecksEveryHash) {
  ASSERT_EQ(read((scratch_ / "run").string()), 0) << read_file(scratch_ / "err");
  EXPECT_NE(out().find("step 100 {'count': 100"), std::string::npos) << out();
  for (const auto& slot : tiny_.model.slots()) {
    for (const weights::Wanted& w : checkpoint::members_of(slot)) {
      EXPECT_NE(out().find("adam.v/" + w.name + " ("), std::string::npos) << w.name;
    }
  }
}

TEST_F(Reader, StacksTheLayersAgain) {
  const sharding::Slot* stacked = nullptr;
  for (const auto& slot : tiny_.model.slots()) {
    if (slot.name.find("[") != std::string::npos) stacked = &slot;
  }
  ASSERT_NE(stacked, nullptr);
  ASSERT_EQ(read(path_.string() + " '" + stacked->name + "'"), 0) << read_file(scratch_ / "err");
  EXPECT_NE(out().find(stacked->name + " [["), std::string::npos) << out();
}

TEST_F(Reader, FindsDamage) {
  fs::path file = path_ / "model.safetensors";
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file_atomically(file, bytes);
  EXPECT_NE(read(path_.string()), 0);
  EXPECT_NE(read_file(scratch_ / "err").find("is damaged"), std::string::npos);
}

}  // namespace
}  // namespace strata::end_to_end
