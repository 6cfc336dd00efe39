#!/usr/bin/env python3
"""Makes tests/testdata/oracles/qwen3_peft: an adapter as PEFT saves it, and its logits.

Needs torch, transformers, peft and safetensors. The base is tests/testdata/oracles/qwen3; the
adapter has rank 3, rank-stabilised, on every q_proj and down_proj, with B filled so that it
changes the logits. Written with peft 0.21.2, transformers 5.24.0, torch 2.15.0.

    python3 tools/make_peft_golden.py
"""

import json
import pathlib
import shutil
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

ORACLES = pathlib.Path(__file__).resolve().parent.parent / "tests/testdata/oracles"
# What a reader needs of adapter_config.json; the rest differs from version to version.
KEYS = ["peft_type", "r", "lora_alpha", "use_rslora", "target_modules", "bias", "lora_dropout"]


def main():
    torch.manual_seed(11)
    base = AutoModelForCausalLM.from_pretrained(ORACLES / "qwen3", dtype=torch.float32)
    config = LoraConfig(r=3, lora_alpha=5, use_rslora=True, target_modules=["q_proj", "down_proj"])
    model = get_peft_model(base, config).eval()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    ids = torch.tensor([[3, 14, 15, 92, 65, 35]], dtype=torch.int32)
    with torch.no_grad():
        logits = model(ids.long()).logits
    out = ORACLES / "qwen3_peft"
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(scratch)
        shutil.copy(pathlib.Path(scratch) / "adapter_model.safetensors", out)
        saved = json.loads((pathlib.Path(scratch) / "adapter_config.json").read_text())
    kept = {key: saved[key] for key in KEYS}
    kept["target_modules"] = sorted(kept["target_modules"])
    (out / "adapter_config.json").write_text(json.dumps(kept, indent=2) + "\n")
    save_file({"input_ids": ids, "logits": logits.contiguous()}, out / "golden.safetensors")


if __name__ == "__main__":
    main()
