#include "strata/rl/clip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "strata/base/error.h"

namespace strata::rl {

void check(const ClipOptions& o) {
  require(o.low >= 0 && o.low < 1 && o.high >= 0 && std::isfinite(o.high),
          {.id = "rl.clip_range",
           .where = "clip",
           .expected = "0 <= low < 1 and a finite high >= 0",
           .got = fmt::format("low {}, high {}", o.low, o.high)});
  require(!o.dual || (*o.dual > 1 + o.high && std::isfinite(*o.dual)),
          {.id = "rl.clip_dual",
           .where = "dual clip",
           .expected = fmt::format("a finite bound above 1 + high = {}", 1 + o.high),
           .got = fmt::format("{}", o.dual.value_or(0)),
           .cure = "A smaller bound would undo the clip; 3 is usual"});
}

ClipTerm clip_term(double advantage, double ratio, const ClipOptions& o) {
  check(o);
  ClipTerm term;
  double held = std::clamp(ratio, 1 - o.low, 1 + o.high);
  term.loss = -std::min(ratio * advantage, held * advantage);
  term.clipped_low = advantage < 0 && ratio < 1 - o.low;
  term.clipped_high = advantage > 0 && ratio > 1 + o.high;
  if (!term.clipped_low && !term.clipped_high) term.gradient = -advantage * ratio;
  if (o.dual && advantage < 0 && term.loss > -*o.dual * advantage) {
    term.clipped_dual = true;
    term.loss = -*o.dual * advantage;
    term.gradient = 0;
  }
  return term;
}

}  // namespace strata::rl
