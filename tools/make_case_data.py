"""Collects what case generators wrote into tests/testdata/cases:

  two_shards/     a tiny Qwen3 in two shards, whose copies the tests damage
  two_shards.json ids and the float64 logits of the last one
  packing/        another tiny Qwen3
  packing.json    three documents, their tokens' negative log-probabilities one by one, the mean, and
                  what leaks between packed documents would give

The generators are c4_index_shards.py and h5_packing.py of the project's case collection (numpy
only); run each with an output directory, then this with both.

usage: make_case_data.py C4_DIR H5_DIR tests/testdata/cases
"""

import json
import pathlib
import shutil
import sys


def main(shards, packing, out):
    shutil.copytree(shards / "a_intact", out / "two_shards", dirs_exist_ok=True)
    shutil.copytree(packing / "dense", out / "packing", dirs_exist_ok=True)
    c4 = json.loads((shards / "expected.json").read_text())
    h5 = json.loads((packing / "expected.json").read_text())
    values = {"documents": h5["docs"], "nll": h5["dense"]["token_nll_per_doc"],
              "mean": h5["dense"]["loss_token_mean"],
              "wrong": [h5["dense"][k] for k in h5["dense"] if k.startswith("wrong_")]}
    for name, value in (("two_shards", {k: c4[k] for k in ("ids", "last_logits")}),
                        ("packing", values)):
        (out / f"{name}.json").write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:4]))
