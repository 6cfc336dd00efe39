// Whole runs with each optimiser: they learn, and a resumed run is the uninterrupted one.
#include <algorithm>

#include "end_to_end/runs_for_test.h"
#include "strata/base/file.h"
#include "strata/base/json.h"

namespace strata::rl {
namespace {

class Optimizers : public Runs {
 protected:
  using Overrides = std::vector<std::string>;

  void expect_learns_and_resumes(const std::string& name, const Overrides& options) {
    write_data();
    Overrides longer = options;
    longer.push_back("sft.steps=12");
    SftSummary learnt = sft(name, longer);
    EXPECT_LT(learnt.last_loss, learnt.first_loss - 1) << name;
    sft("whole", options);
    SftSummary first = sft("parts", options, 2);
    EXPECT_TRUE(first.interrupted);
    Overrides resumed = options;
    resumed.push_back("run.resume=true");
    sft("parts", resumed);
    EXPECT_EQ(state("parts", 6), state("whole", 6)) << name;
    EXPECT_NE(state("parts", 6), state("parts", 2));
  }

  // The roles of a run's slots, sorted, each once.
  Overrides roles(const std::string& output) const {
    Json index = read_json(dir_ / output / "checkpoints/step-00000006/manifest.json");
    Overrides all;
    for (const Json& slot : index.at("slots")) {
      std::string name = slot.at("name").get<std::string>();
      all.push_back(name.substr(0, name.find('/')));
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }
};

TEST_F(Optimizers, Adafactor) {
  expect_learns_and_resumes("a", {"optimizer.name=adafactor", "optimizer.lr=0.1",
                                  "optimizer.min_factored=32", "optimizer.momentum=0.5"});
  EXPECT_EQ(roles("parts"),
            (Overrides{"adafactor.m", "adafactor.v", "adafactor.v_col", "adafactor.v_row"}));
}

TEST_F(Optimizers, Muon) {
  expect_learns_and_resumes("a",
                            {"optimizer.name=muon", "optimizer.lr=2e-2", "optimizer.adam_lr=1e-2"});
  EXPECT_EQ(roles("parts"), (Overrides{"adam.m", "adam.v", "muon.m"}));
}

// Steps at a rate that no parameter survives: the run ends after as many bad ones as it allows.
TEST_F(Optimizers, TooManyNonFiniteStepsEndTheRun) {
  write_data();
  auto run = [&](const std::string& output, const std::string& allowed) {
    return error_id([&] {
      sft(output, {"optimizer.name=sgd", "optimizer.lr=1e30", "optimizer.clip_norm=0",
                   "optimizer.max_skipped=" + allowed, "sft.steps=5"});
    });
  };
  EXPECT_EQ(run("ends", "3"), "optim.skipped_in_a_row");
  EXPECT_EQ(run("goes on", "0"), "");
}

}  // namespace
}  // namespace strata::rl
