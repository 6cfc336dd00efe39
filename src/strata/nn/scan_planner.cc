#include "strata/nn/scan_planner.h"

#include <tuple>

#include "strata/base/error.h"

namespace strata::nn {
namespace {

using sharding::LayerRun;

// The best cover of the layers from some layer on: its cost and its first run.
struct Cover {
  int64_t traced = 0, runs = 0;
  LayerRun first = {};

  // What is minimised, in order of weight.
  auto rank() const { return std::tuple(traced, runs, -first.layers(), first.cycle); }
};

class Planner {
 public:
  Planner(const std::vector<int64_t>& kinds, bool force)
      : kinds_(kinds),
        count_(static_cast<int64_t>(kinds.size())),
        force_(force),
        covers_(kinds.size() + 1),
        agree_(kinds.size() / 2 + 1) {}

  std::vector<LayerRun> plan() {
    for (int64_t first = count_ - 1; first >= 0; --first) cover_from(first);
    std::vector<LayerRun> runs;
    for (int64_t at = 0; at < count_; at += runs.back().layers()) {
      runs.push_back(covers_[static_cast<size_t>(at)].first);
    }
    return runs;
  }

 private:
  void cover_from(int64_t first) {
    Cover& best = covers_[static_cast<size_t>(first)];
    best = with({first, 1, 1, force_});
    auto consider = [&](const LayerRun& run) {
      Cover cover = with(run);
      if (cover.rank() < best.rank()) best = cover;
    };
    // Under `force` a layer that repeats nothing is a loop of one step.
    for (int64_t n = 2; !force_ && first + n <= count_; ++n) consider({first, n, 1, false});
    for (int64_t cycle = 1; cycle <= count_ / 2 && first + cycle < count_; ++cycle) {
      // How many layers from `first` on equal the one a cycle later.
      int64_t& agree = agree_[static_cast<size_t>(cycle)];
      agree = kind(first) == kind(first + cycle) ? agree + 1 : 0;
      for (int64_t repeats = 2; repeats <= agree / cycle + 1; ++repeats) {
        consider({first, cycle, repeats, true});
      }
    }
  }

  Cover with(const LayerRun& run) const {
    const Cover& rest = covers_[static_cast<size_t>(run.first + run.layers())];
    int64_t traced = run.scanned ? run.cycle : run.layers();
    return {rest.traced + traced, rest.runs + 1, run};
  }

  int64_t kind(int64_t layer) const { return kinds_[static_cast<size_t>(layer)]; }

  const std::vector<int64_t>& kinds_;
  int64_t count_;
  bool force_;
  std::vector<Cover> covers_;   // [first layer]
  std::vector<int64_t> agree_;  // [cycle], for the layer at hand
};

}  // namespace

ScanMode parse_scan_mode(const std::string& text) {
  if (text == "auto") return ScanMode::automatic;
  if (text == "off") return ScanMode::off;
  if (text == "force") return ScanMode::force;
  fail({.id = "nn.scan_mode",
        .where = "scan",
        .expected = "auto, off or force",
        .got = "'" + text + "'"});
}

std::vector<LayerRun> plan_runs(const std::vector<int64_t>& kinds, ScanMode mode) {
  auto count = static_cast<int64_t>(kinds.size());
  if (count == 0) return {};
  if (mode == ScanMode::off) return {{0, count, 1, false}};
  return Planner(kinds, mode == ScanMode::force).plan();
}

std::vector<int64_t> equal_neighbours(const std::vector<int64_t>& kinds, const LayerRun& run) {
  std::vector<int64_t> sizes;
  for (int64_t i = run.first; i < run.first + run.cycle; ++i) {
    auto at = static_cast<size_t>(i);
    bool again = i > run.first && kinds[at] == kinds[at - 1];
    if (again) {
      ++sizes.back();
    } else {
      sizes.push_back(1);
    }
  }
  return sizes;
}

}  // namespace strata::nn
