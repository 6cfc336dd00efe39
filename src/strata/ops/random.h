// Counter-based random numbers, bit for bit those of jax.random 0.12 with its default generator
// threefry2x32 and jax_threefry_partitionable. Formulas: Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3" (SC 2011), Threefry-2x32 with 20 rounds; the derivation of keys and samples
// is jax.random's. tests/testdata/ops/random.json holds its values.
//
// A key is a u32[2]. Nothing here keeps state: equal keys give equal samples, so derive a new key
// (fold_in, split) for each use. Misuse throws invalid_argument with id ops.<name>.
#pragma once

#include <cstdint>

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kThreefry2x32;

// The key of a seed: its upper and lower 32 bits. (jax without jax_enable_x64 drops the upper.)
ir::Value key(ir::Function& function, uint64_t seed);
// A key for the `data`-th purpose; `data` is a rank-0 integer, taken modulo 2^32.
ir::Value fold_in(ir::Value key, ir::Value data);
ir::Value fold_in(ir::Value key, uint32_t data);
// `count` keys, as u32[count, 2].
ir::Value split(ir::Value key, int64_t count);

// Uniform bits; `dtype` is u8, u16, u32 or u64.
ir::Value random_bits(ir::Value key, DType dtype, const Dims& dims);
// Uniform floats (f16, bf16, f32, f64) in [low, high).
ir::Value uniform(ir::Value key, DType dtype, const Dims& dims, double low = 0, double high = 1);
// Standard normal floats, from `uniform` by the inverse error function.
ir::Value normal(ir::Value key, DType dtype, const Dims& dims);
// Standard Gumbel floats: -log(-log(u)).
ir::Value gumbel(ir::Value key, DType dtype, const Dims& dims);
// Indices (i32) drawn from softmax(logits) along `axis`, which is dropped: the argmax of
// logits + Gumbel noise.
ir::Value categorical(ir::Value key, ir::Value logits, int64_t axis = -1);
// Predicates that are true with probability `p` (floats; one draw per element).
ir::Value bernoulli(ir::Value key, ir::Value p);

}  // namespace strata::ops
