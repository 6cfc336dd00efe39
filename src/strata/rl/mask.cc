#include "strata/rl/mask.h"

#include <fmt/format.h>

#include <algorithm>

#include "strata/base/error.h"

namespace strata::rl {
namespace {

bool made_by_model(const CompletionIds& c, size_t t) {
  return c.by_model.empty() || c.by_model[t] != 0;
}

bool ends_completion(const CompletionIds& c, size_t t, const std::vector<int32_t>& stop_ids) {
  if (!made_by_model(c, t)) return false;
  if (std::find(stop_ids.begin(), stop_ids.end(), c.ids[t]) == stop_ids.end()) return false;
  return t + 1 == c.ids.size() || made_by_model(c, t + 1);
}

}  // namespace

Overlong parse_overlong(std::string_view name) {
  if (name == "keep") return Overlong::keep;
  if (name == "mask") return Overlong::mask;
  fail({.id = "rl.mask_overlong",
        .where = "overlong",
        .expected = "keep or mask",
        .got = "'" + std::string(name) + "'"});
}

CompletionMask completion_mask(const CompletionIds& c, const MaskOptions& options) {
  require(c.by_model.empty() || c.by_model.size() == c.ids.size(),
          {.id = "rl.mask_length",
           .where = "completion mask",
           .expected = fmt::format("one by_model entry for each of {} tokens", c.ids.size()),
           .got = fmt::format("{}", c.by_model.size())});
  CompletionMask mask;
  mask.trained.assign(c.ids.size(), 0);
  mask.finished = c.stopped_by_text;
  size_t end = c.ids.size();
  for (size_t t = 0; t < end; ++t) {
    mask.trained[t] = made_by_model(c, t) ? 1 : 0;
    if (!ends_completion(c, t, options.stop_ids)) continue;
    mask.finished = true;
    end = t + 1;
  }
  mask.length = static_cast<int64_t>(end);
  if (!mask.finished && options.overlong == Overlong::mask) {
    std::fill(mask.trained.begin(), mask.trained.end(), uint8_t{0});
  }
  mask.trained_tokens = std::count(mask.trained.begin(), mask.trained.end(), 1);
  return mask;
}

void check(const OverlongPenalty& p) {
  require(p.max_tokens > 0 && p.window >= 0 && p.window <= p.max_tokens,
          {.id = "rl.mask_penalty",
           .where = "overlong penalty",
           .expected = "0 <= window <= max_tokens and max_tokens > 0",
           .got = fmt::format("window {}, max_tokens {}", p.window, p.max_tokens)});
}

double overlong_penalty(int64_t tokens, bool finished, const OverlongPenalty& penalty) {
  check(penalty);
  if (!finished || tokens > penalty.max_tokens) return -1;
  int64_t free = penalty.max_tokens - penalty.window;
  if (tokens <= free) return 0;
  return -static_cast<double>(tokens - free) / static_cast<double>(penalty.window);
}

}  // namespace strata::rl
