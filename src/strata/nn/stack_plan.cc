#include "strata/nn/stack_plan.h"

#include <fmt/format.h>

#include "strata/base/error.h"
#include "strata/nn/fingerprint.h"

namespace strata::nn {
namespace {

using sharding::LayerRun;

// The position of the first fingerprint equal to print `i`.
int64_t kind_of(const std::vector<Fingerprint>& prints, size_t i) {
  size_t same = 0;
  while (!(prints[same] == prints[i])) ++same;
  return static_cast<int64_t>(same);
}

Fingerprint without_buffers(Fingerprint print) {
  for (Trait& t : print) {
    if (t.per_layer_buffer) t.text = "a buffer";
  }
  return print;
}

// Buffers of one name in layers that are alike but for the buffers.
void check_buffers(const LayerStack& stack, const std::vector<Fingerprint>& prints) {
  std::vector<Fingerprint> bare;
  for (const Fingerprint& print : prints) bare.push_back(without_buffers(print));
  for (size_t i = 0; i < prints.size(); ++i) {
    auto like = static_cast<size_t>(kind_of(bare, i));
    if (prints[like] == prints[i]) continue;
    fail({.id = "nn.per_layer_buffer",
          .where = stack.path(),
          .expected = "buffers per layer of one shape in layers that are otherwise alike",
          .got = first_difference(stack.layer(like), prints[like], stack.layer(i), prints[i]),
          .cure = "Give them one shape, or tell the layers apart in describe()"});
  }
}

std::vector<std::string> reasons_of(const LayerStack& stack, const std::vector<LayerRun>& runs,
                                    const std::vector<Fingerprint>& prints) {
  std::vector<std::string> reasons;
  if (stack.size() == 1 && !runs[0].scanned) {
    reasons.push_back(stack.path() + " has one layer, and a loop is for two or more");
  }
  for (const LayerRun& run : runs) {
    int64_t last = run.first + run.layers() - 1;
    for (int64_t i = run.scanned ? last : run.first; i <= last; ++i) {
      auto at = static_cast<size_t>(i);
      if (at + 1 == stack.size()) break;
      const Layer &here = stack.layer(at), &next = stack.layer(at + 1);
      std::string reason = first_difference(here, prints[at], next, prints[at + 1]);
      if (reason.empty()) {
        reason = fmt::format("{} and {} are alike, but another cycle ends or begins between them",
                             here.path(), next.path());
      }
      reasons.push_back(reason);
    }
  }
  return reasons;
}

}  // namespace

StackPlan plan_layers(const LayerStack& stack, const ScanOptions& options) {
  Sharing sharing(stack);
  std::vector<Fingerprint> prints;
  std::vector<int64_t> kinds;
  for (size_t i = 0; i < stack.size(); ++i) {
    prints.push_back(fingerprint(stack.layer(i), sharing));
    kinds.push_back(kind_of(prints, i));
  }
  check_buffers(stack, prints);
  StackPlan out{{stack.path(), plan_runs(kinds, options.mode)}, std::move(sharing), {}, {}};
  for (const LayerRun& run : out.plan.runs) {
    bool nested = options.nested && run.scanned;
    out.neighbours.push_back(nested ? equal_neighbours(kinds, run)
                                    : std::vector<int64_t>(static_cast<size_t>(run.cycle), 1));
  }
  if (options.mode != ScanMode::off) out.reasons = reasons_of(stack, out.plan.runs, prints);
  return out;
}

}  // namespace strata::nn
