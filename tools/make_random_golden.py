"""Writes tests/testdata/ops/random.json: what jax.random gives for small cases.

Run with jax 0.12.0.1 and jaxlib 0.12.0.1:
    python tools/make_random_golden.py > tests/testdata/ops/random.json

Integers are written as numbers, floats by their bits (hexadecimal), so that nothing is rounded on
the way. The defaults are meant: generator threefry2x32, jax_threefry_partitionable, gumbel mode
"low". Seeds of 64 bits, u64 bits and f64 need jax_enable_x64; it changes nothing else here.
"""

import json
import sys

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
assert jax.__version__ == "0.12.0.1", jax.__version__
assert jax.config.jax_threefry_partitionable
assert jax.config.jax_default_prng_impl == "threefry2x32"

FLOATS = ("float32", "float64", "bfloat16", "float16")
NAMES = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}


def words(x):
    return [int(v) for v in np.asarray(x).reshape(-1)]


def bits(x):
    x = np.asarray(x)
    return [format(int(v), "x") for v in x.reshape(-1).view(f"u{x.dtype.itemsize}")]


def data(key):
    return words(jax.random.key_data(key))


def main():
    key = jax.random.key(42)
    shape = (3, 5)
    logits = jax.random.normal(jax.random.key(5), (4, 11), "float32") * 3
    rows = jax.random.categorical(key, logits, axis=-1)
    columns = jax.random.categorical(key, logits, axis=0)
    out = {
        "jax": jax.__version__,
        "keys": [{"seed": str(s), "key": data(jax.random.key(np.uint64(s)))}
                 for s in (0, 1, 42, 2**32 - 1, 2**32 + 7, 2**63 + 5)],
        "fold_in": [{"data": d, "key": data(jax.random.fold_in(key, d))}
                    for d in (0, 1, 7, 2**31, 2**32 - 1)],
        "split": [{"count": n, "keys": data(jax.random.split(key, n))} for n in (1, 2, 5)],
        "bits": [{"dtype": "u" + str(w), "dims": list(s),
                  "bits": [str(v) for v in words(jax.random.bits(key, s, f"uint{w}"))]}
                 for w in (8, 16, 32, 64) for s in ((), (7,), shape)],
        "uniform": [{"dtype": NAMES[d], "low": low, "high": high,
                     "bits": bits(jax.random.uniform(key, shape, d, low, high))}
                    for d in FLOATS for low, high in ((0, 1), (-2, 3))],
        "normal": [{"dtype": NAMES[d], "bits": bits(jax.random.normal(key, shape, d))}
                   for d in FLOATS],
        "gumbel": [{"dtype": NAMES[d], "bits": bits(jax.random.gumbel(key, shape, d))}
                   for d in FLOATS],
        "categorical": {"logits": bits(logits), "dims": list(logits.shape),
                        "rows": words(rows), "columns": words(columns)},
        "bernoulli": {"p": 0.3, "dims": [40],
                      "draws": words(jax.random.bernoulli(key, np.float32(0.3), (40,)))},
    }
    json.dump(out, sys.stdout, indent=1)
    print()


main()
