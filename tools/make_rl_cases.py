"""Writes tests/testdata/rl/cases.json: right values, and the usual wrong ones, for the host side of
the GRPO loss, computed in plain Python from the formulas (no library, no code of Strata).

usage: make_rl_cases.py OUT.json
"""

import json
import math
import statistics
import sys

# Per-token losses of four micro-batches of two samples each; the longest completion allowed is 8.
MICRO_BATCHES = [
    [[0.252, 0.136, 1.239], [-0.032]],
    [[-1.318, -0.009, 0.52, 1.208, 1.876], [-1.355, -0.571]],
    [[-0.159], [0.895]],
    [[-0.181, -0.608, -0.223, -1.206, -0.626, 0.39, -0.081, -1.36], [-1.776, 1.274, 1.341]],
]
MAX_TOKENS = 8


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def flat(rows):
    return [x for row in rows for x in row]


def accumulation():
    samples = flat(MICRO_BATCHES)
    tokens = flat(samples)
    return {
        "micro_batches": MICRO_BATCHES,
        "max_tokens": MAX_TOKENS,
        "token_mean": sum(tokens) / len(tokens),
        "sequence_mean": mean(mean(s) for s in samples),
        "constant": sum(tokens) / (len(samples) * MAX_TOKENS),
        "wrong_mean_of_micro_means": mean(mean(flat(mb)) for mb in MICRO_BATCHES),
        "wrong_divided_again": sum(tokens) / len(tokens) / len(MICRO_BATCHES),
        "two_steps_token_mean": [mean(flat(samples[:4])), mean(flat(samples[4:]))],
    }


def masked():
    loss = [[-0.109, -0.217, 0.817, 0.876, 1.307], [1.747, 0.257, -2.115, 0.691, -0.318],
            [-1.734, 0.729, 1.707, -0.515, 0.558], [1.009, 0.336, 0.623, -0.27, -0.234]]
    lengths, truncated = [4, 5, 0, 2], [False, True, False, False]
    kept = [0 if cut else n for n, cut in zip(lengths, truncated)]
    sums = [sum(row[:n]) for row, n in zip(loss, kept)]
    return {
        "loss": loss,
        "lengths": lengths,
        "truncated": truncated,
        "token_mean": sum(sums) / sum(kept),
        "sequence_mean_over_all": mean(s / max(n, 1) for s, n in zip(sums, kept)),
        "wrong_truncated_still_counted": sum(sums) / sum(lengths),
        "wrong_one_token_per_masked_sequence": sum(sums) / sum(max(n, 1) for n in kept),
    }


def clip():
    low, high, dual, rows = 0.2, 0.28, 3.0, []
    for a in (1.0, -1.0, 0.0):
        for q in (0.5, 0.79, 0.9, 1.0, 1.2, 1.27, 1.29, 2.0, 3.5, 10.0):
            plain = max(-a * q, -a * min(max(q, 1 - low), 1 + high))
            out = (a > 0 and q > 1 + high) or (a < 0 and q < 1 - low)
            gradient = 0.0 if out or a == 0 else -a * q
            bounded = a < 0 and -a * q > dual
            rows.append({"A": a, "ratio": q, "loss": plain, "gradient": gradient, "clipped": out,
                         "dual_loss": min(plain, -a * dual) if a < 0 else plain,
                         "dual_gradient": 0.0 if bounded else gradient})
    return {"low": low, "high": high, "dual": dual, "rows": rows}


def masks():
    # Stop ids 0 and 3; the padding id is 0 as well.
    return {
        "stop_ids": [0, 3],
        "completions": [[5, 6, 0, 0, 0], [5, 6, 7, 8, 9], [0, 0, 0, 0, 0], [5, 0, 6, 7, 0],
                        [5, 3, 0, 0, 0]],
        "trained": [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0],
                    [1, 1, 0, 0, 0]],
        "finished": [True, False, True, True, True],
        "tools": {"ids": [5, 6, 7, 8, 9, 3], "by_model": [1, 1, 0, 0, 1, 1],
                  "trained": [1, 1, 0, 0, 1, 1]},
    }


def advantages():
    out = []
    for rewards in ([1, 0, 0, 0], [0.5, 0.75, 1.0, 0.25, 0.5, 0.0, 1.0, 1.0], [0.1, 0.1, 0.1],
                    [0, 1], [3.5, -2.25, 1e6]):
        m = mean(rewards)
        same = max(rewards) == min(rewards)
        row = {"rewards": rewards}
        for name, deviation in (("sample", statistics.stdev), ("population", statistics.pstdev)):
            d = deviation(rewards) + 1e-4
            row[name] = [0.0 if same else (r - m) / d for r in rewards]
        row["none"] = [0.0 if same else r - m for r in rewards]
        out.append(row)
    return out


def main():
    cases = {"accumulation": accumulation(), "masked": masked(), "clip": clip(), "masks": masks(),
             "advantages": advantages()}
    assert math.isclose(cases["accumulation"]["token_mean"], -0.0155833333333)
    with open(sys.argv[1], "w") as f:
        json.dump(cases, f, indent=1)
        f.write("\n")


main()
