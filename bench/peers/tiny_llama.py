"""Writes a llama of 24 narrow layers, 218 parameters (with AdamW's moments 654): tiny_llama.py DIR

Its steps compute next to nothing, so that what a host does for a step shows.
"""

import json
import os
import sys

import numpy as np
from safetensors.numpy import save_file

HIDDEN, INNER, LAYERS, HEADS, VOCABULARY = 64, 128, 24, 4, 256


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    random = np.random.default_rng(0)

    def matrix(*shape):
        return (random.standard_normal(shape) * 0.02).astype(np.float32)

    tensors = {
        "model.embed_tokens.weight": matrix(VOCABULARY, HIDDEN),
        "model.norm.weight": np.ones(HIDDEN, np.float32),
    }
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        for name in ("q", "k", "v", "o"):
            tensors[at + f"self_attn.{name}_proj.weight"] = matrix(HIDDEN, HIDDEN)
        tensors[at + "mlp.gate_proj.weight"] = matrix(INNER, HIDDEN)
        tensors[at + "mlp.up_proj.weight"] = matrix(INNER, HIDDEN)
        tensors[at + "mlp.down_proj.weight"] = matrix(HIDDEN, INNER)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[at + name + ".weight"] = np.ones(HIDDEN, np.float32)
    save_file(tensors, os.path.join(directory, "model.safetensors"))
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
        "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "vocab_size": VOCABULARY,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": True,
    }  # fmt: skip
    with open(os.path.join(directory, "config.json"), "w") as file:
        json.dump(config, file, indent=1)


if __name__ == "__main__":
    main()
