"""Prints sha256 digests of SmolLM2's tensors in Hugging Face's names and row order.

usage: make_smollm2_digests.py FILE.gguf > tests/testdata/weights/smollm2_sha256.json
needs: pip install gguf==0.19.0 numpy

The tensors are decoded to float32 by PyPI gguf; query and key rows are put back from
adjacent-pair to half-split order.
"""

import hashlib
import json
import sys

import gguf
import numpy as np

HEADS = {"attn_q": 9, "attn_k": 3}
NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
}


def half_split(rows, heads):
    shape = rows.shape
    return rows.reshape(heads, shape[0] // heads // 2, 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def main():
    digests = {}
    for tensor in gguf.GGUFReader(sys.argv[1]).tensors:
        parts = tensor.name.split(".")
        kind = parts[2] if parts[0] == "blk" else parts[0]
        prefix = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if kind in HEADS:
            values = half_split(values, HEADS[kind])
        data = np.ascontiguousarray(values.astype(np.float32)).tobytes()
        digests[f"{prefix}{NAMES[kind]}.weight"] = hashlib.sha256(data).hexdigest()
    json.dump(digests, sys.stdout, indent=0, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
