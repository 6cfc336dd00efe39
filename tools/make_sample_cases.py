"""Collects what two case generators wrote into tests/testdata/sample:

  filters.json   rows of logits with settings, the tokens the filters keep and their probabilities
  dense/         a tiny Qwen3 checkpoint
  dense.json     greedy continuations of three prompts by it, and where end-of-text ids stop them

The generators are g1_sampler_filters.py and g2_batch_and_eos.py of the project's case collection
(numpy only); run each with an output directory, then this with both.

usage: make_sample_cases.py G1_DIR G2_DIR tests/testdata/sample
"""

import json
import pathlib
import shutil
import sys

SETTINGS = {"T": "temperature", "k": "top_k", "p": "top_p", "mp": "min_p"}


def dump(value, path):
    """One entry a line."""
    lines = ",\n".join(json.dumps(entry) for entry in value)
    path.write_text("[\n" + lines + "\n]\n")


def main(filters, batches, out):
    out.mkdir(parents=True, exist_ok=True)
    rows = json.loads((filters / "expected.json").read_text())["rows"]
    dump([{"name": r["name"], "logits": r["logits"],
           "settings": {SETTINGS[k]: v for k, v in r["params"].items()},
           "kept": r["kept"], "probs": r["probs"]} for r in rows], out / "filters.json")
    cases = json.loads((batches / "expected.json").read_text())
    entries = [{"name": f"prompt_{i}", "prompt": p, "output": o}
               for i, (p, o) in enumerate(zip(cases["dense"]["prompts"],
                                              cases["dense"]["greedy_24"]))]
    for name in sorted(cases):
        if not name.startswith("eos_") or name == "eos_rules":
            continue
        generation = batches / name / "generation_config.json"
        config = json.loads((batches / name / "config.json").read_text())
        entries.append({"name": name, "prompt": cases[name]["prompt"],
                        "output": cases[name]["output"],
                        "config_eos": config["eos_token_id"],
                        "generation": json.loads(generation.read_text())
                        if generation.exists() else None})
    dump(entries, out / "dense.json")
    (out / "dense").mkdir(exist_ok=True)
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(batches / "dense" / name, out / "dense" / name)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:4]))
