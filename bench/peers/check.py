#!/usr/bin/env python3
"""Checks that train_jax.py and train_torch.py compute the same: check.py MODEL_DIR

Each makes four steps on the same tokens. The first losses show that the models agree, the later
ones that gradients and AdamW do. Standard library only; takes a few minutes.
"""

import argparse
import os
import sys

import compare

STEPS = 4
# Relative to the loss. bf16: 8 bits of mantissa, other roundings in the two frameworks.
TOLERANCE = {"f32": 1e-4, "bf16": 3e-3}


def losses(command):
    program = compare.Program(command, oneshot=False, cpus=sorted(os.sched_getaffinity(0))[:2])
    try:
        return [program.repetition()["loss"] for _ in range(STEPS)]
    finally:
        program.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", metavar="MODEL_DIR")
    model = ["--model", parser.parse_args().model]
    failed = False
    for dtype, tolerance in TOLERANCE.items():
        expected = losses(["train_torch.py", *model, "--dtype", dtype])
        print(f"torch {dtype}: losses {expected}")
        if not expected[0] - expected[-1] > 5 * tolerance * expected[0]:
            sys.exit(f"check.py: the losses fall too little to show anything: {expected}")
        for layers, remat in [("scan", "none"), ("unrolled", "none"), ("scan", "dots")]:
            flags = ["--dtype", dtype, "--layers", layers, "--remat", remat]
            got = losses(["train_jax.py", *model, *flags])
            off = max(abs(a - b) / a for a, b in zip(expected, got))
            good = off <= tolerance
            failed |= not good
            print(f"jax {' '.join(flags)}: {'equal' if good else 'DIFFERS'}, {off:.1e}, {got}")
    sys.exit("check.py: the peers differ" if failed else 0)


if __name__ == "__main__":
    main()
