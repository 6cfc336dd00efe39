"""Writes tests/testdata/optim/optax.json: four steps of optax's optimisers on small arrays.

Run with jax 0.12.0.1 and optax 0.2.8:
    python tools/make_optax_cases.py > tests/testdata/optim/optax.json

Weights are (out, in).
"""
import json

import jax.numpy as jnp
import numpy as np
import optax
from optax import contrib

STEPS = 4
RATE = 0.02
# A wide and a tall matrix, a square one, two layers of a matrix (one array each: optax would mix the
# layers of a stacked array), a bias.
SHAPES = {"wide": (5, 7), "tall": (8, 6), "square": (6, 6), "layers.0": (4, 9), "layers.1": (4, 9),
          "bias": (6,)}


def flat(array):
    # The shortest decimal that is read back as the same float32.
    return [float(str(x)) for x in np.asarray(array, np.float32).reshape(-1)]


def kernels(params):
    matrix = contrib.MuonDimensionNumbers(reduction_axis=1, output_axis=0)
    return {k: matrix if len(SHAPES[k]) == 2 else None for k in params}


def run(transformation, start, gradients):
    params = {k: jnp.asarray(v) for k, v in start.items()}
    state = transformation.init(params)
    steps = []
    for g in gradients:
        updates, state = transformation.update({k: jnp.asarray(v) for k, v in g.items()}, state,
                                               params)
        params = optax.apply_updates(params, updates)
        steps.append({k: flat(v) for k, v in params.items()})
    return steps


def main():
    rng = np.random.default_rng(20)
    draw = lambda: {k: rng.normal(size=s).astype(np.float32) for k, s in SHAPES.items()}
    start = draw()
    gradients = [draw() for _ in range(STEPS)]
    cases = {
        "adamw": optax.adamw(RATE),
        "nadamw": optax.nadamw(RATE, b1=0.8, b2=0.95, weight_decay=0.1),
        "sgd": optax.sgd(RATE, momentum=0.9, nesterov=True),
        "lion": optax.lion(RATE),
        "adafactor": optax.adafactor(RATE, min_dim_size_to_factor=4),
        "adafactor with momentum and decay": optax.adafactor(
            RATE, min_dim_size_to_factor=4, momentum=0.9, weight_decay_rate=1e-3),
        "muon": contrib.muon(RATE, weight_decay=0.1, muon_weight_dimension_numbers=kernels),
    }
    out = {"optax": optax.__version__, "rate": RATE,
           "shapes": {k: list(s) for k, s in SHAPES.items()},
           "start": {k: flat(v) for k, v in start.items()},
           "gradients": [{k: flat(v) for k, v in g.items()} for g in gradients],
           "cases": {name: run(t, start, gradients) for name, t in cases.items()}}
    print(json.dumps(out))


main()
