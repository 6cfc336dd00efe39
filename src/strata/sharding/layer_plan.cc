#include "strata/sharding/layer_plan.h"

#include <fmt/format.h>

#include <charconv>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::sharding {
namespace {

bool parse_index(std::string_view text, int64_t& out) {
  const char* end = text.data() + text.size();
  auto result = std::from_chars(text.data(), end, out);
  bool canonical = text == "0" || (!text.empty() && text[0] >= '1' && text[0] <= '9');
  return canonical && result.ec == std::errc() && result.ptr == end;
}

}  // namespace

int64_t LayerPlan::count() const {
  return runs.empty() ? 0 : runs.back().first + runs.back().layers();
}

LayerPlace LayerPlan::place(int64_t layer) const {
  for (size_t i = 0; i < runs.size(); ++i) {
    int64_t offset = layer - runs[i].first;
    if (offset < 0 || offset >= runs[i].layers()) continue;
    return {static_cast<int64_t>(i), offset / runs[i].cycle, offset % runs[i].cycle};
  }
  fail({.id = "sharding.plan_layer",
        .where = stack,
        .expected = fmt::format("a layer below {}", count()),
        .got = std::to_string(layer),
        .code = Code::out_of_range});
}

int64_t LayerPlan::layer_at(const LayerPlace& p) const {
  bool inside = p.run >= 0 && p.run < static_cast<int64_t>(runs.size());
  if (inside) {
    const LayerRun& run = runs[static_cast<size_t>(p.run)];
    inside = p.repeat >= 0 && p.repeat < run.repeats && p.slot >= 0 && p.slot < run.cycle;
  }
  require(inside, {.id = "sharding.plan_place",
                   .where = stack,
                   .expected = "a place inside " + text(),
                   .got = fmt::format("run {}, repeat {}, slot {}", p.run, p.repeat, p.slot),
                   .code = Code::out_of_range});
  const LayerRun& run = runs[static_cast<size_t>(p.run)];
  return run.first + p.repeat * run.cycle + p.slot;
}

std::string LayerPlan::stacked_name(int64_t run, int64_t slot, std::string_view leaf) const {
  int64_t begin = layer_at({run, 0, slot});
  const LayerRun& r = runs[static_cast<size_t>(run)];
  return fmt::format("{}[{}:{}:{}].{}", stack, begin, r.first + r.layers(), r.cycle, leaf);
}

std::string LayerPlan::layer_name(int64_t layer, std::string_view leaf) const {
  return fmt::format("{}.{}.{}", stack, layer, leaf);
}

std::string LayerPlan::text() const {
  std::string text = stack + ":";
  if (runs.empty()) return text + " no layers";
  for (const LayerRun& run : runs) {
    int64_t last = run.first + run.layers() - 1;
    text += &run == &runs.front() ? " " : ", ";
    text += run.first == last ? std::to_string(last) : fmt::format("{}-{}", run.first, last);
    text += run.scanned ? fmt::format(" scanned {} x {}", run.cycle, run.repeats) : " unrolled";
  }
  return text;
}

void check_plan(const LayerPlan& plan) {
  int64_t next = 0;
  for (const LayerRun& run : plan.runs) {
    // Bounded so that cycle * repeats cannot overflow.
    constexpr int64_t kMaxLayers = 1 << 30;
    bool lawful = run.cycle >= 1 && run.repeats >= 1 && run.first == next &&
                  run.cycle <= kMaxLayers && run.repeats <= kMaxLayers / run.cycle;
    require(lawful, {.id = "sharding.plan_runs",
                     .where = "layer plan of '" + plan.stack + "'",
                     .expected = fmt::format("a run of at least one layer that starts at {}", next),
                     .got = fmt::format("first {}, cycle {}, repeats {}", run.first, run.cycle,
                                        run.repeats)});
    next += run.layers();
  }
}

std::vector<std::string> StackedName::layer_names() const {
  std::vector<std::string> names;
  for (int64_t layer = begin; layer < end; layer += step) {
    names.push_back(fmt::format("{}.{}.{}", stack, layer, leaf));
  }
  return names;
}

std::optional<StackedName> parse_stacked_name(std::string_view name) {
  size_t open = name.find('[');
  size_t close = name.find("].", open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return std::nullopt;
  std::vector<std::string> bounds = split(name.substr(open + 1, close - open - 1), ':');
  StackedName parts{std::string(name.substr(0, open)), 0, 0, 1,
                    std::string(name.substr(close + 2))};
  bool lawful = bounds.size() == 3 && parse_index(bounds[0], parts.begin) &&
                parse_index(bounds[1], parts.end) && parse_index(bounds[2], parts.step) &&
                parts.step >= 1 && parts.begin < parts.end && !parts.stack.empty() &&
                !parts.leaf.empty();
  if (!lawful) return std::nullopt;
  return parts;
}

}  // namespace strata::sharding
