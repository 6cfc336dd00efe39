// Which tokens of a completion are trained on, and what a completion that ran out of room costs.
// Masks are built from the positions of stop tokens, never from token values such as "is padding":
// the padding id is often a stop id.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace strata::rl {

// What happens to a completion that was cut by its length: `keep` trains on it, `mask` gives it no
// trained token (overlong filtering, DAPO, arXiv 2503.14476 §3.4). It never counts as finished.
enum class Overlong { keep, mask };

// "keep" or "mask". Throws invalid_argument (rl.mask_overlong).
Overlong parse_overlong(std::string_view name);

struct MaskOptions {
  // Every id that ends a completion.
  std::vector<int32_t> stop_ids;
  Overlong overlong = Overlong::keep;
};

// One completion as it was sampled, perhaps padded at its end.
struct CompletionIds {
  std::span<const int32_t> ids;
  // by_model[t] != 0 where the model made token t; 0 for a tool's output, which is attended to but
  // not trained on. Empty: the model made all of them.
  std::span<const uint8_t> by_model = {};
  // The sampler ended it at a stop string, so that it is finished without a stop token.
  bool stopped_by_text = false;
};

struct CompletionMask {
  // One a given id: 1 is trained on. The first stop token is included, nothing after it.
  std::vector<uint8_t> trained;
  // Number of ones: the length that losses divide by. Tool tokens are not in it.
  int64_t trained_tokens = 0;
  // Tokens up to and including the one that ended it (all of them when it was cut), tools' too.
  int64_t length = 0;
  // It ended by itself. Otherwise it was cut.
  bool finished = false;
};

// A stop token that is directly followed by a tool's token ends a turn, not the completion.
// An empty completion is cut and has no trained token.
// Throws invalid_argument (rl.mask_length) when by_model is given with another length than ids.
CompletionMask completion_mask(const CompletionIds& completion, const MaskOptions& options);

// The soft overlong punishment of DAPO (eq. 13): 0 up to max_tokens - window, falling in a straight
// line to -1 at max_tokens; -1 for every completion that was cut.
struct OverlongPenalty {
  int64_t max_tokens = 0;
  // 0: only cut completions are punished.
  int64_t window = 0;
};

// Throws invalid_argument (rl.mask_penalty) unless 0 <= window <= max_tokens and max_tokens > 0.
void check(const OverlongPenalty& penalty);

// In [-1, 0]; `tokens` is CompletionMask::length.
double overlong_penalty(int64_t tokens, bool finished, const OverlongPenalty& penalty);

}  // namespace strata::rl
