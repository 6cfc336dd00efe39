// `strata plan` from a configuration alone: what each device holds, what the step needs, and what
// its devices tell one another.
#include <gtest/gtest.h>

#include "end_to_end/binary_for_test.h"
#include "strata/base/file.h"
#include "strata/base/json.h"

namespace strata::end_to_end {
namespace {

// A directory with nothing but qwen3's config.json.
class PlanCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file_atomically(scratch_ / "config.json", read_file(oracle("qwen3") / "config.json"));
  }

  Outcome plan(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"plan", "--model", scratch_.path().string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run({.arguments = arguments});
  }

  Scratch scratch_;
};

int64_t sum(const Json& rows, const char* key) {
  int64_t total = 0;
  for (const Json& row : rows) total += row.at(key).get<int64_t>();
  return total;
}

TEST_F(PlanCommand, SharesParametersAndStateOut) {
  Outcome o =
      plan({"--mesh", "layers=2,fsdp=2,tensor=2", "--rows", "4", "--tokens", "16", "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  Json p = parse_json(o.out, "stdout");
  int64_t whole = sum(p["parameters"], "bytes");
  int64_t each = sum(p["parameters"], "bytes_per_device");
  EXPECT_EQ(whole, 4 * 193344);
  // Everything is shared by four at least, but for norms.
  EXPECT_GT(each, whole / 8);
  EXPECT_LT(each, whole / 4);
  EXPECT_EQ(sum(p["slots"], "bytes_per_device"), 2 * each);
  ASSERT_EQ(p["programs"].size(), 2u);
  // The update reads parameters, slots and gradients, and adds up norms, no arrays.
  const Json& update = p["programs"][1];
  EXPECT_NEAR(update["argument_bytes"].get<double>(), 4.0 * static_cast<double>(each), 4096);
  ASSERT_EQ(update["collectives"].size(), 1u);
  EXPECT_LT(update["collectives"]["all-reduce"]["bytes"].get<int64_t>(), 1024);
  EXPECT_GT(p["programs"][0]["collectives"]["all-gather"]["count"].get<int64_t>(), 0);
}

TEST_F(PlanCommand, OneDeviceHoldsEverythingAndTalksToNobody) {
  Outcome o = plan({"--rows", "2", "--tokens", "8", "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  Json p = parse_json(o.out, "stdout");
  EXPECT_EQ(sum(p["parameters"], "bytes_per_device"), sum(p["parameters"], "bytes"));
  for (const Json& program : p["programs"]) EXPECT_TRUE(program["collectives"].empty());
}

TEST_F(PlanCommand, MeshesBeyondThisMachineAndReasons) {
  Outcome o = plan({"--mesh", "fsdp=64,tensor=5", "--no-compile"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("f32[vocab:160@tensor, embed:64@fsdp]"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("(96): tensor (5) does not divide it; replicated"), std::string::npos);
  EXPECT_NE(o.out.find("dim 0 'batch' (8)"), std::string::npos) << o.out;
  expect_error(plan({"--mesh", "fsdp=64,tensor=5", "--strict"}), 3, "sharding.strict",
               {"does not divide it"});
  expect_error(plan({"--mesh", "fsdp=0"}), 2, "sharding.mesh_size", {"got 0"});
}

}  // namespace
}  // namespace strata::end_to_end
