#!/usr/bin/env python3
"""Lists of layer kinds and what a stack of toys of these kinds must compute, by integer arithmetic.

Usage: make_layer_plan_cases.py > tests/testdata/nn/layer_plans.json

`sum`: layer i adds 10^i to a sum that starts at 0. `order`: h <- 3 h + i from h = 1. Both need every
layer exactly once, the second also in order.
"""
import json

HYBRID = ["linear"] * 3 + ["full"]
KINDS = {
    "dense 4": ["full"] * 4,
    "one layer": ["full"],
    "hybrid 8": HYBRID * 2,
    "hybrid 4, a single repetition": HYBRID,
    "1 dense + 5 moe": ["dense"] + ["moe"] * 5,
    "3 dense + 3 moe": ["dense"] * 3 + ["moe"] * 3,
    "hybrid 10, 8 and a tail of 2": HYBRID * 2 + ["linear"] * 2,
    "1 dense + hybrid 8": ["dense"] + HYBRID * 2,
    "irregular": ["linear", "full", "full", "linear"],
    "no two alike": ["linear", "full", "dense"],
    "names that end in s": ["loss", "class", "axis", "bias"] * 2,
    "two": ["full"] * 2,
    "seven": ["full"] * 7,
}


def case(name, kinds):
    total, order = 0, 1
    for i in range(len(kinds)):
        total, order = total + 10**i, 3 * order + i
    return {"name": name, "kinds": kinds, "sum": total, "order": order}


rows = [json.dumps(case(*item)) for item in KINDS.items()]
print("[\n " + ",\n ".join(rows) + "\n]")
