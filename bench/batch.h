// What the benchmarks of training train on.
#pragma once

#include <algorithm>
#include <vector>

#include "strata/nn/structure.h"
#include "strata/optim/adamw.h"
#include "strata/optim/update.h"
#include "strata/rl/token_batch.h"

namespace strata::bench {

// A full batch, one sequence a row, every token scored.
inline rl::TokenBatch batch_of(int64_t rows, int64_t tokens, int64_t vocabulary) {
  int64_t all = rows * tokens;
  rl::TokenBatch b;
  b.shape = {rows, tokens, all};
  std::vector<int32_t> ids, positions, labels, source, sequence, ones(all, 1);
  for (int64_t i = 0; i < all; ++i) {
    ids.push_back(static_cast<int32_t>((i * 7919 + 13) % vocabulary));
    labels.push_back(static_cast<int32_t>(((i + 1) * 7919 + 13) % vocabulary));
    positions.push_back(static_cast<int32_t>(i % tokens));
    source.push_back(static_cast<int32_t>(i));
    sequence.push_back(static_cast<int32_t>(i / tokens));
  }
  Dims grid{rows, tokens}, list{all};
  b.ids = HostTensor::of<int32_t>(grid, ids);
  b.positions = HostTensor::of<int32_t>(grid, positions);
  b.segments = HostTensor::of<int32_t>(grid, ones);
  b.parents = HostTensor::of<int32_t>(grid, std::vector<int32_t>(ones.size(), 0));
  b.source = HostTensor::of<int32_t>(list, source);
  b.labels = HostTensor::of<int32_t>(list, labels);
  b.sequence = HostTensor::of<int32_t>(list, sequence);
  std::vector<float> terms(5 * ones.size(), 0);
  std::fill(terms.begin(), terms.begin() + all, 1.0f);
  b.terms = HostTensor::of<float>({5, all}, terms);
  b.real_tokens = all;
  b.sequences = rows;
  return b;
}

// AdamW at a constant rate, clipped at 1.
inline optim::UpdatePlan plan_of(const nn::Structure& structure) {
  return optim::UpdatePlan(optim::make_adamw(),
                           optim::Groups(structure.manifest(), optim::default_groups()),
                           optim::Schedule({.kind = "constant", .peak = 1e-5}), 1.0);
}

}  // namespace strata::bench
