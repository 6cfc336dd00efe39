// TokenBatch: what one micro-step trains on, as host arrays of fixed shape, and the packing that
// fills it.
//
// A row holds groups side by side. A group is a prompt followed by its completions: each completion
// sees the prompt and itself, and is blind to the other completions, so a shared prompt is computed
// once. What is trained on is a separate list of scored tokens: each names the place whose hidden
// state predicts it, so that prompts and padding never meet the output head.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strata/base/host_tensor.h"

namespace strata::rl {

struct BatchShape {
  int64_t rows = 1;
  int64_t tokens = 512;  // of a row
  int64_t scored = 512;  // scored tokens of all rows together
  // The rows in as many equal groups, each with an equal share of the scored tokens: devices that
  // share out the rows then find the hidden states of theirs at home. Divides both.
  int64_t groups = 1;

  friend bool operator==(const BatchShape&, const BatchShape&) = default;
};

// One scored token's numbers; losses read those they need.
struct TokenTerm {
  float weight = 0;  // of its loss; 0 = not trained on
  float advantage = 0;
  float old_logprob = 0;      // under the policy before the step
  float sampler_logprob = 0;  // as the sampler reported it
  float reference_logprob = 0;
};

struct BatchCompletion {
  std::vector<int32_t> ids;
  // One a token of `ids`; tokens of weight 0 are attended to, not scored.
  std::vector<TokenTerm> terms;
  int64_t sample = 0;  // index in the step; comes back with the scores
};

struct BatchGroup {
  std::vector<int32_t> prompt;  // may be empty: then a completion's first token is not scored
  std::vector<BatchCompletion> completions;
  std::string id;  // for errors
};

// Where a scored token came from.
struct ScoredToken {
  int64_t sample = 0;
  int64_t position = 0;  // in its completion
  int64_t place = 0;     // in the batch's lists, and in what is computed for them
};

// Padding is segment 0 and weight 0.
struct TokenBatch {
  BatchShape shape;
  HostTensor ids, positions, segments, parents;  // (rows, tokens) i32
  HostTensor source, labels;        // (scored) i32: place in its group's rows · tokens; token id
  HostTensor sequence;              // (scored) i32: completion number in this batch
  HostTensor terms;                 // (5, scored) f32, in the order of TokenTerm
  std::vector<ScoredToken> scored;  // without padding
  int64_t real_tokens = 0;          // that are no padding
  int64_t sequences = 0;
};

// Tokens that a group takes of a row: the last token of a completion is only predicted, never read.
int64_t row_tokens(const BatchGroup& group);

// Packs groups into batches of one shape: first fit in the given order; a group that does not fit
// a row is cut between completions, each part with the prompt again. Throws out_of_range
// (rl.batch_row) naming the group when a prompt with a single completion exceeds a row or its
// scored tokens exceed the batch; invalid_argument (rl.batch_terms) when terms and ids differ in
// number.
std::vector<TokenBatch> pack(std::span<const BatchGroup> groups, const BatchShape& shape);

}  // namespace strata::rl
